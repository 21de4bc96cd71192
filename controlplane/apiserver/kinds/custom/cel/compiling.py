"""From a text to something that runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.checker import checked
from controlplane.apiserver.kinds.custom.cel.evaluation import Eval, closure
from controlplane.apiserver.kinds.custom.cel.metering import metered
from controlplane.apiserver.kinds.custom.cel.syntax import Expr, parsed, walked
from controlplane.apiserver.kinds.custom.cel.types import DYN, Type

__all__ = ["RULE_NAMES", "Program", "compile_rule", "compiled"]

RULE_NAMES = frozenset(("self", "oldSelf"))


@frozen(eq=False)
class Program:
    """A compiled expression. `variables` are the names it uses, `gives` is its type."""

    source: str
    tree: Expr
    run: Eval
    variables: frozenset[str]
    gives: Type


def compiled(source: str, types: Mapping[str, Type], *, counted: bool = False) -> Program:
    """The compiled expression over variables of these types; CelError with all mistakes.

    What is `counted` needs a `metering.Meter` among its variables when it runs.
    """
    tree = parsed(source)
    gives = checked(tree, types)
    used = frozenset(part.name for part in walked(tree) if part.op == "ident")
    run = closure(tree, types, metered() if counted else None)
    return Program(source, tree, run, used & types.keys(), gives)


@lru_cache(maxsize=4096)
def compile_rule(source: str, names: frozenset[str] = RULE_NAMES) -> Program:
    """The compiled expression over variables of any type, counted. CelError with all mistakes."""
    return compiled(source, dict.fromkeys(sorted(names), DYN), counted=True)
