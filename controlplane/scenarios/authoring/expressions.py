"""Invariants written in CEL, the language of validation rules and admission policies.

The variables are the stored objects, by resource: `pods`, `nodes`, `deployments` and so on are lists of objects. With a
kind, the rule is asked for each object of that kind, which is `self`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from controlplane.apiserver.kinds.custom.cel import CelError, Program, compile_rule
from controlplane.apiserver.kinds.custom.cel.types import BOOL, DYN
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.errors import nearest, unknown_name
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import the_store

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run

SELF: Final = "self"
_SERVERS: Final = ("apiserver", *(f"apiserver-{number}" for number in range(2, 10)))
"""The actors after whose steps the store may be at another revision."""


@cache
def resources() -> dict[str, str]:
    """Return the storage prefix of every built-in resource by its plural name; a core resource goes first."""
    made: dict[str, str] = {}
    for each in sorted(builtin_resources(), key=lambda info: info.group):
        made.setdefault(each.resource, each.storage_prefix)
    return made


@cache
def kinds() -> dict[str, str]:
    """Return the storage prefix of every built-in kind; a core kind goes first."""
    made: dict[str, str] = {}
    for each in sorted(builtin_resources(), key=lambda info: info.group):
        made.setdefault(each.kind, each.storage_prefix)
    return made


def invariant(name: str, rule: str, kind: str = "", *, at_rest: bool = False) -> Invariant:
    """Return the invariant that a rule holds.

    Args:
        name: of the invariant.
        rule: a CEL expression that gives a bool.
        kind: the kind of the objects for each of which the rule is asked; "" asks once for the cluster.
        at_rest: ask only when the run has settled; otherwise at each revision of the store.

    Raises:
        CelError: the rule does not compile, or gives something else.
        ValueError: the kind is not built in.
    """
    if kind and kind not in kinds():
        raise ValueError(unknown_name("built-in kind", kind, kinds()))
    names = frozenset((*resources(), SELF)) if kind else frozenset(resources())
    try:
        program = compile_rule(rule, names)
    except CelError as error:
        raise CelError(_explained(str(error), names), error.at) from None
    if program.gives not in (BOOL, DYN):
        raise CelError(f"expected a rule that gives bool, found {program.gives}")
    check = _for_each(program, kinds()[kind]) if kind else _for_cluster(program)
    if at_rest:
        return Invariant(name, check)
    return Invariant(name, check, _SERVERS, looks_at=the_store)


def _explained(message: str, names: frozenset[str]) -> str:
    """Return the message of the compiler in one line, with the variables that an unknown name is near to."""
    text = " ".join(message.split())
    marker = "undeclared reference to '"
    if marker in text:
        unknown = text.partition(marker)[2].partition("'")[0]
        near = nearest(unknown, sorted(names))
        return unknown_name("variable", unknown, near or sorted(names))
    return text


def _for_cluster(program: Program) -> Callable[[Run], str | None]:
    def check(run: Run) -> str | None:
        return _asked(program, _scope(run, program), "")

    return check


def _for_each(program: Program, prefix: str) -> Callable[[Run], str | None]:
    def check(run: Run) -> str | None:
        scope = _scope(run, program)
        for each in run.objects(prefix):
            broken = _asked(
                program, {**scope, SELF: each.tree}, f"{each.tree['kind']}/{each.key}: "
            )
            if broken is not None:
                return broken
        return None

    return check


def _scope(run: Run, program: Program) -> dict[str, Any]:
    """Return the objects of the resources that a rule uses."""
    prefixes = resources()
    used = sorted(program.variables - {SELF})
    return {name: [each.tree for each in run.objects(prefixes[name])] for name in used}


def _asked(program: Program, scope: dict[str, Any], about: str) -> str | None:
    try:
        value = program.run(scope)
    except CelError as error:
        return f"{about}{program.source} cannot be evaluated: {error}"
    if value is True:
        return None
    if value is False:
        return f"{about}{program.source} is false"
    return f"{about}{program.source} gives {type(value).__name__}, not bool"
