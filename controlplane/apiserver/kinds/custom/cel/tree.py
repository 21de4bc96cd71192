"""Expressions as trees, each part with its place in the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

__all__ = ["CelError", "Expr", "Unsigned", "qualified", "unescaped", "walked"]


class Unsigned(int):
    """An unsigned number."""


class CelError(Exception):
    """An expression that does not compile, or whose evaluation failed.

    `issues` are the places and texts of all mistakes, in the order of the source.
    """

    def __init__(self, text: str, at: int = -1, issues: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(text)
        self.at = at
        self.issues = issues or ((at, text),)


@frozen(eq=False)
class Expr:
    """A part of an expression, known by its identity.

    Attributes:
        op: one of const, ident, select, optselect, has, call, method, list, map, struct, fold.
        at: the place in the source.
        args: the parts. A method's first one is its target; a map has keys and values by turns; a
            fold has its range, the first result, the condition to go on, a step and what it gives.
        name: of an identifier, field, function or type. Operators are functions such as `_==_`.
        value: of a constant; of a struct the names of its fields.
        bound: of a fold the variables: the result so far, then one or two for each turn.
        made: a macro made the part; it does not stand in the source.
        maybe: which elements of a list, entries of a map or fields of a struct are optional.
    """

    op: str
    at: int
    args: tuple[Expr, ...] = ()
    name: str = ""
    value: Any = None
    bound: tuple[str, ...] = ()
    maybe: frozenset[int] = frozenset()
    made: bool = False


def walked(expr: Expr) -> Iterator[Expr]:
    """An expression and all its parts."""
    left = [expr]
    while left:
        part = left.pop()
        yield part
        left += reversed(part.args)


def qualified(expr: Expr) -> str:
    """The dotted name that an expression may be; "" if it is none."""
    if expr.op == "ident":
        return expr.name
    if expr.op == "select":
        prefix = qualified(expr.args[0])
        return f"{prefix}.{expr.name}" if prefix else ""
    return ""


def unescaped(name: str) -> str:
    """The property that an identifier stands for: `__dot__` and the like are undone."""
    if "__" not in name:
        return name
    for coded, plain in (
        ("__underscores__", "__"),
        ("__dot__", "."),
        ("__dash__", "-"),
        ("__slash__", "/"),
    ):
        name = name.replace(coded, plain)
    if len(name) > 4 and name.startswith("__") and name.endswith("__"):
        return name[2:-2]
    return name
