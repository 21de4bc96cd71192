"""Expressions of CEL in stages: over `self`, with the functions `Now`, `Rand`, `SinceSecond`, `UnixSecond`, `Quantity`.

Pods and nodes are typed: a field that is absent has the zero value of its type, and `has` tells whether it is present.
Other kinds are maps, where an absent field is an error. The functions are written out before the check: the time and
each random number become variables. Upstream: pkg/utils/cel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from attrs import evolve, frozen

from controlplane.api.durations import DurationError, parse_duration
from controlplane.apiserver.kinds.custom.cel.checker import checked
from controlplane.apiserver.kinds.custom.cel.evaluation import planned
from controlplane.apiserver.kinds.custom.cel.syntax import parsed
from controlplane.apiserver.kinds.custom.cel.tree import CelError, Expr, qualified
from controlplane.apiserver.kinds.custom.cel.types import DYN, read_type
from controlplane.apiserver.schema.types import Field, Kind, StructType, struct_type

__all__ = ["ExpressionError", "as_bool", "as_duration", "as_int", "check", "evaluate"]

SELF: Final = "self"
WHOLE: Final = "@whole"
"""The object without zero values: what `has` looks at."""
NOW: Final = "@now"
RANDOM: Final = "@random"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: Final = {"Pod": "io.k8s.api.core.v1.Pod", "Node": "io.k8s.api.core.v1.Node"}
_ZEROS: Final = {
    Kind.STRING: "",
    Kind.BOOL: False,
    Kind.INT: 0,
    Kind.NUMBER: 0.0,
    Kind.QUANTITY: "0",
    Kind.TIME: "0001-01-01T00:00:00Z",
    Kind.MICRO_TIME: "0001-01-01T00:00:00Z",
    Kind.INT_OR_STRING: 0,
    Kind.BYTES: "",
}
LEVELS: Final = 6
"""How deep zero values are made: deeper ones are of types that contain themselves."""


class ExpressionError(ValueError):
    """An expression that cannot be compiled or evaluated; the text is cel-go's."""


@frozen
class _Program:
    run: Callable[[dict[str, Any]], Any]
    draws: int


@lru_cache(maxsize=512)
def _program(source: str, typed: bool) -> _Program:
    try:
        rewriter = _Rewriter(typed)
        tree = rewriter.rewritten(parsed(source, bindings=False))
        names = {SELF: DYN, WHOLE: DYN, NOW: read_type("timestamp")}
        names |= {f"{RANDOM}{at}": read_type("double") for at in range(rewriter.draws)}
        return _Program(planned(checked(tree, names)), rewriter.draws)
    except CelError as error:
        raise ExpressionError(f"failed to compile expression: ERROR: {error}") from None


def check(source: str) -> None:
    """Refuse an expression that does not compile. Raises ExpressionError."""
    _program(source, typed=False)


def evaluate(source: str, tree: Mapping[str, Any], now: int, draw: Callable[[], float]) -> Any:
    """Return the value of an expression for an object at a time in nanoseconds. Raises ExpressionError."""
    type_name = _TYPES.get(str(tree.get("kind"))) if tree.get("apiVersion") == "v1" else None
    program = _program(source, type_name is not None)
    value = tree if type_name is None else _filled(tree, struct_type(type_name), LEVELS)
    scope = {SELF: value, WHOLE: tree, NOW: _EPOCH + timedelta(microseconds=now // 1000)}
    scope |= {f"{RANDOM}{at}": draw() for at in range(program.draws)}
    try:
        return program.run(scope)
    except CelError as error:
        raise ExpressionError(str(error)) from None


def _filled(tree: Mapping[str, Any], struct: StructType, levels: int) -> dict[str, Any]:
    """Return a tree in which absent fields have their zero values."""
    made = dict(tree)
    for name, each in struct.fields.items():
        made[name] = _value(made.get(name), each, levels - 1)
    return made


def _value(value: Any, field: Field, levels: int) -> Any:
    if field.kind == Kind.STRUCT:
        return _filled(value or {}, field.struct, levels) if levels > 0 or value else {}
    if field.kind == Kind.LIST:
        element = field.element
        return [each if element is None else _value(each, element, levels) for each in value or ()]
    if field.kind == Kind.MAP:
        return dict(value or {})
    return _ZEROS.get(field.kind) if value is None else value


class _Rewriter:
    """Writes KWOK's functions out with those of CEL."""

    def __init__(self, typed: bool) -> None:
        self._typed = typed
        self.draws = 0

    def rewritten(self, expr: Expr) -> Expr:
        if expr.op == "has" and self._typed and qualified(expr.args[0]).split(".")[0] == SELF:
            return self._present(expr)
        args = tuple(self.rewritten(part) for part in expr.args)
        expr = evolve(expr, args=args)
        if expr.op == "call":
            return self._function(expr, args)
        if expr.op == "method" and len(args) == 1:
            return self._function(expr, args)
        return expr

    def _present(self, expr: Expr) -> Expr:
        path = [*qualified(expr.args[0]).split(".")[1:], expr.name]
        found = Expr("ident", expr.at, name=WHOLE)
        for name in path:
            found = Expr("optselect", expr.at, (found,), name=name)
        return Expr("method", expr.at, (found,), name="hasValue")

    def _function(self, expr: Expr, args: tuple[Expr, ...]) -> Expr:
        at = expr.at
        if expr.name == "Now" and not args:
            return Expr("ident", at, name=NOW)
        if expr.name == "Rand" and not args:
            self.draws += 1
            return Expr("ident", at, name=f"{RANDOM}{self.draws - 1}")
        if expr.name == "Quantity" and len(args) == 1:
            return _call("quantity", at, args[0])
        if expr.name == "UnixSecond" and len(args) == 1:
            return _call("double", at, _call("int", at, _call("timestamp", at, args[0])))
        if expr.name == "SinceSecond" and len(args) == 1:
            meta = Expr("select", at, (args[0],), name="metadata")
            created = _call("timestamp", at, Expr("select", at, (meta,), name="creationTimestamp"))
            since = _call("_-_", at, Expr("ident", at, name=NOW), created)
            return _call("double", at, Expr("method", at, (since,), name="getSeconds"))
        return expr


def _call(name: str, at: int, *args: Expr) -> Expr:
    return Expr("call", at, args, name=name)


# -- results ---------------------------------------------------------------------------------------


def _unsupported(name: str, value: Any) -> ExpressionError:
    kinds = {bool: "Bool", int: "Int", float: "Double", str: "String", list: "baseList"}
    kind = next((name for cls, name in kinds.items() if isinstance(value, cls)), "Null")
    return ExpressionError(f"cel.{name} unsupported type: types.{kind}")


def as_bool(value: Any) -> bool:
    """Return a value that must be a boolean. Raises ExpressionError."""
    if not isinstance(value, bool):
        raise _unsupported("AsBool", value)
    return value


def as_int(value: Any) -> int:
    """Return a weight: whole numbers, fractions cut, booleans, durations in nanoseconds. Raises ExpressionError."""
    if isinstance(value, (bool, int, float)):
        return int(value)
    if isinstance(value, timedelta):
        return _nanoseconds(value)
    raise _unsupported("AsInt64", value)


def as_duration(value: Any) -> int:
    """Return a delay in nanoseconds: durations, their texts, or numbers of nanoseconds. Raises ExpressionError."""
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except DurationError as error:
            raise ExpressionError(str(error)) from None
    if isinstance(value, timedelta):
        return _nanoseconds(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    raise _unsupported("AsDuration", value)


def _nanoseconds(value: timedelta) -> int:
    return (value.days * 86400 + value.seconds) * 10**9 + value.microseconds * 1000
