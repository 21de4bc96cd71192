"""Test plans of Sieve as plans of this project.

Sieve (OSDI 2022, sieve-project/sieve) restarts an operator after a write, restarts it against a lagging API server, or
keeps it from seeing a state. Its second API server is a view here: what a client is shown after its restart. The words
`{operator}` in a line stand for the operator's client. A plan without actions is no plan: its bug shows without one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from controlplane.api.yaml_text import load
from controlplane.errors import UsageError
from controlplane.operators.generation import OPERATOR
from controlplane.scenarios.plans.language import (
    ANSWER,
    EVENT,
    Condition,
    Pattern,
    path_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["imported", "is_sieve", "plurals_of", "read_file"]

PRESENT: Final = "SIEVE-NON-NIL"
"""A value that is there, whatever it is."""
_SKIPPED: Final = ("SIEVE-SKIP", "SIEVE-IGNORE")
STALE_S: Final = 20.0
"""The length of a held view if the plan does not say (virtual seconds)."""
MOST_CONDITIONS: Final = 6
"""The number of fields of a state that are asked for; more would tie a plan to one release."""
_VERBS: Final = {
    "onObjectCreate": ("create", "ADDED"),
    "onObjectUpdate": ("*", "MODIFIED"),
    "onObjectDelete": ("delete", "DELETED"),
    "onAnyFieldModification": ("*", "*"),
}
_PLURALS: Final = {
    "endpoints": "endpoints",
    "ingress": "ingresses",
    "storageclass": "storageclasses",
    "networkpolicy": "networkpolicies",
    "endpointslice": "endpointslices",
    "secrets": "secrets",
}


def is_sieve(tree: Any) -> bool:
    """Return whether a YAML value is a test plan of Sieve."""
    return isinstance(tree, dict) and "workload" in tree and "actions" in tree


def read_file(path: Path, plurals: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the lines of a file. Raises UsageError; `plurals` are resources of custom kinds, by their singular."""
    try:
        tree = load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    try:
        return imported(tree, plurals)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def imported(tree: Any, plurals: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the lines of a test plan. Raises ValueError with the field and what was expected."""
    if not is_sieve(tree):
        raise ValueError("expected a test plan of Sieve, with workload and actions")
    actions = tree["actions"] or []
    if not isinstance(actions, list) or not all(isinstance(each, dict) for each in actions):
        raise ValueError("actions: expected a list")
    return tuple(_Plan(actions, plurals or {}).lines())


def plurals_of(trees: Iterable[Any]) -> dict[str, str]:
    """Return the resources of custom kinds by their singular, as definitions among the objects say."""
    found = {}
    for tree in trees:
        if isinstance(tree, dict) and tree.get("kind") == "CustomResourceDefinition":
            names = tree["spec"]["names"]
            singular = names.get("singular") or str(names["kind"]).lower()
            found[singular] = found[str(names["kind"]).lower()] = names["plural"]
    return found


class _Plan:
    def __init__(self, actions: list[dict[str, Any]], plurals: Mapping[str, str]) -> None:
        self._actions = actions
        self._plurals = plurals

    def lines(self) -> Iterator[str]:
        """Yield the lines; each action but the first waits for what the one before waited for."""
        earlier: Pattern | None = None
        at = 0
        while at < len(self._actions):
            action = self._actions[at]
            kind = action.get("actionType")
            following = self._actions[at + 1 : at + 3]
            if kind == "restartController":
                (what,) = self._patterns(at, action)[:1]
                once = "" if earlier is None else f" once {earlier}"
                yield f"kill {OPERATOR} before {what}{once}"
                earlier, at = what, at + 1
            elif kind == "pauseAPIServer":
                yield from self._stale(at, action, following)
                at += 3
            elif kind == "pauseController":
                yield self._paused(at, action, following[0] if following else {})
                at += 2
            else:
                known = "restartController, pauseAPIServer, pauseController"
                raise ValueError(f"actions[{at}].actionType: {kind!r}: expected one of {known}")

    def _stale(
        self, at: int, pause: dict[str, Any], following: list[dict[str, Any]]
    ) -> Iterator[str]:
        kinds = [each.get("actionType") for each in following]
        if kinds != ["reconnectController", "resumeAPIServer"]:
            told = "expected reconnectController and resumeAPIServer"
            raise ValueError(f"actions[{at + 1}]: {told} after pauseAPIServer")
        (led,) = self._patterns(at, pause, EVENT)[:1]
        (back,) = self._patterns(at + 1, following[0], ANSWER, "*")[:1]
        scope = str(pause.get("pauseScope") or "all")
        resource = "*" if scope == "all" else self._resource(scope.partition("/")[0])
        when = _point(pause)
        before = "before " if when.startswith("before") else ""
        seconds = _timeout(following[1])
        yield f"freeze {OPERATOR} {resource} from {back} as of {before}{led} for {seconds:g}"
        yield f"kill {OPERATOR} after {back} once {led}"

    def _paused(self, at: int, pause: dict[str, Any], resume: dict[str, Any]) -> str:
        if resume.get("actionType") != "resumeController":
            raise ValueError(f"actions[{at + 1}]: expected resumeController after pauseController")
        ends = self._patterns(at + 1, resume, EVENT)
        seconds = _timeout(resume)
        if pause.get("pauseAt") in ("afterControllerWrite", "beforeControllerWrite"):
            (what,) = self._patterns(at, pause, ANSWER)[:1]
            end = ends[0] if ends else Pattern(EVENT, OPERATOR, "*", what.resource, what.name)
            return f"hold {what} until {end} at most {seconds:g}"
        (what,) = self._patterns(at, pause, EVENT)[:1]
        end = ends[0] if ends else Pattern(EVENT, OPERATOR, "*", what.resource, what.name)
        return f"swallow {what} until {end} at most {seconds:g}"

    def _patterns(
        self, at: int, action: dict[str, Any], kind: str = ANSWER, actor: str = OPERATOR
    ) -> list[Pattern]:
        """Return what an action waits for, time-outs left out."""
        definitions = (action.get("trigger") or {}).get("definitions") or []
        found = [
            self._pattern(at, each.get("condition") or {}, kind, actor)
            for each in definitions
            if (each.get("condition") or {}).get("conditionType") != "onTimeout"
        ]
        if not found and action.get("actionType") not in ("resumeController", "resumeAPIServer"):
            raise ValueError(f"actions[{at}].trigger: expected a condition on an object")
        return found

    def _pattern(self, at: int, told: dict[str, Any], kind: str, actor: str) -> Pattern:
        form = told.get("conditionType")
        if form not in _VERBS:
            known = ", ".join((*_VERBS, "onTimeout"))
            raise ValueError(f"actions[{at}].trigger: condition {form!r}: expected one of {known}")
        parts = str(told.get("resourceKey") or "").split("/")
        if len(parts) != 3:
            raise ValueError(f"actions[{at}].trigger: resourceKey: expected type/namespace/name")
        singular, namespace, name = parts
        resource = self._resource(singular)
        verb = _VERBS[form][kind == EVENT]
        if form == "onAnyFieldModification":
            conditions = _left(_diff(at, told, "prevStateDiff"))
        else:
            before, after = _diff(at, told, "prevStateDiff"), _diff(at, told, "curStateDiff")
            conditions = tuple(_between(before, after, kind))[:MOST_CONDITIONS]
        if kind != EVENT and form == "onObjectUpdate":
            resource += "*"  # the object, or its status
        occurrence = told.get("occurrence", 1)
        number = occurrence if isinstance(occurrence, int) and occurrence > 0 else 1
        return Pattern(kind, actor, verb, resource, f"{namespace}/{name}", number, conditions)

    def _resource(self, singular: str) -> str:
        known = self._plurals.get(singular) or _PLURALS.get(singular)
        return known or f"{singular}s"


def _point(action: dict[str, Any]) -> str:
    """Return when an action's trigger is observed."""
    definitions = (action.get("trigger") or {}).get("definitions") or [{}]
    return str((definitions[0].get("observationPoint") or {}).get("when") or "")


def _timeout(action: dict[str, Any]) -> float:
    """Return the time-out among an action's triggers, in seconds."""
    for each in (action.get("trigger") or {}).get("definitions") or []:
        condition = each.get("condition") or {}
        if condition.get("conditionType") == "onTimeout":
            value = condition.get("timeoutValue")
            if isinstance(value, int | float) and value > 0:
                return float(value)
    return STALE_S


def _diff(at: int, told: dict[str, Any], key: str) -> dict[str, Any]:
    """Return one side of a difference by paths of leaves."""
    text = told.get(key)
    if text is None:
        return {}
    try:
        tree = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        raise ValueError(f"actions[{at}].trigger: {key}: expected JSON") from None
    return dict(_leaves(tree, ()))


def _leaves(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _leaves(value, (*path, str(number)))
    elif tree not in _SKIPPED:
        yield path_of(path), tree


def _between(before: dict[str, Any], after: dict[str, Any], kind: str) -> Iterator[Condition]:
    """Yield the conditions of an update from one state to another."""
    marked = "metadata.deletionTimestamp" in after
    for path in sorted({*before, *after}, key=lambda each: (each.startswith("metadata."), each)):
        if marked and path == "metadata.deletionGracePeriodSeconds":
            continue  # it may be 0
        yield _asked(path, after, before=False)
        if kind != EVENT or not marked:
            yield _asked(path, before, before=True)


def _left(state: dict[str, Any]) -> tuple[Condition, ...]:
    """Return the condition that a state is no more: its first field differs."""
    for path, value in state.items():
        if value == PRESENT:
            return (Condition(path, None, negated=True),)
        return (Condition(path, _word(value), negated=True),)
    return ()


def _asked(path: str, state: dict[str, Any], *, before: bool) -> Condition:
    if path not in state:
        return Condition(path, None, negated=True, before=before)
    value = state[path]
    if value == PRESENT:
        return Condition(path, None, before=before)
    return Condition(path, _word(value), before=before)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
