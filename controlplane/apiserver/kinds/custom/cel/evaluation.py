"""Expressions as closures over their variables, each of which counts what it costs.

Constants are computed once, when an expression is planned.
Upstream: cel-go interpreter/{planner,interpretable,decorators}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import define, frozen

from controlplane.apiserver.kinds.custom.cel.amounts import LIST, MAP, STRUCT
from controlplane.apiserver.kinds.custom.cel.attributes import (
    Attribute,
    Condition,
    Eval,
    Qualifier,
    Scope,
)
from controlplane.apiserver.kinds.custom.cel.checker import Checked
from controlplane.apiserver.kinds.custom.cel.conversions import GO_TYPES, type_name
from controlplane.apiserver.kinds.custom.cel.dispatch import guarded
from controlplane.apiserver.kinds.custom.cel.library import FUNCTIONS, METHODS, pattern_of
from controlplane.apiserver.kinds.custom.cel.macros import RESULT, UNUSED
from controlplane.apiserver.kinds.custom.cel.maps import Entries, items_of, key_of, keys_of
from controlplane.apiserver.kinds.custom.cel.metering import METER, Cancelled, Meter, meter_of
from controlplane.apiserver.kinds.custom.cel.operators import OPERATORS, OVERLOAD, compare
from controlplane.apiserver.kinds.custom.cel.signatures import CONTEXT
from controlplane.apiserver.kinds.custom.cel.structs import Struct
from controlplane.apiserver.kinds.custom.cel.tree import CelError, Expr, Unsigned, unescaped
from controlplane.apiserver.kinds.custom.cel.types import Type, is_dynamic
from controlplane.apiserver.kinds.custom.cel.values import Optional

__all__ = ["PlanError", "Run", "planned"]

Run = Callable[[Scope], Any]
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_PATTERNS: Final = frozenset(("matches", "find", "findAll"))


class PlanError(CelError):
    """A constant that cannot be computed, in an expression that `gives` this type."""

    gives: Type | None = None


def planned(checked: Checked) -> Run:
    """Computes the expression; what it costs is counted by the meter among the variables, if any.

    The result raises CelError where the evaluation fails.

    Raises:
        PlanError: a constant cannot be computed.
    """
    run = _Planner(checked).plan(checked.tree)

    def evaluated(scope: Scope) -> Any:
        if METER not in scope:
            scope = {**scope, METER: Meter()}
        value = run(scope)
        if isinstance(value, CelError):
            raise value
        return value

    return evaluated


@frozen(eq=False)
class _Const:
    """A value that is known before the evaluation; it costs nothing."""

    value: Any

    def __call__(self, _scope: Scope) -> Any:
        return self.value


@define(eq=False)
class _Lazy:
    """A bound value that is computed when it is first asked for."""

    run: Eval
    scope: Scope
    value: Any = None
    done: bool = False

    def get(self) -> Any:
        if not self.done:
            self.value = self.run(self.scope)
            self.done = True
        return self.value


class _Planner:
    def __init__(self, checked: Checked) -> None:
        self.checked = checked

    def plan(self, expr: Expr) -> Eval:
        op = expr.op
        if op == "const":
            return _Const(expr.value)
        if op == "ident" or expr in self.checked.names:
            return self.name(expr)
        if op in ("select", "has"):
            return self.select(expr)
        if op == "optselect":
            key = unescaped(expr.name)
            return self.led_on(expr.args[0], Qualifier(key, expr.name, optional=True))
        if op in ("call", "method"):
            return self.call(expr)
        if op == "list":
            return self.items(expr)
        if op == "map":
            return self.entries(expr)
        return self.struct(expr) if op == "struct" else self.fold(expr)

    def name(self, expr: Expr) -> Eval:
        name = self.checked.names[expr]
        if self.checked.types[expr].name == "type":
            return _Const(_TYPE_NAMES.get(name, name))

        def variable(scope: Scope) -> Any:
            value = scope[name]
            return value.get() if isinstance(value, _Lazy) else value

        return Attribute(variable)

    def attribute(self, expr: Expr) -> Attribute | Condition:
        """A part as a beginning, from which fields and indexes lead on."""
        run = self.plan(expr)
        if isinstance(run, Attribute | Condition) and not run.test:
            return run
        return Attribute(run)

    def led_on(self, target: Expr, qualifier: Qualifier) -> Attribute | Condition:
        found = self.attribute(target)
        found.add(qualifier)
        return found

    def select(self, expr: Expr) -> Eval:
        test = expr.op == "has"
        found = self.led_on(expr.args[0], Qualifier(unescaped(expr.name), expr.name, test=test))
        found.test = test
        return found

    # -- calls -----------------------------------------------------------------------------------

    def call(self, expr: Expr) -> Eval:
        name = self.checked.functions[expr]
        if name in ("_[_]", "_[?_]"):
            return self.index(expr, optional=name == "_[?_]")
        parts = expr.args
        is_method = expr.op == "method"
        if is_method and name != expr.name:
            parts, is_method = parts[1:], False
        if name == "_+_" and _appends(expr):
            return self.append(expr)
        runs = [self.plan(part) for part in parts]
        if name in ("_&&_", "_||_"):
            return _logical(runs[0], runs[1], decisive=name == "_||_")
        if name == "_?_:_":
            yes, no = (
                run if isinstance(run, Attribute | Condition) else Attribute(run)
                for run in runs[1:]
            )
            return Condition(runs[0], yes, no)
        if is_method and name in ("or", "orValue"):
            return _otherwise(runs[0], runs[1], inner=name == "orValue")
        overloads = self.checked.overloads[expr]
        form = overloads[0].costs_as if len(overloads) == 1 else ""
        if name == "@in" and form == "in_list":
            found = _membership(runs[0], runs[1])
            if found is not None:
                return found
        own = self.checked.library.own.get(name)
        if own is not None:
            return self.own(expr, name, own, runs)
        if is_method:
            function = METHODS[name]
        else:
            function = OPERATORS.get(name) or FUNCTIONS[name]
        if name not in OPERATORS and any(is_dynamic(self.checked.types[part]) for part in parts):
            function = guarded(name, function, overloads)
        early_constants = not self.checked.library.standard
        if (
            early_constants
            and name in _CONVERSIONS
            and len(runs) == 1
            and isinstance(runs[0], _Const)
        ):
            return _Const(_computed_once(function, [runs[0].value]))
        # Upstream does not count such calls where an argument before the last one fails.
        early = len(runs) > 2 or name == "format" or (len(overloads) > 1 and name not in OPERATORS)
        if name in _PATTERNS and len(runs) > 1 and isinstance(runs[1], _Const):
            _computed_once(pattern_of, [runs[1].value])
            early = True
        strict = name != "@not_strictly_false"
        return _called(function, runs, meter_of(name, form), strict=strict, early=early)

    def own(self, expr: Expr, name: str, own: Callable[..., Any], runs: list[Eval]) -> Eval:
        """Return the call of a function that the library computes itself, which is given the context."""
        guard: Callable[..., Any] | None = None
        if name not in OPERATORS and any(
            is_dynamic(self.checked.types[part]) for part in expr.args
        ):
            guard = guarded(name, lambda *_args: None, self.checked.overloads[expr])

        def function(context: Any, *args: Any) -> Any:
            if guard is not None:
                guard(*args)
            return own(context, *args)

        return _called(function, [lambda scope: scope[CONTEXT], *runs], None)

    def index(self, expr: Expr, *, optional: bool) -> Eval:
        target, key = expr.args
        found = self.attribute(target)
        run = self.plan(key)
        if isinstance(run, _Const):
            kind = self.checked.types[key].name
            unfit = GO_TYPES["type"] if kind == "type" else GO_TYPES[type_name(run.value)]
            if unfit not in _KEYS:
                raise PlanError(f"invalid qualifier type: {unfit}")
            found.add(Qualifier(run.value, run.value, optional=optional))
        elif isinstance(run, Attribute | Condition) and not run.test:
            found.add(Qualifier(run.resolve, "", computed=True, optional=optional))
        else:
            found.add(Qualifier(run, "", computed=True, optional=optional))
        return found

    def append(self, expr: Expr) -> Eval:
        """Return the result of a fold so far with another element: its list is not shared."""
        before, added = (self.plan(part) for part in expr.args)
        overloads = self.checked.overloads[expr]

        def run(scope: Scope) -> Any:
            items, more = before(scope), added(scope)
            scope[METER].spend(1)
            if isinstance(items, CelError):
                return items
            if isinstance(more, CelError):
                return more
            items.extend(more)
            return items

        return run if len(overloads) == 1 else _called(OPERATORS["_+_"], [before, added], None)

    # -- values that are written down ------------------------------------------------------------

    def items(self, expr: Expr) -> Eval:
        runs = [self.plan(part) for part in expr.args]
        maybe = expr.maybe

        def run(scope: Scope) -> Any:
            found: list[Any] = []
            for index, each in enumerate(runs):
                value = each(scope)
                if index in maybe and not isinstance(value, CelError):
                    if not isinstance(value, Optional):
                        return CelError(
                            "cannot initialize optional list element from non-optional value "
                            f"{value}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                if isinstance(value, CelError):
                    return value
                found.append(value)
            return found

        return _constructed(run, runs, LIST)

    def entries(self, expr: Expr) -> Eval:
        runs = [self.plan(part) for part in expr.args]
        pairs = list(zip(runs[::2], runs[1::2], strict=True))
        maybe = expr.maybe

        def run(scope: Scope) -> Any:
            found = Entries()
            for index, (key_run, value_run) in enumerate(pairs):
                key = key_run(scope)
                if isinstance(key, CelError):
                    return key
                value = value_run(scope)
                if isinstance(value, CelError):
                    return value
                try:
                    hashed = key_of(key)
                except CelError as error:
                    return error
                if index in maybe and isinstance(value, Optional):
                    if not value.present:
                        found.pop(hashed, None)
                        continue
                    value = value.value
                found[hashed] = value
            return found

        return _constructed(run, runs, MAP)

    def struct(self, expr: Expr) -> Eval:
        runs = [self.plan(part) for part in expr.args]
        name, fields, maybe = expr.name, expr.value, expr.maybe

        def run(scope: Scope) -> Any:
            values: dict[str, Any] = {}
            for index, (each, part) in enumerate(zip(fields, runs, strict=True)):
                value = part(scope)
                if isinstance(value, CelError):
                    return value
                if index in maybe and isinstance(value, Optional):
                    if not value.present:
                        continue
                    value = value.value
                values[each] = value
            return Struct(name, values)

        return _constructed(run, [], STRUCT)

    # -- folds -----------------------------------------------------------------------------------

    def fold(self, expr: Expr) -> Eval:
        items, start, condition, step, result = (self.plan(part) for part in expr.args)
        name = expr.bound[0]
        variables = expr.bound[1:]
        if variables == (UNUSED,):
            return lambda scope: result({**scope, name: _Lazy(start, scope)})

        def run(scope: Scope) -> Any:
            container = items(scope)
            if isinstance(container, CelError):
                return container
            turns = _turns(container, len(variables))
            if isinstance(turns, CelError):
                return turns
            inner = {**scope, name: _own(start(scope))}
            for values in turns:
                inner.update(zip(variables, values, strict=True))
                if condition(inner) is False:
                    break
                inner[name] = step(inner)
            return result({**scope, name: inner[name]})

        return run


_KEYS: Final = frozenset(("types.String", "types.Int", "types.Uint", "types.Bool", "types.Double"))
"""The types of constants that may be an index."""
_TYPE_NAMES: Final = {
    "google.protobuf.Timestamp": "google.protobuf.Timestamp",
    "google.protobuf.Duration": "google.protobuf.Duration",
}


def _own(value: Any) -> Any:
    """A list or map to which a fold may add."""
    if isinstance(value, list):
        return list(value)
    return Entries(value) if isinstance(value, dict) else value


def _appends(expr: Expr) -> bool:
    first, second = expr.args
    return first.op == "ident" and first.name == RESULT and first.made and second.op == "list"


def _turns(container: Any, count: int) -> Any:
    """The values of a fold's variables, a tuple for each turn."""
    if isinstance(container, dict):
        return list(items_of(container) if count == 2 else ((key,) for key in keys_of(container)))
    if isinstance(container, list):
        return enumerate(container) if count == 2 else ((item,) for item in container)
    kind = GO_TYPES.get(type_name(container), "types.Int")
    if count == 2:
        return CelError(f"unsupported comprehension range type: {kind}")
    return CelError(f"got '{kind}', expected iterable type")


def _computed_once(function: Callable[..., Any], args: list[Any]) -> Any:
    try:
        return function(*args)
    except CelError as error:
        raise PlanError(str(error)) from None
    except (TypeError, AttributeError, ValueError):
        raise PlanError(OVERLOAD) from None


def _constructed(run: Eval, runs: list[Eval], cost: int) -> Eval:
    """A list or map. It is made once if all its parts are constants."""
    if cost != STRUCT and all(isinstance(each, _Const) for each in runs):
        return _Const(run({}))

    def counted(scope: Scope) -> Any:
        value = run(scope)
        scope[METER].spend(cost)
        return value

    return counted


def _called(
    function: Callable[..., Any],
    runs: list[Eval],
    meter: Callable[[list[Any], Any], int | None] | None,
    *,
    strict: bool = True,
    early: bool = False,
) -> Eval:
    """A call. A failed argument fails it, at once with `early`, unless it is not `strict`."""
    last = len(runs) - 1

    def run(scope: Scope) -> Any:
        args: list[Any] = []
        failure: CelError | None = None
        for index, each in enumerate(runs):
            value = each(scope)
            args.append(value)
            if strict and isinstance(value, CelError):
                failure = failure or value
                if early and index < last:
                    return failure
        if failure is None:
            try:
                result = function(*args)
            except Cancelled:
                raise
            except CelError as error:
                result = error
            except (TypeError, AttributeError, ValueError):
                result = CelError(OVERLOAD)
        else:
            result = failure
        cost = None if meter is None else meter(args, result)
        scope[METER].spend(1 if cost is None else cost)
        return result

    return run


def _logical(left: Eval, right: Eval, *, decisive: bool) -> Eval:
    """Evaluate both sides: either may decide, even if the other one failed."""

    def run(scope: Scope) -> Any:
        failure: CelError | None = None
        for side in (left, right):
            value = side(scope)
            if value is decisive:
                return decisive
            if not isinstance(value, bool):
                error = value if isinstance(value, CelError) else CelError(OVERLOAD)
                failure = failure or error
        return failure if failure is not None else not decisive

    return run


def _otherwise(left: Eval, right: Eval, *, inner: bool) -> Eval:
    """An optional value if it is present, otherwise the other one."""

    def run(scope: Scope) -> Any:
        value = left(scope)
        if not isinstance(value, Optional):
            return value
        if value.present:
            return value.value if inner else value
        return right(scope)

    return run


def _membership(item: Eval, items: Eval) -> Eval | None:
    """The test for an element of a constant list, which costs nothing; None if it does."""
    if not isinstance(items, _Const) or not isinstance(items.value, list):
        return None
    if not items.value:
        return _Const(False)
    primitive = (bool, int, float, str, Unsigned)
    if not all(isinstance(each, primitive) for each in items.value):
        return None
    known = items.value

    def run(scope: Scope) -> Any:
        value = item(scope)
        return value if isinstance(value, CelError) else compare("in", value, known)

    return run
