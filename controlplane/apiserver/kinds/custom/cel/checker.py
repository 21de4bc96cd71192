"""The type of every part of an expression, and everything that is wrong with it.

Upstream: cel-go checker/checker.go and cel/validator.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.formatting import CLAUSES, clauses, refused_type
from controlplane.apiserver.kinds.custom.cel.library import checked_literal
from controlplane.apiserver.kinds.custom.cel.signatures import (
    DEVICES,
    KUBERNETES,
    NAMED_TYPES,
    Library,
    Overload,
)
from controlplane.apiserver.kinds.custom.cel.structs import PATCHES, struct_type
from controlplane.apiserver.kinds.custom.cel.tree import CelError, Expr, Unsigned, qualified, walked
from controlplane.apiserver.kinds.custom.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    Mappings,
    Type,
    exact,
    general,
    is_dynamic,
    is_struct,
    list_of,
    map_of,
    optional_of,
    read_type,
    resolved,
    type_of,
    unified,
    unified_all,
    unwrapped,
)
from controlplane.apiserver.schema.work import spend

__all__ = ["Checked", "checked"]

_MOST_ERRORS = 100
_PART: Final = 24
"""Steps to read, check, plan and estimate a part of an expression."""
_TIMES: Final = {
    "google.protobuf.Timestamp": type_of(read_type("timestamp")),
    "google.protobuf.Duration": type_of(read_type("duration")),
}
_OPTIONAL_FIELD: Final = (Overload((DYN, STRING), optional_of(DYN)),)


@frozen(eq=False)
class Checked:
    """An expression whose types are known.

    Attributes:
        tree: the expression.
        types: the type of every part.
        names: parts that name a variable or a type, with that name.
        functions: calls, with the name of the function: methods that are functions of a
            namespace have another name than their part.
        overloads: calls, with the forms of the function that may be meant.
        library: the functions that the expression may call.
    """

    tree: Expr
    types: Mapping[Expr, Type]
    names: Mapping[Expr, str]
    functions: Mapping[Expr, str]
    overloads: Mapping[Expr, tuple[Overload, ...]]
    library: Library = KUBERNETES

    @property
    def gives(self) -> Type:
        """The type of the whole expression."""
        return self.types[self.tree]


def checked(expr: Expr, variables: Mapping[str, Type], library: Library = KUBERNETES) -> Checked:
    """The types of an expression over variables of these types.

    Raises:
        CelError: with all mistakes.
    """
    checker = _Checker(variables, library)
    checker.infer(expr, variables)
    if not checker.issues:
        types = {part: resolved(kind, checker.mappings) for part, kind in checker.types.items()}
        found = Checked(expr, types, checker.names, checker.functions, checker.overloads, library)
        if not library.standard:
            checker.issues += _literal_issues(found)
        if not checker.issues:
            return found
    issues = tuple(sorted(checker.issues, key=lambda issue: issue[0])[:_MOST_ERRORS])
    raise CelError(issues[0][1], issues[0][0], issues)


_Names = Mapping[str, Type]


class _Checker:
    def __init__(self, variables: _Names, library: Library) -> None:
        self.library = library
        self.patches = PATCHES in variables
        self.devices = DEVICES in variables
        self.issues: list[tuple[int, str]] = []
        self.mappings: Mappings = {}
        self.fresh = 0
        self.types: dict[Expr, Type] = {}
        self.names: dict[Expr, str] = {}
        self.functions: dict[Expr, str] = {}
        self.overloads: dict[Expr, tuple[Overload, ...]] = {}

    def wrong(self, at: int, text: str) -> Type:
        self.issues.append((at, text))
        return ERROR

    def shown(self, kind: Type) -> str:
        return str(resolved(kind, self.mappings))

    def mismatch(self, at: int, wanted: Type, given: Type) -> Type:
        return self.wrong(at, f"expected type '{wanted}' but found '{given}'")

    def variable(self) -> Type:
        self.fresh += 1
        return Type(f"_var{self.fresh - 1}", variable=True)

    def assignable(self, a: Type, b: Type) -> bool:
        found = unified(self.mappings, a, b)
        if found is None:
            return False
        self.mappings = found
        return True

    def infer(self, expr: Expr, names: _Names) -> Type:
        spend(_PART)
        kind = self.found(expr, names)
        self.types[expr] = kind
        return kind

    def found(self, expr: Expr, names: _Names) -> Type:
        op = expr.op
        if op == "const":
            return _constant(expr.value)
        if op == "ident":
            return self.ident(expr, names)
        if op in ("select", "has"):
            return self.select(expr, names)
        if op == "optselect":
            self.overloads[expr] = _OPTIONAL_FIELD
            self.functions[expr] = "_?._"
            return resolved(self.field(expr, names, optional=True), self.mappings, to_dyn=False)
        if op == "call":
            return self.call(expr, names)
        if op == "method":
            return self.method(expr, names)
        if op == "list":
            return self.items(expr, names)
        if op == "map":
            return self.entries(expr, names)
        return self.struct(expr, names) if op == "struct" else self.fold(expr, names)

    # -- names -----------------------------------------------------------------------------------

    def undeclared(self, name: str, at: int) -> Type:
        return self.wrong(at, f"undeclared reference to '{name}' (in container '')")

    def ident(self, expr: Expr, names: _Names) -> Type:
        found = names.get(expr.name)
        if found is None:
            named = NAMED_TYPES.get(expr.name)
            if named is None:
                return self.undeclared(expr.name, expr.at)
            found = type_of(named)
        self.names[expr] = expr.name
        return found

    def select(self, expr: Expr, names: _Names) -> Type:
        if expr.op == "select":
            dotted = qualified(expr)
            whole = names.get(dotted) or _TIMES.get(dotted)
            if whole is not None:
                self.names[expr] = dotted
                return whole
        found = self.field(expr, names, optional=False)
        return BOOL if expr.op == "has" else resolved(found, self.mappings, to_dyn=False)

    def field(self, expr: Expr, names: _Names, *, optional: bool) -> Type:
        target = resolved(self.infer(expr.args[0], names), self.mappings, to_dyn=False)
        target, was_optional = unwrapped(target)
        found = self.field_of(expr, target)
        return optional_of(found) if optional or was_optional else found

    def field_of(self, expr: Expr, target: Type) -> Type:
        if target.name == "map":
            return target.params[1]
        if target.fields is not None:
            found = target.fields.get(expr.name)
            return found or self.wrong(expr.at, f"undefined field '{expr.name}'")
        if target.variable:
            self.assignable(DYN, target)
            return DYN
        if self.library.fields is not None and is_struct(target):
            return self.field_by_name(expr, target)
        if not is_dynamic(target) and target is not ERROR:
            self.wrong(expr.at, f"type '{target}' does not support field selection")
        return DYN

    def field_by_name(self, expr: Expr, target: Type) -> Type:
        """The type of a field of an object whose type the library knows by its name."""
        assert self.library.fields is not None
        fields = self.library.fields.get(target.name)
        if fields is None:
            return self.wrong(expr.at, f"unexpected failed resolution of '{target}'")
        return fields.get(expr.name) or self.wrong(expr.at, f"undefined field '{expr.name}'")

    # -- calls -----------------------------------------------------------------------------------

    def call(self, expr: Expr, names: _Names) -> Type:
        takes = [self.infer(part, names) for part in expr.args]
        overloads = self.library.functions.get(expr.name)
        if overloads is None:
            if expr.name not in self.library.methods:
                return self.undeclared(expr.name, expr.at)
            overloads = []
        return self.resolve(expr, expr.name, overloads, takes, method=False)

    def method(self, expr: Expr, names: _Names) -> Type:
        takes = [self.infer(part, names) for part in expr.args[1:]]
        prefix = qualified(expr.args[0])
        if prefix:
            name = f"{prefix}.{expr.name}"
            overloads = self.library.functions.get(name)
            if overloads is not None and (prefix != "jsonpatch" or self.patches):
                return self.resolve(expr, name, overloads, takes, method=False)
        target = self.infer(expr.args[0], names)
        overloads = self.library.methods.get(expr.name)
        if overloads is None or (expr.name == "includes" and not self.devices):
            if expr.name not in self.library.functions:
                return self.undeclared(expr.name, expr.at)
            overloads = []
        return self.resolve(expr, expr.name, overloads, [target, *takes], method=True)

    def resolve(
        self, expr: Expr, name: str, overloads: list[Overload], takes: list[Type], *, method: bool
    ) -> Type:
        self.functions[expr] = name
        if name in ("_&&_", "_||_"):
            return self.logical(expr, overloads, takes)
        matching: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            wanted, gives = self.instance(overload)
            found = unified_all(self.mappings, takes, wanted)
            if found is None:
                continue
            self.mappings = found
            matching.append(overload)
            given = resolved(gives, self.mappings, to_dyn=False)
            if result is None:
                result = given
            elif not is_dynamic(result) and not exact(given, result):
                result = DYN
        if result is None:
            shown = [self.shown(kind) for kind in takes]
            text = f"({', '.join(shown)})"
            if method:
                text = f"{shown[0]}.({', '.join(shown[1:])})"
            return self.wrong(
                expr.at, f"found no matching overload for '{name}' applied to '{text}'"
            )
        self.overloads[expr] = tuple(matching)
        return result

    def logical(self, expr: Expr, overloads: list[Overload], takes: list[Type]) -> Type:
        failed = False
        for part, kind in zip(expr.args, takes, strict=True):
            if not self.assignable(kind, BOOL):
                self.mismatch(part.at, BOOL, kind)
                failed = True
        self.overloads[expr] = tuple(overloads)
        return ERROR if failed else BOOL

    def instance(self, overload: Overload) -> tuple[list[Type], Type]:
        """The types of an overload with variables of their own."""
        if not any(kind.open for kind in overload.takes) and not overload.gives.open:
            return list(overload.takes), overload.gives
        own: Mappings = {}
        for kind in (*overload.takes, overload.gives):
            for name in _variables(kind):
                if name not in own:
                    own[name] = self.variable()
        return [resolved(k, own, to_dyn=False) for k in overload.takes], resolved(
            overload.gives, own, to_dyn=False
        )

    # -- values that are written down ------------------------------------------------------------

    def optional(self, part: Expr, kind: Type) -> Type:
        """The type of a part that is left out where it is missing."""
        inner, was_optional = unwrapped(kind)
        if not was_optional and not is_dynamic(kind):
            self.mismatch(part.at, optional_of(kind), kind)
        return inner

    def joined(self, part: Expr, before: Type | None, kind: Type) -> Type:
        if before is None:
            return kind
        return general(before, kind) if self.assignable(before, kind) else DYN

    def items(self, expr: Expr, names: _Names) -> Type:
        element: Type | None = None
        for index, part in enumerate(expr.args):
            kind = self.infer(part, names)
            if index in expr.maybe:
                kind = self.optional(part, kind)
            element = self.joined(part, element, kind)
        return list_of(element or self.variable())

    def entries(self, expr: Expr, names: _Names) -> Type:
        key: Type | None = None
        value: Type | None = None
        for index, part in enumerate(expr.args):
            kind = self.infer(part, names)
            if index % 2 == 0:
                key = self.joined(part, key, kind)
                continue
            if index // 2 in expr.maybe:
                kind = self.optional(part, kind)
            value = self.joined(part, value, kind)
        return map_of(key or self.variable(), value or self.variable())

    def struct(self, expr: Expr, names: _Names) -> Type:
        made = struct_type(expr.name) if self.patches else None
        if made is None:
            return self.undeclared(expr.name, expr.at)
        assert made.fields is not None
        for index, (name, part) in enumerate(zip(expr.value, expr.args, strict=True)):
            wanted, given = made.fields.get(name), self.infer(part, names)
            if index in expr.maybe:
                given = self.optional(part, given)
            if wanted is None:
                self.wrong(part.at, f"undefined field '{name}'")
            elif not self.assignable(wanted, given):
                self.wrong(
                    part.at,
                    f"expected type of field '{name}' is '{wanted}' but provided type is '{given}'",
                )
        return made

    # -- folds -----------------------------------------------------------------------------------

    def fold(self, expr: Expr, names: _Names) -> Type:
        items, start, condition, step, result = expr.args
        self.infer(items, names)
        kind = self.infer(start, names)
        result_name, *variables = expr.bound
        outer = {**names, result_name: kind}
        ranged = self.ranged(items, len(variables) == 2)
        inner = {**outer, **dict(zip(variables, ranged, strict=True))}
        for part, wanted in ((condition, BOOL), (step, kind)):
            given = self.infer(part, inner)
            if not self.assignable(wanted, given):
                self.mismatch(part.at, wanted, given)
        return resolved(self.infer(result, outer), self.mappings, to_dyn=False)

    def ranged(self, items: Expr, two: bool) -> tuple[Type, ...]:
        """The types of the variables over a range: index and element, or key and value."""
        kind = resolved(self.types[items], self.mappings, to_dyn=False)
        if kind.name == "list":
            return (INT, kind.params[0]) if two else (kind.params[0],)
        if kind.name == "map":
            return kind.params if two else (kind.params[0],)
        each = DYN
        if is_dynamic(kind) or kind is ERROR or kind.variable:
            self.assignable(DYN, kind)
        else:
            each = self.wrong(
                items.at,
                (
                    f"expression of type '{kind}' cannot be range of a comprehension (must be list, "
                    "map, or dynamic)"
                ),
            )
        return (each, each) if two else (each,)


def _variables(kind: Type) -> list[str]:
    if kind.variable:
        return [kind.name]
    return [name for part in kind.params for name in _variables(part)]


def _constant(value: Any) -> Type:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, Unsigned):
        return read_type("uint")
    if isinstance(value, int):
        return INT
    if isinstance(value, float):
        return read_type("double")
    return STRING if isinstance(value, str) else read_type("bytes")


# -- literals ------------------------------------------------------------------------------------


def _literal_issues(found: Checked) -> list[tuple[int, str]]:
    """Constants that their function refuses, and lists and maps of several types."""
    issues: list[tuple[int, str]] = []
    for name in ("duration", "timestamp", "matches"):
        for part in walked(found.tree):
            if found.functions.get(part) != name:
                continue
            given = part.args[1:] if part.op == "method" else part.args
            if given and given[0].op == "const" and not checked_literal(name, given[0].value):
                issues.append((given[0].at, f"invalid {name} argument"))
    for part in walked(found.tree):
        if found.functions.get(part) == "format":
            issues += _format_issues(part, found.types)
    exempt = _formatted(found)
    for part in walked(found.tree):
        if part.op in ("list", "map") and part not in exempt:
            issues += _mixed_issues(part, found.types)
    return issues


def _format_issues(call: Expr, types: Mapping[Expr, Type]) -> list[tuple[int, str]]:
    """A constant pattern that does not fit the values that are written down for it."""
    pattern, given = call.args[0], call.args[-1]
    if pattern.op != "const" or given.op != "list":
        return []
    used = 0
    try:
        for clause in clauses(pattern.value, len(given.args), checked=True):
            if isinstance(clause, str):
                continue
            part = given.args[used]
            used += 1
            _, allowed = CLAUSES[clause.letter.lower()]
            for inner in _written(part) if clause.letter == "s" else (part,):
                kind = types[inner]
                if not is_dynamic(kind) and kind.name not in allowed:
                    return [(inner.at, str(refused_type(clause.letter, kind.name)))]
    except CelError as error:
        return [(call.at, str(error))]
    if len(given.args) > used:
        text = (
            f"too many arguments supplied to string.format (expected {used}, got {len(given.args)})"
        )
        return [(call.at, text)]
    return []


def _written(expr: Expr) -> Iterator[Expr]:
    """A part and, of lists and maps that are written down, what stands in them."""
    yield expr
    if expr.op in ("list", "map"):
        for part in expr.args:
            yield from _written(part)


def _formatted(found: Checked) -> set[Expr]:
    """The parts within calls of `format`, which takes values of any types."""
    return {
        inner
        for part in walked(found.tree)
        if found.functions.get(part) == "format"
        for inner in walked(part)
    }


def _mixed_issues(expr: Expr, types: Mapping[Expr, Type]) -> list[tuple[int, str]]:
    """Elements of other types than the first one; of a list only the first of them is reported."""
    issues: list[tuple[int, str]] = []
    columns = [expr.args] if expr.op == "list" else [expr.args[::2], expr.args[1::2]]
    for column, parts in enumerate(columns):
        kinds = [types[part] for part in parts]
        if expr.op == "list" or column == 1:
            kinds = [k.params[0] if i in expr.maybe else k for i, k in enumerate(kinds)]
        for part, kind in zip(parts[1:], kinds[1:], strict=True):
            if not _equivalent(kinds[0], kind):
                issues.append((part.at, f"expected type '{kinds[0]}' but found '{kind}'"))
                if expr.op == "list":
                    break
    return issues


def _equivalent(a: Type, b: Type) -> bool:
    """True for types of one name with equivalent parameters; objects are different ones."""
    if a.fields is not None or b.fields is not None:
        return a is b
    if a.name != b.name or len(a.params) != len(b.params):
        return False
    return all(map(_equivalent, a.params, b.params))
