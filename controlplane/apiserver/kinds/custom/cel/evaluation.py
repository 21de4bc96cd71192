"""Expressions as closures over their variables."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cmp_to_key
from typing import Any

from controlplane.apiserver.kinds.custom.cel.checker import qualified
from controlplane.apiserver.kinds.custom.cel.library import (
    FUNCTIONS,
    METHODS,
    arithmetic,
    compare,
)
from controlplane.apiserver.kinds.custom.cel.signatures import NAMED_TYPES
from controlplane.apiserver.kinds.custom.cel.structs import Struct
from controlplane.apiserver.kinds.custom.cel.syntax import CelError, Expr, unescaped
from controlplane.apiserver.kinds.custom.cel.values import Optional

__all__ = ["Eval", "Scope", "Watch", "closure"]

Scope = dict[str, Any]
Eval = Callable[[Scope], Any]
Watch = Callable[[Expr, Eval], Eval]
"""Looks on while an expression is computed: answers what to run in the place of a part."""

_RELATIONS = {f"_{sign}_": sign for sign in ("==", "!=", "<", "<=", ">", ">=")} | {"@in": "in"}
_SUMS = {f"_{sign}_": sign for sign in "+-*/%"}


def closure(expr: Expr, names: Collection[str], watch: Watch | None = None) -> Eval:
    """What computes the expression; `names` are the variables it may use. Raises CelError later."""
    run = _plain(expr, names, watch)
    return run if watch is None else watch(expr, run)


def _plain(expr: Expr, names: Collection[str], watch: Watch | None) -> Eval:
    if expr.op == "const":
        value = expr.value
        return lambda _: value
    if expr.op == "ident":
        name = expr.name
        if name not in names and name in NAMED_TYPES:
            return lambda _: name
        return lambda scope: scope[name]
    if expr.op in ("select", "optselect"):
        return _selection(expr, names, watch)
    if expr.op == "has":
        return _presence(closure(expr.args[0], names, watch), unescaped(expr.name))
    if expr.op == "call":
        return _call(expr, names, watch)
    if expr.op == "method":
        return _method(expr, names, watch)
    if expr.op == "list":
        items = [closure(part, names, watch) for part in expr.args]
        return lambda scope: [item(scope) for item in items]
    if expr.op == "struct":
        return _struct(expr, [closure(part, names, watch) for part in expr.args])
    if expr.op == "map":
        runs = [closure(part, names, watch) for part in expr.args]
        pairs = list(zip(runs[::2], runs[1::2], strict=True))
        return lambda scope: {key(scope): value(scope) for key, value in pairs}
    return _macro(expr, names, watch)


def _struct(expr: Expr, runs: list[Eval]) -> Eval:
    name, fields, maybe = expr.name, expr.value, expr.bound

    def run(scope: Scope) -> Struct:
        values: dict[str, Any] = {}
        for field, part in zip(fields, runs, strict=True):
            value = part(scope)
            if field in maybe and isinstance(value, Optional):
                if not value.present:
                    continue
                value = value.value
            values[field] = value
        return Struct(name, values)

    return run


def _missing(name: Any) -> CelError:
    return CelError(f"no such key: {name}")


def _selection(expr: Expr, names: Collection[str], watch: Watch | None) -> Eval:
    dotted = qualified(expr)
    if dotted in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return lambda _: dotted
    if dotted and dotted in names and expr.op == "select":
        return lambda scope: scope[dotted]
    container = closure(expr.args[0], names, watch)
    key, name, optional = unescaped(expr.name), expr.name, expr.op == "optselect"

    def run(scope: Scope) -> Any:
        where = container(scope)
        if isinstance(where, Optional):
            if not where.present:
                return where
            inner = where.value
            return Optional(inner[key], True) if key in inner else Optional()
        if isinstance(where, dict) and key in where:
            return Optional(where[key], True) if optional else where[key]
        if optional:
            return Optional()
        raise CelError("no such overload") if isinstance(where, list) else _missing(name)

    return run


def _presence(container: Eval, key: str) -> Eval:
    def run(scope: Scope) -> bool:
        where = container(scope)
        if isinstance(where, Optional):
            return where.present and key in where.value
        if isinstance(where, list):
            raise CelError("no such overload")
        return isinstance(where, dict) and key in where

    return run


def _call(expr: Expr, names: Collection[str], watch: Watch | None) -> Eval:
    runs = [closure(part, names, watch) for part in expr.args]
    name = expr.name
    if name in ("_&&_", "_||_"):
        return _logical(runs[0], runs[1], decisive=name == "_||_")
    if name in _RELATIONS or name in _SUMS:
        left, right = runs
        if name in _RELATIONS:
            relation = _RELATIONS[name]
            return lambda scope: compare(relation, left(scope), right(scope))
        sign = _SUMS[name]
        return lambda scope: arithmetic(sign, left(scope), right(scope))
    if name == "!_":
        inner = runs[0]
        return lambda scope: not _boolean(inner(scope))
    if name == "-_":
        return lambda scope: _negative(runs[0](scope))
    if name == "_?_:_":
        condition, yes, no = runs
        return lambda scope: (yes if _boolean(condition(scope)) else no)(scope)
    if name in ("_[_]", "_[?_]"):
        return _indexed(runs[0], runs[1], optional=name == "_[?_]")
    function = FUNCTIONS.get(name)
    if function is None:
        raise CelError(f"undeclared reference to '{name}' (in container '')", expr.at)
    return lambda scope: _called(function, [run(scope) for run in runs])


def _negative(value: Any) -> Any:
    return arithmetic("-", type(value)(0), value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise CelError("no such overload")


def _logical(left: Eval, right: Eval, *, decisive: bool) -> Eval:
    """Either side may decide, whatever became of the other one."""

    def run(scope: Scope) -> bool:
        try:
            if _boolean(left(scope)) is decisive:
                return decisive
        except CelError as first:
            try:
                decided = _boolean(right(scope)) is decisive
            except CelError:
                decided = False
            if decided:
                return decisive
            raise first from None
        return _boolean(right(scope))

    return run


def _indexed(container: Eval, index: Eval, *, optional: bool) -> Eval:
    def run(scope: Scope) -> Any:
        where, key = container(scope), index(scope)
        maybe = optional
        if isinstance(where, Optional):
            if not where.present:
                return where
            where, maybe = where.value, True
        try:
            if isinstance(where, list) and key < 0:
                raise IndexError
            found = where[key]
        except (KeyError, IndexError, TypeError):
            if maybe:
                return Optional()
            if isinstance(where, dict):
                raise _missing(key) from None
            raise CelError(f"index out of bounds: {key}") from None
        return Optional(found, True) if maybe else found

    return run


def _called(function: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except (TypeError, AttributeError, ValueError):
        raise CelError("no such overload") from None


def _method(expr: Expr, names: Collection[str], watch: Watch | None) -> Eval:
    runs = [closure(part, names, watch) for part in expr.args[1:]]
    prefix = qualified(expr.args[0])
    if prefix and prefix.partition(".")[0] not in names:
        static = FUNCTIONS.get(f"{prefix}.{expr.name}")
        if static is not None:
            return lambda scope: _called(static, [run(scope) for run in runs])
    target = closure(expr.args[0], names, watch)
    function = METHODS.get(expr.name)
    if function is None:
        text = f"{expr.name} is not supported here"

        def unsupported(_: Scope) -> Any:
            raise CelError(text)

        return unsupported
    return lambda scope: _called(function, [target(scope), *(run(scope) for run in runs)])


def _each(container: Any, count: int) -> list[tuple[Any, ...]]:
    """The values of a macro's variables, one tuple for each turn. CelError."""
    if isinstance(container, dict):
        return list(container.items()) if count == 2 else [(key,) for key in container]
    if isinstance(container, list):
        return list(enumerate(container)) if count == 2 else [(item,) for item in container]
    raise CelError("no such overload")


def _macro(expr: Expr, names: Collection[str], watch: Watch | None) -> Eval:
    container = closure(expr.args[0], names, watch)
    bound, name = expr.bound, expr.name
    inner = {*names, *bound}
    bodies = [closure(body, inner, watch) for body in expr.args[1:]]
    body = bodies[-1]
    if name in ("optMap", "optFlatMap"):
        return _optional_macro(container, body, bound[0], flat=name == "optFlatMap")

    def turns(scope: Scope) -> list[tuple[tuple[Any, ...], Scope]]:
        return [(values, {**scope, **dict(zip(bound, values, strict=True))})
                for values in _each(container(scope), len(bound))]  # fmt: skip

    if name in ("all", "exists"):
        return _quantified(turns, body, decisive=name == "exists")
    if name in ("exists_one", "existsOne"):
        return lambda scope: sum(_boolean(body(inside)) for _, inside in turns(scope)) == 1
    if name == "filter":
        return lambda scope: [values[0] for values, inside in turns(scope) if body(inside)]
    if name == "sortBy":
        return lambda scope: [values[0] for values, _ in sorted(
            turns(scope), key=lambda turn: _sort_key(body(turn[1]))
        )]  # fmt: skip
    condition = bodies[0] if len(bodies) == 2 else None

    def chosen(scope: Scope) -> list[tuple[tuple[Any, ...], Scope]]:
        found = turns(scope)
        return found if condition is None else [t for t in found if _boolean(condition(t[1]))]

    if name == "transformMap":
        return lambda scope: {values[0]: body(inside) for values, inside in chosen(scope)}
    return lambda scope: [body(inside) for _, inside in chosen(scope)]


def _sort_key(value: Any) -> Any:
    return cmp_to_key(lambda a, b: -1 if compare("<", a, b) else int(compare(">", a, b)))(value)


def _quantified(
    turns: Callable[[Scope], list[tuple[tuple[Any, ...], Scope]]], body: Eval, *, decisive: bool
) -> Eval:
    """All or any; a turn that decides makes up for others that failed."""

    def run(scope: Scope) -> bool:
        wrong: CelError | None = None
        for _, inside in turns(scope):
            try:
                if _boolean(body(inside)) is decisive:
                    return decisive
            except CelError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong
        return not decisive

    return run


def _optional_macro(container: Eval, body: Eval, variable: str, *, flat: bool) -> Eval:
    def run(scope: Scope) -> Any:
        given = container(scope)
        if not isinstance(given, Optional):
            raise CelError("no such overload")
        if not given.present:
            return given
        result = body({**scope, variable: given.value})
        return result if flat else Optional(result, True)

    return run
