"""A fork: a recording up to a step, and from there on another schedule, or other objects.

What was done up to the step is repeated strictly, outside input included. Then another strategy
answers, no recorded input enters any more, and what the user adds is applied: with server-side
apply, by the administrator, as the first thing after the step. A fork is a run like any other: it
can be recorded, replayed, forked again, and compared with the run that it left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from attrs import define, frozen

from actors import PrefixThenContinue
from actors.inlet import STOP
from controlplane.api.request import ADMIN
from controlplane.apiserver.http.message import packed
from controlplane.cluster_config import APISERVER
from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import DEFAULT_KINDS, Execution
from controlplane.scenarios.inputs.submission import Resources, namespace_of

if TYPE_CHECKING:
    from actors import EventLog, Recording, Strategy
    from controlplane.api.tree import Tree
    from controlplane.apiserver.front.answering import HttpAnswer
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.inputs.reading import Submission

__all__ = ["Applied", "Fork", "forked"]

MANAGER: Final = "controlplane-fork"
FIRST: Final = 1 << 40
"""Number of the first request of a fork: above those of connections, whose numbers a stream may still hold."""


@define
class Applied:
    """An object that was added, and what the API server answered; `code` 0: nothing, as the run ended before."""

    submission: Submission
    code: int = 0
    message: str = ""

    @property
    def refusal(self) -> UsageError | None:
        """The reason why it was not taken; None if it was."""
        if 200 <= self.code < 300:
            return None
        return self.submission.error(
            "", self.message if self.code else "the run ended before anybody answered"
        )


@frozen
class Fork:
    """A run that has yet to be executed, and what becomes of what was added to it."""

    run: Execution
    applied: Sequence[Applied]


def forked(
    plan: Plan,
    recording: Recording,
    step: int,
    strategy: Strategy,
    *,
    add: Sequence[Submission] = (),
    log: EventLog | None = None,
) -> Fork:
    """The run that goes on otherwise after `step` of a recording. Raises UsageError.

    `strategy` answers from there on; `add` is applied first of all.
    """
    if not 0 <= step <= recording.steps:
        raise UsageError(f"step {step}: the recording has steps 1 to {recording.steps}")
    plan = plan.recorded_in(recording.header)
    kinds = () if plan.scenario.window(plan) is None else DEFAULT_KINDS
    prefix = PrefixThenContinue(recording.choices, strategy, until_step=step, default_kinds=kinds)
    inputs = [each for each in recording.inputs if each.step < step and each.actor != STOP]
    run = Execution(plan, prefix, log=log, inputs=inputs)
    applied = [Applied(each) for each in add]
    if applied:
        resources = _resources(plan)
        inlet = run.world.inlet()
        for number, each in enumerate(applied, FIRST):
            inlet.put_after(
                step, APISERVER, _request(number, each.submission, resources), _note(each)
            )
    return Fork(run, applied)


def _resources(plan: Plan) -> Resources:
    """The served kinds: the built-in ones, and those that the run's own files define."""
    known = getattr(plan.given, "resources", None)
    if isinstance(known, Resources):
        return known
    from controlplane.apiserver.options import ServerOptions
    from controlplane.apiserver.requests.server import ApiServer

    return Resources(ApiServer(uid=str, suffix=str, options=ServerOptions(release=plan.release)))


def _request(number: int, submission: Submission, resources: Resources) -> dict[str, Any]:
    """The request that applies an object."""
    tree: Tree = submission.tree
    resource, namespaced = resources.of(submission)
    name = (tree.get("metadata") or {}).get("name")
    if not name:
        raise submission.error("metadata.name", "expected a name")
    namespace = namespace_of(tree, namespaced=namespaced)
    root = f"/apis/{resource.group}" if resource.group else "/api"
    within = f"/namespaces/{quote(namespace)}" if namespaced else ""
    path = f"{root}/{resource.version}{within}/{resource.name}/{quote(str(name))}"
    query = {"fieldManager": [MANAGER], "force": ["true"], "fieldValidation": ["Strict"]}
    headers = [("content-type", "application/apply-patch+yaml"), ("accept", "application/json")]
    return packed(number, "PATCH", path, query, headers, json.dumps(tree).encode(), ADMIN)


def _note(applied: Applied) -> Callable[[HttpAnswer | None], None]:
    """The objects that protect it from deletion."""

    def answered(answer: HttpAnswer | None) -> None:
        if answer is None:
            applied.code, applied.message = 503, "the API server is down"
            return
        applied.code = answer.code
        if answer.code >= 300 and isinstance(answer.tree, dict):
            applied.message = " ".join(str(answer.tree.get("message", "")).split())

    return answered
