"""The life of an object: which stage matches it, when the stage plays, and what its steps ask for.

Decisions only: chance comes as a function, requests are values. Upstream: pkg/utils/lifecycle and
pkg/utils/expression.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen

from controlplane.api.durations import DurationError, parse_duration
from controlplane.api.times import parse_go_time
from controlplane.kwok import jq
from controlplane.kwok.cel import environment, results
from controlplane.kwok.rendering import Renderer
from controlplane.kwok.stages import Expression, Requirement, Stage, Step

__all__ = [
    "Action", "Apply", "Candidate", "Delete", "Draw", "Event", "KwokError", "Patch", "actions", "candidates", "delay",
    "delay_range", "lot", "match", "weight",
]  # fmt: skip

Draw = Callable[[int], int]
"""A random number from 0 up to, not including, the argument."""
Tree = Mapping[str, Any]
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_TYPED: Final = frozenset((("v1", "Pod"), ("v1", "Node")))
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


class KwokError(ValueError):
    """A stage that cannot be compiled, matched or rendered; the text is upstream's."""


# -- values of expressions -------------------------------------------------------------------------


@frozen
class Moment:
    """An object at an instant: `now` in nanoseconds since the epoch, `floats` its tree as Go decodes JSON."""

    tree: Tree
    now: int
    draw: Callable[[], float]
    floats: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "floats", _floats(self.tree))

    def query(self, source: str) -> list[Any] | None:
        """Return the outputs of a query. Raises KwokError when it cannot be read."""
        try:
            return jq.query(source).outputs(self.floats, self.now)
        except jq.JqSyntaxError as error:
            raise KwokError(str(error)) from None

    def cel(self, source: str) -> Any:
        """Return the value of an expression of CEL. Raises ExpressionError."""
        return environment.evaluate(source, self.tree, self.now, self.draw)


def _floats(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _floats(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def check(requirement: Requirement, api_version: str, kind: str) -> None:
    """Refuse a requirement of objects of a kind that can never be asked. Raises KwokError, ExpressionError."""
    if requirement.cel is not None:
        environment.check(requirement.cel, api_version, kind)
        return
    try:
        jq.query(requirement.key)
    except jq.JqSyntaxError as error:
        raise KwokError(str(error)) from None
    if requirement.operator not in _OPERATORS:
        raise KwokError(f"operator {json.dumps(requirement.operator)} is not supported")
    if requirement.operator in ("In", "NotIn"):
        if not requirement.values:
            raise KwokError("for 'in', 'notin' operators, values set can't be empty")
    elif requirement.values:
        raise KwokError("values set must be empty for exists and does not exist")


def meets(requirement: Requirement, moment: Moment) -> bool:
    """Return whether an object meets a requirement. Raises KwokError."""
    if requirement.cel is not None:
        return results.as_bool(moment.cel(requirement.cel))
    found = moment.query(requirement.key)
    if requirement.operator in ("Exists", "DoesNotExist"):
        return bool(found) is (requirement.operator == "Exists")
    among = any(_text(each) in requirement.values for each in found or ())
    return among is (requirement.operator == "In")


def _text(value: Any) -> str | None:
    """Return what a selector's values are compared with; numbers of the object are floats, which equal none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


# -- matching --------------------------------------------------------------------------------------


def compile_expressions(stage: Stage) -> None:
    """Refuse a stage with a query or an expression that can never be asked. Raises KwokError, ExpressionError."""
    assert stage.selector is not None
    for requirement in stage.selector.requirements:
        check(requirement, stage.api_version, stage.kind)
    delay = stage.delay
    sources = (stage.weight_from, *((delay.duration_from, delay.jitter_from) if delay else ()))
    for source in sources:
        if source is None:
            continue
        if source.cel is not None:
            environment.check(source.cel, stage.api_version, stage.kind)
        elif source.jq is not None:
            try:
                jq.query(source.jq)
            except jq.JqSyntaxError as error:
                raise KwokError(str(error)) from None


def _matches(stage: Stage, moment: Moment) -> bool:
    selector = stage.selector
    if selector is None:
        return False
    compile_expressions(stage)
    meta = moment.tree.get("metadata") or {}
    for wanted, has in (
        (selector.labels, meta.get("labels") or {}),
        (selector.annotations, meta.get("annotations") or {}),
    ):
        if any(has.get(key) != value for key, value in wanted.items()):
            return False
    plain = [each for each in selector.requirements if each.cel is None]
    conditions = [each for each in selector.requirements if each.cel is not None]
    return all(meets(each, moment) for each in (*plain, *conditions))


def weight(stage: Stage, moment: Moment) -> int | None:
    """Return the weight of a stage; None where it has none. Raises KwokError."""
    source = stage.weight_from
    if source is None:
        return stage.weight
    if source.cel is not None:
        return results.as_int(moment.cel(source.cel))
    found = moment.query(source.jq or "")
    if not found:
        return stage.weight
    value = found[0]
    if isinstance(value, str):
        try:
            return int(value, 0) if value else None
        except ValueError:
            return int(value, 8) if re.fullmatch(r"[+-]?0[0-7]+", value) else None
    return int(value) if isinstance(value, float) else stage.weight


@frozen
class Candidate:
    """A stage that matches, with its weight; None where it has none."""

    stage: Stage
    weight: int | None


def _matched(stages: Sequence[Stage], moment: Moment) -> list[Candidate]:
    found = [stage for stage in stages if _matches(stage, moment)]
    if len(found) < 2:
        return [Candidate(stage, None) for stage in found]
    return [Candidate(stage, weight(stage, moment)) for stage in found]


def candidates(stages: Sequence[Stage], moment: Moment) -> list[Stage]:
    """Return the stages of which one is chosen. Raises KwokError when any stage cannot be asked."""
    return _candidates(_matched(stages, moment))


def _candidates(found: Sequence[Candidate]) -> list[Stage]:
    weights = [each.weight for each in found if each.weight is not None]
    if len(found) < 2 or not weights:
        return [each.stage for each in found]
    if sum(weights) == 0:
        whole = len(weights) == len(found)
        return [
            each.stage for each in found if whole or (each.weight is not None and each.weight >= 0)
        ]
    return [each.stage for each in found if each.weight is not None and each.weight > 0]


@frozen
class Lot:
    """Stages of which one is drawn: a number below `total` falls to each by its weight."""

    stages: tuple[Stage, ...]
    weights: tuple[int, ...] = ()
    total: int = 0

    def at(self, number: int) -> Stage:
        """Return the stage that a number falls to; the last one where it falls to none."""
        for stage, share in zip(self.stages, self.weights, strict=True):
            number -= max(share, 0)
            if share > 0 and number < 0:
                return stage
        return self.stages[-1]


def lot(stages: Sequence[Stage], moment: Moment) -> Lot:
    """Return the stages that match, with what each is drawn by. Raises KwokError."""
    found = _matched(stages, moment)
    total = sum(each.weight for each in found if each.weight is not None)
    if len(found) < 2:
        return Lot(tuple(each.stage for each in found))
    if total < 0:
        raise KwokError("invalid argument to Int63n")
    if total:
        weights = tuple(each.weight or 0 for each in found)
        return Lot(tuple(each.stage for each in found), weights, total)
    even = _candidates(found)
    return Lot(tuple(even), (1,) * len(even), len(even))


def match(stages: Sequence[Stage], moment: Moment, draw: Draw) -> Stage | None:
    """Return the stage that plays next, by weight where several match. Raises KwokError."""
    found = lot(stages, moment)
    if not found.total:
        return found.stages[0] if found.stages else None
    return found.at(draw(found.total))


# -- delays ----------------------------------------------------------------------------------------


def _duration(source: Expression | None, value: int | None, moment: Moment) -> int | None:
    if source is None:
        return value
    if source.cel is not None:
        return results.as_duration(moment.cel(source.cel))
    if source.jq is None:
        return value
    found = moment.query(source.jq)
    if found and isinstance(found[0], str):
        if not found[0]:
            return None
        try:
            return parse_go_time(found[0]) - moment.now
        except ValueError:
            pass
        try:
            return parse_duration(found[0])
        except DurationError:
            return value
    return value


def delay_range(stage: Stage, moment: Moment) -> tuple[int, ...] | None:
    """Return the delay in nanoseconds, or its two bounds; None where the stage has none. Raises KwokError."""
    if stage.delay is None:
        return None
    duration = _duration(stage.delay.duration_from, stage.delay.duration, moment)
    if duration is None:
        return None
    if stage.delay.jitter is None and stage.delay.jitter_from is None:
        return (duration,)
    jitter = _duration(stage.delay.jitter_from, stage.delay.jitter, moment)
    if jitter is None:
        return (duration,)
    return (jitter,) if jitter <= duration else (duration, jitter)


def delay(stage: Stage, moment: Moment, draw: Draw) -> int | None:
    """Return the delay in nanoseconds, drawn between its bounds. Raises KwokError."""
    bounds = delay_range(stage, moment)
    if bounds is None or len(bounds) == 1:
        return bounds[0] if bounds else None
    return bounds[0] + draw(bounds[1] - bounds[0])


# -- steps -----------------------------------------------------------------------------------------


@frozen
class Event:
    """An event about the object."""

    type: str
    reason: str
    message: str


@frozen
class Delete:
    """The deletion of the object, without grace."""


@frozen
class Patch:
    """A patch of the object, or of a subresource."""

    data: Any
    type: str
    subresource: str = ""
    impersonation: Any = None


@frozen
class Apply:
    """An object to create, or to patch where it exists."""

    data: Any
    type: str
    subresource: str = ""
    impersonation: Any = None


Action = Event | Delete | Patch | Apply


def actions(
    steps: Sequence[Step], tree: Tree, render: Renderer, start: int = 0
) -> Iterator[tuple[int, Action]]:
    """Yield the number of the step and what it asks for, one by one; the caller carries each out before the next.

    The object is the one that the stage was matched with. Raises KwokError with the step's number in `args[1]`.
    """
    finalizers = list((tree.get("metadata") or {}).get("finalizers") or ())
    deleted = False
    for at, step in enumerate(steps[start:], start):
        if step.event is not None:
            event = step.event
            yield at, Event(*(str(event.get(name) or "") for name in ("type", "reason", "message")))
        if deleted:
            continue
        if step.finalizers is not None:
            operations = finalizer_patch(finalizers, step.finalizers)
            if operations:
                yield at, Patch(operations, JSON_PATCH)
        if step.delete:
            deleted = True
            yield at, Delete()
            continue
        try:
            if step.patch is not None:
                yield at, _patch(step.patch, tree, render)
            if step.apply is not None:
                yield at, _apply(step.apply, tree, render)
        except KwokError as error:
            raise KwokError(str(error), at) from None


def _patch(patch: Tree, tree: Tree, render: Renderer) -> Patch:
    kind = patch.get("type") or ""
    root = str(patch.get("root") or "")
    known = {"json": JSON_PATCH, "merge": MERGE_PATCH, "strategic": STRATEGIC_PATCH}
    if kind and kind not in known:
        raise KwokError(f"failed to compute patch unknown patch type {kind}")
    try:
        data = render(str(patch.get("template") or ""), tree)
    except ValueError as error:
        raise KwokError(f"failed to compute patch {error}") from None
    if kind == "json":
        data = _rooted(data, root) if root else data
    elif root:
        data = {root: data}
    typed = (tree.get("apiVersion"), tree.get("kind")) in _TYPED
    content = known[kind] if kind else STRATEGIC_PATCH if typed else MERGE_PATCH
    return Patch(data, content, str(patch.get("subresource") or ""), patch.get("impersonation"))


def _rooted(data: Any, root: str) -> Any:
    if not isinstance(data, list):
        raise KwokError(
            "failed to compute patch json: cannot unmarshal object into Go value of type []lifecycle.jsonpatchData"
        )
    return [{**each, "path": f"/{root}{each.get('path') or ''}"} for each in data]


def _apply(apply: Tree, tree: Tree, render: Renderer) -> Apply:
    kind = apply.get("type") or "apply"
    known = {"merge": MERGE_PATCH, "strategic": STRATEGIC_PATCH, "apply": APPLY_PATCH}
    if kind not in known:
        raise KwokError(f"failed to compute apply unknown apply type {kind}")
    try:
        data = render(str(apply.get("template") or ""), tree)
    except ValueError as error:
        raise KwokError(f"failed to compute apply {error}") from None
    return Apply(data, known[kind], str(apply.get("subresource") or ""), apply.get("impersonation"))


def finalizer_patch(has: Sequence[str], wanted: Tree) -> list[dict[str, Any]]:
    """Return the operations of a JSON patch that change finalizers, by index as they were at the match."""
    add = [str(each.get("value")) for each in wanted.get("add") or ()]
    remove = [str(each.get("value")) for each in wanted.get("remove") or ()]
    gone = [at for at in range(len(has) - 1, -1, -1) if has[at] in remove]
    if wanted.get("empty") or (remove and len(gone) == len(has)):
        made = [{"op": "remove", "path": "/metadata/finalizers"}] if has else []
        return made + (_added((), add) if add else [])
    made = [{"op": "remove", "path": f"/metadata/finalizers/{at}"} for at in gone]
    return made + (_added(has, add) if add else [])


def _added(has: Sequence[str], add: Sequence[str]) -> list[dict[str, Any]]:
    if not has:
        return [{"op": "add", "path": "/metadata/finalizers", "value": list(add)}]
    return [
        {"op": "add", "path": "/metadata/finalizers/-", "value": each}
        for each in add
        if each not in has
    ]
