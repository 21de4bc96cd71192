"""From a text to something that runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.checker import checked
from controlplane.apiserver.kinds.custom.cel.evaluation import Eval, closure
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


def compiled(source: str, types: Mapping[str, Type]) -> Program:
    """The compiled expression over variables of these types; CelError with all mistakes."""
    tree = parsed(source)
    gives = checked(tree, types)
    used = frozenset(part.name for part in walked(tree) if part.op == "ident")
    return Program(source, tree, closure(tree, types), used & types.keys(), gives)


@lru_cache(maxsize=4096)
def compile_rule(source: str, names: frozenset[str] = RULE_NAMES) -> Program:
    """The compiled expression over variables of any type. CelError with all mistakes."""
    return compiled(source, dict.fromkeys(sorted(names), DYN))
