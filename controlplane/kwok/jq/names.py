"""Variables and functions of a program: all must be defined before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.kwok.jq.syntax import Function, JqSyntaxError, Node

__all__ = ["check", "names_of"]


def check(node: Any, variables: frozenset[str], functions: Mapping[str, int]) -> None:
    """Refuse names that nothing defines, as a compiler does. Raises JqSyntaxError.

    Args:
        node: the tree, or parts of one.
        variables: the variables in scope, with their `$`.
        functions: the functions in scope, as `name/arguments`.
    """
    if not isinstance(node, tuple) or not node or not isinstance(node[0], str):
        for part in node if isinstance(node, tuple) else ():
            check(part, variables, functions)
        return
    op = node[0]
    if op == "const":
        return
    if op == "with":
        function: Function = node[1]
        name = f"{function.name}/{len(function.params)}"
        inner = {**functions, name: 1}
        within = {**inner, **{f"{each}/0": 1 for each in function.params}}
        taken = {each for each in function.params if each.startswith("$")}
        within |= {f"{each[1:]}/0": 1 for each in taken}
        check(function.body, variables | taken, within)
        check(node[2], variables, inner)
        return
    if op == "variable" and node[1] not in variables:
        raise JqSyntaxError(f"variable not defined: {node[1]}")
    if op in ("label", "break"):
        check(node[2:], variables, functions)
        return
    if op == "call":
        name = f"{node[1]}/{len(node[2])}"
        if name not in functions:
            raise JqSyntaxError(f"function not defined: {name}")
        check(node[2], variables, functions)
        return
    if op in ("bind", "reduce", "foreach"):
        check(node[1], variables, functions)
        names = frozenset(name for pattern in node[2] for name in names_of(pattern))
        check(node[2], variables | names, functions)
        check(node[3:], variables | names, functions)
        return
    check(node[1:], variables, functions)


def names_of(pattern: Node) -> Iterator[str]:
    """Yield the variables that a pattern binds."""
    if pattern[0] == "name":
        yield pattern[1]
    elif pattern[0] == "list":
        for part in pattern[1]:
            yield from names_of(part)
    else:
        for _, variable, inner in pattern[1]:
            if variable:
                yield variable
            if inner is not None:
                yield from names_of(inner)
