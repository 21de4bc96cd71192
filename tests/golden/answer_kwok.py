"""Answers of KWOK's expressions, stages and lives of objects, by our code."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import format_nano_time, parse_time
from controlplane.apiserver.requests.patching.merge import merge_patch
from controlplane.apiserver.schema.codec import decode
from controlplane.kwok import lifecycle
from controlplane.kwok.cel import environment, results
from controlplane.kwok.cel.library import Context
from controlplane.kwok.cel.results import ExpressionError
from controlplane.kwok.lifecycle import Delete, Event, KwokError, Moment, Patch
from controlplane.kwok.patching import PatchError, applied
from controlplane.kwok.rendering import RenderError, renderer
from controlplane.kwok.stages import Requirement, Stage, read
from tests.golden.runner import UNANSWERED, difference

Case = dict[str, Any]
TYPES = {"Pod": "io.k8s.api.core.v1.Pod", "Node": "io.k8s.api.core.v1.Node"}


def answer(case: Case) -> Any:
    """The answer for one case of `expressions`, `stage` or `lifecycle`."""
    kind = case["kind"]
    asked = case
    if kind in ("template", "stage"):
        asked = {**case, "object": typed(case["object"])}
    if kind == "jq":
        return _requirement(asked) if "operator" in asked else _query(asked)
    if kind == "template":
        return _template(asked)
    if kind == "lifecycle":
        return _life(asked)
    if kind == "cel":
        return _metric(asked)
    return _stage(asked) if kind == "stage" else UNANSWERED


def compare(want: Any, given: Any) -> str | None:
    """Return the first difference; numbers are those of JSON."""
    return difference(_plain(want), _plain(given))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _moment(asked: Case, tree: Case | None = None, now: int | None = None) -> Moment:
    return Moment(
        asked["object"] if tree is None else tree,
        parse_time(asked["now"]) if now is None else now,
        lambda: asked["draws"][0],
    )


def _query(asked: Case) -> Case:
    try:
        return {"result": _moment(asked).query(asked["query"]) or []}
    except KwokError as error:
        return {"compileError": str(error)}


def _requirement(asked: Case) -> Case:
    wanted = Requirement(asked["key"], asked["operator"], tuple(asked.get("values") or ()))
    try:
        lifecycle.check(wanted, "v1", "Pod")
        return {"matches": lifecycle.meets(wanted, _moment(asked))}
    except KwokError as error:
        return {"compileError": str(error)}


class _Usages:
    """The usages of a case; cumulative ones are ten times as large."""

    def __init__(self, given: Case) -> None:
        self._given = given

    def used(self, resource: str, place: tuple[str, ...], *, cumulative: bool) -> float:
        return float(self._given.get("/".join((resource, *place)), 0)) * (10 if cumulative else 1)

    def started_containers(self, node: str) -> int:
        return int(self._given.get(f"started/{node}", 0))


def _metric(asked: Case) -> Case:
    """An expression of a metric, as a number and as a text."""
    source = asked["expression"]
    try:
        environment.check_metric(source)
    except ExpressionError as error:
        return {"compileError": str(error)}
    context = Context(parse_time(asked["now"]), lambda: asked["draws"][0], _Usages(asked["usage"]))
    made: Case = {}
    for name, failure, convert in (
        ("float", "error", results.as_float),
        ("string", "stringError", results.as_string),
    ):
        try:
            value = environment.evaluate_metric(
                source, context, asked["node"], asked["pod"], asked["container"]
            )
            made[name] = convert(value)
        except ExpressionError as error:
            made[failure] = str(error)
    return made


def typed(tree: Case) -> Case:
    """A pod or node as upstream's types hold it; other kinds as they are."""
    name = TYPES.get(tree["kind"])
    if name is None:
        return tree
    made = decode(name, tree)
    for each in (made.get("status") or {}).get("conditions") or ():
        for time in (
            "lastProbeTime" if name == TYPES["Pod"] else "lastHeartbeatTime",
            "lastTransitionTime",
        ):
            each.setdefault(time, None)
    return made


class _Draws:
    """Draws take the fractions of a case in turn, and are written down."""

    def __init__(self, fractions: list[float]) -> None:
        self._fractions = fractions
        self._at = 0
        self.made: list[Case] = []

    def __call__(self, bound: int) -> int:
        fraction = self._fractions[self._at % len(self._fractions)]
        self._at += 1
        value = min(bound - 1, int(fraction * bound))
        self.made.append({"n": bound, "value": value})
        return value


def _render(now: int, tree: Case) -> Any:
    def pod_ip(_node: Any = None, host: Any = False, *_rest: Any) -> str:
        return "10.0.0.3" if host else "10.1.0.4"

    common: dict[str, Any] = {
        "Now": lambda: format_nano_time(now),
        "StartTime": lambda: "2026-03-01T00:00:00Z",
        "Version": lambda: "v0.8.0",
        "NodeIP": lambda: "10.0.0.1",
        "NodeName": lambda: "kwok-controller",
        "NodePort": lambda: 10247,
        "PodIP": lambda: "10.1.0.2",
        "NodeIPWith": lambda *_: "10.0.0.3",
        "NodeIPsWith": lambda *_: ["10.0.0.3"],
        "PodIPWith": pod_ip,
        "PodIPsWith": lambda *args: [pod_ip(*args)],
    }
    return renderer(common)


def _template(asked: Case) -> Case:
    try:
        render = _render(parse_time(asked["now"]), asked["object"])
        return {"json": render(asked["template"], asked["object"])}
    except RenderError as error:
        return {"error": str(error)}


def _stages(asked: Case) -> list[Stage]:
    return [read(each) for each in asked["stages"]]


def _stage(asked: Case) -> Case:
    stages, moment, draws = _stages(asked), _moment(asked), _Draws(asked["draws"])
    made: Case = {}
    try:
        made["candidates"] = [
            _candidate(each, moment) for each in lifecycle.candidates(stages, moment)
        ]
        stage = lifecycle.match(stages, moment, draws)
    except (KwokError, ExpressionError) as error:
        return {"error": str(error)}
    if stage is None:
        return made
    made["stage"] = stage.name
    if stage.immediate_next_stage:
        made["immediateNextStage"] = True
    try:
        delay = lifecycle.delay(stage, moment, draws)
        if delay is not None:
            made["delay"] = delay
    except (KwokError, ExpressionError) as error:
        made["delayError"] = str(error)
    if draws.made:
        made["draws"] = draws.made
    _played(stage, asked["object"], moment.now, made)
    return made


def _candidate(stage: Stage, moment: Moment) -> Case:
    found: Case = {"stage": stage.name}
    weight = lifecycle.weight(stage, moment)
    if weight is not None:
        found["weight"] = weight
    bounds = lifecycle.delay_range(stage, moment)
    if bounds is not None:
        found["delayRange"] = list(bounds)
    return found


def _played(stage: Stage, tree: Case, now: int, made: Case) -> None:
    actions: list[Case] = []
    current, at = tree, 0
    steps = lifecycle.actions(stage.steps, typed(tree), _render(now, tree))
    try:
        for at, action in steps:  # noqa: B007  the number of the last step is told when it fails
            told, current = _action(action, current)
            actions.append(told)
    except KwokError as error:
        made["stepError"], made["remainStep"] = error.args[0], error.args[1]
    made["actions"] = actions
    meta = (current.get("metadata") or {}) if isinstance(current, dict) else {}
    changed = current != tree and not any("delete" in each for each in actions)
    if changed and meta.get("deletionTimestamp") and not meta.get("finalizers"):
        made["gone"] = True


def _action(action: lifecycle.Action, tree: Case) -> tuple[Case, Case]:
    if isinstance(action, Event):
        return {
            "event": {"message": action.message, "reason": action.reason, "type": action.type}
        }, tree
    if isinstance(action, Delete):
        return {"delete": True}, tree
    name = "patch" if isinstance(action, Patch) else "apply"
    told: Case = {name: action.data}
    if isinstance(action, Patch):
        told["type"] = action.type
    if action.subresource:
        told["subresource"] = action.subresource
    if action.impersonation is not None:
        told["impersonation"] = action.impersonation.get("username")
    if isinstance(action, Patch):
        try:
            tree = applied(tree, action)
        except PatchError as error:
            told["applyError"] = str(error)
    return told, tree


def _life(asked: Case) -> Case:
    """Rounds of changes, match, delay and steps; the clock jumps to the next change where nothing matches."""
    stages, draws = _stages(asked), _Draws(asked["draws"])
    start = now = parse_time(asked["now"])
    tree, ops = asked["object"], list(asked["ops"])
    told: list[Case] = []
    for _ in range(asked["rounds"]):
        while ops and start + ops[0]["at"] * 10**9 <= now:
            tree = merge_patch(tree, ops.pop(0)["patch"])
        step: Case = {"at": (now - start) // 10**6}
        told.append(step)
        moment = _moment(asked, typed(tree), now)
        draws.made = []
        try:
            stage = lifecycle.match(stages, moment, draws)
        except (KwokError, ExpressionError) as error:
            step["error"] = str(error)
            stage = None
        if stage is None:
            if not ops:
                break
            now = start + ops[0]["at"] * 10**9
            continue
        step["stage"] = stage.name
        delay = lifecycle.delay(stage, moment, draws)
        if delay is not None:
            step["delay"] = delay
            now += max(0, delay)
        step["at"] = (now - start) // 10**6
        if stage.immediate_next_stage:
            step["immediateNextStage"] = True
        if draws.made:
            step["draws"] = draws.made
        made: Case = {}
        tree = _lived(stage, tree, now, made)
        step |= made
        if tree is None:
            return {"steps": told, "deleted": True}
    return {"steps": told, "object": tree}


def _lived(stage: Stage, tree: Case, now: int, made: Case) -> Any:
    """The object after the steps of a stage; None once it is gone."""
    actions: list[Case] = []
    current: Any = tree
    for _, action in lifecycle.actions(stage.steps, typed(tree), _render(now, tree)):
        if isinstance(action, Delete):
            if (current["metadata"].get("finalizers")) or ():
                meta = {
                    "deletionTimestamp": current["metadata"].get("deletionTimestamp")
                    or format_nano_time(now)
                }
                current = {**current, "metadata": {**current["metadata"], **meta}}
                actions.append({"delete": True})
                continue
            actions.append({"delete": True})
            current = None
            break
        said, current = _action(action, current)
        actions.append(said)
    made["actions"] = actions
    if current is not None:
        meta = current["metadata"]
        if actions and meta.get("deletionTimestamp") and not meta.get("finalizers"):
            made["gone"] = True
            return None
    return current
