"""The least and the most that an expression may cost.

A part's size follows from the expression, or from the schema along the path on which its value is
reached: `self`, names of fields, `@items`, `@keys`, `@values`.
Upstream: cel-go checker/cost.go; the sizes: apiextensions-apiserver
pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.amounts import (
    LIST,
    MAP,
    NONE,
    ONE,
    STRUCT,
    UNBOUNDED,
    UNKNOWN,
    Range,
    exactly,
)
from controlplane.apiserver.kinds.custom.cel.call_costs import Argument, call_cost
from controlplane.apiserver.kinds.custom.cel.checker import Checked
from controlplane.apiserver.kinds.custom.cel.declared import Declared
from controlplane.apiserver.kinds.custom.cel.macros import RESULT
from controlplane.apiserver.kinds.custom.cel.tree import Expr
from controlplane.apiserver.kinds.custom.cel.types import STRING, Type, is_struct

__all__ = ["estimate"]

_SCALARS: Final = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))


def estimate(checked: Checked, root: Declared | None, variable: str = "") -> Range:
    """Return the cost of an expression over variables with the sizes of a schema.

    Args:
        checked: the expression.
        root: the schema.
        variable: the variable that the schema describes, "" where it describes every one.
    """
    return _Estimator(checked, root, variable).cost(checked.tree)


class _Path:
    """A path of names. Paths that were made from one share its room, as slices in Go do.

    A path that is made longer writes into the room of the shorter one, and so changes another path
    that was made of it before: a few estimates depend on that.
    """

    __slots__ = ("length", "names", "room")

    def __init__(self, names: list[str], length: int, room: int) -> None:
        self.names = names
        self.length = length
        self.room = room

    def extended(self, name: str) -> _Path:
        if self.length < self.room:
            self.names[self.length : self.length + 1] = [name]
            return _Path(self.names, self.length + 1, self.room)
        names = [*self.names[: self.length], name]
        return _Path(names, self.length + 1, max(self.room * 2, 1))


_NOWHERE: Final = _Path([], 0, 0)


@frozen(eq=False)
class _Entry:
    """The sizes of the keys and values of a list or map that the expression writes down."""

    kind: str
    key: Range
    value: Range

    def __or__(self, other: _Entry) -> _Entry:
        return _Entry(self.kind, self.key | other.key, self.value | other.value)


@frozen(eq=False)
class _Local:
    """A variable of a fold."""

    path: _Path
    size: Range | None
    entry: _Entry | None = None


class _Estimator:
    def __init__(self, checked: Checked, root: Declared | None, variable: str) -> None:
        self.checked = checked
        self.variable = variable
        self.root = root
        self.paths: dict[Expr, _Path] = {}
        self.locals: dict[str, list[_Local]] = {}
        self.sizes: dict[Expr, Range] = {}
        self.entries: dict[Expr, _Entry] = {}

    # -- costs -----------------------------------------------------------------------------------

    def cost(self, expr: Expr) -> Range:
        op = expr.op
        if op == "const":
            return NONE
        if op == "ident" or expr in self.checked.names:
            name = self.checked.names[expr]
            known = self.local(name)
            self.paths[expr] = _Path([name], 1, 1) if known is None else known.path
            return ONE
        if op == "select":
            return self.select(expr)
        if op == "has":
            return self.cost(expr.args[0])
        if op in ("call", "method", "optselect"):
            return self.call(expr)
        if op == "list":
            return self.items(expr)
        if op == "map":
            return self.map(expr)
        if op == "struct":
            return _total([self.cost(part) for part in expr.args]) + exactly(STRUCT)
        return self.fold(expr)

    def select(self, expr: Expr) -> Range:
        target = expr.args[0]
        total = self.cost(target)
        kind = self.checked.types[target]
        if kind.name == "map" or is_struct(kind):
            total = total + ONE
        self.paths[expr] = self.path(target).extended(expr.name)
        return total

    def call(self, expr: Expr) -> Range:
        name = self.checked.functions[expr]
        if name == "dyn":
            part = expr.args[0]
            total = self.cost(part) + ONE
            self.copy(expr, part)
            return total
        parts = expr.args
        is_method = expr.op == "method" and name == expr.name
        if expr.op == "method":
            parts = parts[1:]
        if expr.op == "optselect":
            parts = (parts[0], Expr("const", expr.at, value=expr.name))
        costs, args = [], []
        for part in parts:
            costs.append(self.cost(part))
            args.append(self.argument(part))
        total, target = NONE, None
        if is_method:
            total = self.cost(expr.args[0])
            target = self.argument(expr.args[0])
        return total + self.overloads(expr, name, target, args, costs)

    def overloads(
        self,
        expr: Expr,
        name: str,
        target: Argument | None,
        args: list[Argument],
        costs: list[Range],
    ) -> Range:
        """The range over all forms that may be meant."""
        total = Range(UNBOUNDED, 0)
        size: Range | None = None
        for overload in self.checked.overloads[expr]:
            form = overload.costs_as
            if form == "logical":
                cost, result = Range(costs[0].low, (costs[0] + costs[1]).high), None
            elif form == "conditional":
                cost = costs[0] + (costs[1] | costs[2])
                result = args[1].size | args[2].size
                self.join_entries(expr, args[1].expr, args[2].expr)
            else:
                found = call_cost(name, form, target, args)
                cost, result = found.cost + _total(costs), found.size
                if form in ("add_text", "add_list"):
                    self.join_entries(expr, args[0].expr, args[1].expr)
            total = total | cost
            if result is not None:
                size = result if size is None else size | result
            if form in ("index_list", "index_map"):
                entry = self.entry(args[0].expr)
                size = None if entry is None else entry.value
                step = "@items" if form == "index_list" else "@values"
                self.paths[expr] = self.path(args[0].expr).extended(step)
            if size is None:
                size = self.size(expr)
        if size is not None:
            self.sizes[expr] = size
        return total

    def items(self, expr: Expr) -> Range:
        total, size = NONE, Range(UNBOUNDED if expr.args else 0, 0)
        for part in expr.args:
            total = total + self.cost(part)
            size = size | (self.size(part) or UNKNOWN)
        self.entries[expr] = _Entry("list", ONE, size)
        return total + exactly(LIST)

    def map(self, expr: Expr) -> Range:
        total = NONE
        sizes = [Range(UNBOUNDED if expr.args else 0, 0)] * 2
        for at in range(0, len(expr.args), 2):
            pair = expr.args[at : at + 2]
            total = total + self.cost(pair[0])
            total = total + self.cost(pair[1])
            sizes = [
                size | (self.size(part) or UNKNOWN) for size, part in zip(sizes, pair, strict=True)
            ]
        self.entries[expr] = _Entry("map", sizes[0], sizes[1])
        return total + exactly(MAP)

    # -- folds -----------------------------------------------------------------------------------

    def fold(self, expr: Expr) -> Range:
        items, start, condition, step, result = expr.args
        name = expr.bound[0]
        total = self.cost(items)
        total = total + self.cost(start)
        self.push(name, _Local(self.path(start), self.size(start), self.entry(start)))
        if items.op == "list" and not items.args and condition.value is False:
            total = total + self.cost(result)
            self.pop(name)
            self.copy(expr, result)
            return total
        self.push_turn(expr.bound[1:], items)
        turn = self.cost(condition)
        turn = self.cost(step) + turn
        for variable in expr.bound[1:]:
            self.pop(variable)
        total = total + self.cost(result)
        self.pop(name)
        turns = self.size(items) or UNKNOWN
        total = total + turns * turn
        if start.op == "const":
            size = self.size(start)
            if size is not None:
                self.sizes[expr] = size
        elif start.op in ("list", "map"):
            self.sizes[expr] = turns
            entry = self.entry(step)
            if entry is not None:
                self.entries[expr] = entry
        return total

    def push_turn(self, names: tuple[str, ...], items: Expr) -> None:
        """The variables of a turn: index and element of a list, key and value of a map."""
        entry = self.entry(items)
        kind = self.checked.types[items].name if entry is None else entry.kind
        is_list = kind == "list"
        key = ("@indices" if is_list else "@keys", None if entry is None else entry.key)
        value = ("@items" if is_list else "@values", None if entry is None else entry.value)
        chosen = [key, value] if len(names) == 2 else [value if is_list else key]
        for name, (step, size) in zip(names, chosen, strict=True):
            self.push(name, _Local(self.path(items).extended(step), size))

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def pop(self, name: str) -> None:
        self.locals[name].pop()

    def local(self, name: str) -> _Local | None:
        found = self.locals.get(name)
        return found[-1] if found else None

    # -- sizes -----------------------------------------------------------------------------------

    def path(self, expr: Expr) -> _Path:
        if expr.op == "ident" or expr in self.checked.names:
            known = self.local(self.checked.names[expr])
            if known is not None:
                return known.path
        return self.paths.get(expr, _NOWHERE)

    def argument(self, expr: Expr) -> Argument:
        size = self.size(expr)
        path = self.path(expr)
        if path.length and path.names[0] in (RESULT, "__result__"):
            path = _NOWHERE

        def elements() -> Range:
            if not path.length:
                return UNKNOWN
            declared = self.at(path)
            element = None if declared is None else declared.element
            return UNKNOWN if element is None else Range(0, element.most)

        kind = self.checked.types.get(expr, STRING)  # the name of an optional field has none
        return Argument(expr, kind, size or UNKNOWN, size is not None, elements)

    def size(self, expr: Expr) -> Range | None:
        """The known bounds of the size of a value."""
        known = self.sizes.get(expr)
        if known is not None:
            return known
        if expr.op == "const":
            value = expr.value
            return exactly(len(value)) if isinstance(value, str | bytes) else ONE
        if expr.op in ("list", "map"):
            return exactly(len(expr.args) // (1 if expr.op == "list" else 2))
        declared = self.at(self.path(expr))
        if declared is not None:
            self.sizes[expr] = Range(0, declared.most)
            return self.sizes[expr]
        kind = self.checked.types.get(expr)
        if kind is not None and _scalar(kind):
            return ONE
        if expr in self.checked.names:
            local = self.local(self.checked.names[expr])
            if local is not None and local.size is not None:
                return local.size
        return None

    def at(self, path: _Path) -> Declared | None:
        """The declaration of the values at a path; any variable begins at its root."""
        if not path.length or (self.variable and path.names[0] != self.variable):
            return None
        found = self.root
        for name in path.names[1 : path.length]:
            if found is None:
                return None
            if name in ("@items", "@values"):
                found = found.element
            elif name == "@keys":
                found = found.key
            else:
                found = None if found.fields is None else found.fields.get(name)
        return found

    def entry(self, expr: Expr) -> _Entry | None:
        found = self.entries.get(expr)
        if found is None and expr in self.checked.names:
            local = self.local(self.checked.names[expr])
            found = None if local is None else local.entry
        return found

    def join_entries(self, expr: Expr, first: Expr, second: Expr) -> None:
        one, other = self.entry(first), self.entry(second)
        if one is not None and other is not None:
            self.entries[expr] = one | other

    def copy(self, expr: Expr, source: Expr) -> None:
        size, entry = self.size(source), self.entry(source)
        if size is not None:
            self.sizes[expr] = size
        if entry is not None:
            self.entries[expr] = entry


def _scalar(kind: Type) -> bool:
    """True for values of a constant size."""
    if kind.name == "optional_type":
        return _scalar(kind.params[0])
    return kind.name in _SCALARS


def _total(costs: list[Range]) -> Range:
    total = NONE
    for cost in costs:
        total = total + cost
    return total
