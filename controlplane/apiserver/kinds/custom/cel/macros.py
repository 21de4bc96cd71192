"""Macros: calls such as `list.all(x, condition)`, written out.

Most become a fold: over a range, a step computes the next result from the last one.
Upstream: cel-go parser/macro.go, ext/comprehensions.go, ext/lists.go and cel/library.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from controlplane.apiserver.kinds.custom.cel.tree import CelError, Expr
from controlplane.apiserver.schema.work import spend

__all__ = ["MAP_INSERT", "RESULT", "SORT_BY", "UNUSED", "expanded"]

RESULT: Final = "@result"
"""The variable for the result of a fold so far; no source can name it."""
UNUSED: Final = "#unused"
"""The variable of a fold that only binds a name."""
MAP_INSERT: Final = "cel.@mapInsert"
SORT_BY: Final = "@sortByAssociatedKeys"
_COPY: Final = 3
"""Steps to copy a part of an expression."""
_SORTED: Final = "@__sortBy_input__"

_Macro = Callable[["_Maker", Expr, tuple[Expr, ...]], Expr]


class _Maker:
    """Makes the parts of one macro, which all have the place of its call."""

    def __init__(self, at: int) -> None:
        self.at = at

    def const(self, value: Any) -> Expr:
        return Expr("const", self.at, value=value, made=True)

    def ident(self, name: str) -> Expr:
        return Expr("ident", self.at, name=name, made=True)

    def result(self) -> Expr:
        return self.ident(RESULT)

    def call(self, name: str, *args: Expr) -> Expr:
        return Expr("call", self.at, args, name, made=True)

    def method(self, name: str, target: Expr, *args: Expr) -> Expr:
        return Expr("method", self.at, (target, *args), name, made=True)

    def items(self, *args: Expr) -> Expr:
        return Expr("list", self.at, args, made=True)

    def fold(self, bound: tuple[str, ...], *parts: Expr) -> Expr:
        """A fold of range, first result, condition, step and what it gives."""
        return Expr("fold", self.at, parts, bound=bound)

    def bind(self, name: str, value: Expr, body: Expr) -> Expr:
        """The body with a name for a value: a fold without turns."""
        parts = (self.items(), value, self.const(False), self.ident(name), body)
        return Expr("fold", self.at, parts, bound=(name, UNUSED), made=True)


def expanded(
    name: str,
    target: Expr,
    args: tuple[Expr, ...],
    at: int,
    *,
    bindings: bool = False,
    standard: bool = False,
) -> Expr | None:
    """Return the expansion of the macro of this name; None if no macro has this name and number of arguments.

    With `bindings`, `cel.bind(name, value, expression)` is a macro, too. Upstream: cel-go ext/bindings.go.
    With `standard`, only those of cel-go's standard environment are.

    Raises:
        CelError: an argument that should name a variable does not.
    """
    if (
        bindings
        and name == "bind"
        and len(args) == 3
        and target.op == "ident"
        and target.name == "cel"
    ):
        if args[0].op != "ident":
            raise CelError("cel.bind() variable names must be simple identifiers", args[0].at)
        return _Maker(at).bind(args[0].name, args[1], args[2])
    if standard and (name, len(args)) not in _STANDARD:
        return None
    macro = _MACROS.get((name, len(args)))
    return None if macro is None else macro(_Maker(at), target, args)


def _variable(expr: Expr, text: str = "argument must be a simple name") -> str:
    if expr.op != "ident":
        raise CelError(text, expr.at)
    if expr.name in (RESULT, "__result__"):
        raise CelError("iteration variable overwrites accumulator variable", expr.at)
    return expr.name


def _variables(args: tuple[Expr, ...]) -> tuple[str, str]:
    for each in args[:2]:
        if each.op != "ident":
            raise CelError("argument must be a simple name", each.at)
    if args[0].name == args[1].name:
        raise CelError(f"duplicate variable name: {args[0].name}", args[1].at)
    return _variable(args[0]), _variable(args[1])


def _names(args: tuple[Expr, ...], two: bool) -> tuple[str, ...]:
    return (RESULT, *_variables(args)) if two else (RESULT, _variable(args[0]))


def _all(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return make.fold(
        _names(args, len(args) == 3),
        target,
        make.const(True),
        make.call("@not_strictly_false", make.result()),
        make.call("_&&_", make.result(), args[-1]),
        make.result(),
    )


def _exists(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return make.fold(
        _names(args, len(args) == 3),
        target,
        make.const(False),
        make.call("@not_strictly_false", make.call("!_", make.result())),
        make.call("_||_", make.result(), args[-1]),
        make.result(),
    )


def _exists_one(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    names = _names(args, len(args) == 3)
    more = make.call("_+_", make.result(), make.const(1))
    return make.fold(
        names,
        target,
        make.const(0),
        make.const(True),
        make.call("_?_:_", args[-1], more, make.result()),
        make.call("_==_", make.result(), make.const(1)),
    )


def _collected(
    make: _Maker,
    target: Expr,
    names: tuple[str, ...],
    condition: Expr | None,
    step: Expr,
    start: Expr,
) -> Expr:
    """A fold that collects what the step adds, in turns for which the condition holds."""
    if condition is not None:
        step = make.call("_?_:_", condition, step, make.result())
    return make.fold(names, target, start, make.const(True), step, make.result())


def _map(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    name = _variable(args[0], "argument is not an identifier")
    step = make.call("_+_", make.result(), make.items(args[-1]))
    condition = args[1] if len(args) == 3 else None
    return _collected(make, target, (RESULT, name), condition, step, make.items())


def _filter(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    name = _variable(args[0], "argument is not an identifier")
    step = make.call("_+_", make.result(), make.items(args[0]))
    return _collected(make, target, (RESULT, name), args[1], step, make.items())


def _transform_list(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    step = make.call("_+_", make.result(), make.items(args[-1]))
    condition = args[2] if len(args) == 4 else None
    return _collected(make, target, _names(args, True), condition, step, make.items())


def _transform_map(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    names = _names(args, True)
    step = make.call(MAP_INSERT, make.result(), make.ident(names[1]), args[-1])
    condition = args[2] if len(args) == 4 else None
    return _collected(make, target, names, condition, step, Expr("map", make.at, made=True))


def _transform_map_entry(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    step = make.call(MAP_INSERT, make.result(), args[-1])
    condition = args[2] if len(args) == 4 else None
    names = _names(args, True)
    return _collected(make, target, names, condition, step, Expr("map", make.at, made=True))


def _sort_by(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    if target.op not in ("list", "select", "ident", "fold", "call", "method", "optselect"):
        text = (
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression"
        )
        raise CelError(text, target.at)
    keys = _map(make, make.ident(_SORTED), args)
    return make.bind(_SORTED, target, make.method(SORT_BY, make.ident(_SORTED), keys))


def _copied(expr: Expr) -> Expr:
    """The same expression as parts of their own."""
    spend(_COPY)  # each such macro on another one doubles the expression
    args = tuple(map(_copied, expr.args))
    return Expr(expr.op, expr.at, args, expr.name, expr.value, expr.bound, expr.maybe, expr.made)


def _opt_map(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return _with_value(make, target, args, "optMap")


def _opt_flat_map(make: _Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return _with_value(make, target, args, "optFlatMap")


def _with_value(make: _Maker, target: Expr, args: tuple[Expr, ...], name: str) -> Expr:
    if args[0].op != "ident":
        raise CelError(f"{name}() variable name must be a simple identifier", args[0].at)
    value = make.method("value", _copied(target))
    body = make.bind(args[0].name, value, args[1])
    if name == "optMap":
        body = make.call("optional.of", body)
    return make.call("_?_:_", make.method("hasValue", target), body, make.call("optional.none"))


_MACROS: Final[dict[tuple[str, int], _Macro]] = {
    ("all", 2): _all,
    ("all", 3): _all,
    ("exists", 2): _exists,
    ("exists", 3): _exists,
    ("exists_one", 2): _exists_one,
    ("exists_one", 3): _exists_one,
    ("existsOne", 3): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}
"""Macros by their name and how many arguments they take."""
_STANDARD: Final = frozenset(
    (("all", 2), ("exists", 2), ("exists_one", 2), ("map", 2), ("map", 3), ("filter", 2))
)
