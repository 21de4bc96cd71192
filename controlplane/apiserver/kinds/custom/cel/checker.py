"""What type an expression has, and everything that is wrong with it.

Upstream: cel-go checker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.apiserver.kinds.custom.cel.signatures import (
    FUNCTIONS,
    METHODS,
    NAMED_TYPES,
    Overload,
)
from controlplane.apiserver.kinds.custom.cel.structs import PATCHES, struct_type
from controlplane.apiserver.kinds.custom.cel.syntax import CelError, Expr, Unsigned
from controlplane.apiserver.kinds.custom.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    STRING,
    Binding,
    Type,
    assignable,
    list_of,
    map_of,
    optional_of,
    read_type,
    resolved,
    type_of,
)

__all__ = ["checked", "qualified"]

_MOST_ERRORS = 100
_NOTHING = read_type("null")


def qualified(expr: Expr) -> str:
    """The dotted name that an expression may be, or nothing."""
    if expr.op == "ident":
        return expr.name
    if expr.op == "select":
        prefix = qualified(expr.args[0])
        return f"{prefix}.{expr.name}" if prefix else ""
    return ""


def checked(expr: Expr, names: Mapping[str, Type]) -> Type:
    """The type of an expression over these variables. CelError with all mistakes."""
    checker = _Checker()
    kind = checker.infer(expr, dict(names))
    if checker.issues:
        issues = tuple(sorted(checker.issues, key=lambda issue: issue[0])[:_MOST_ERRORS])
        raise CelError(issues[0][1], issues[0][0], issues)
    return kind


class _Checker:
    def __init__(self) -> None:
        self.issues: list[tuple[int, str]] = []
        self.mixed = False

    def wrong(self, at: int, text: str) -> Type:
        self.issues.append((at, text))
        return ERROR

    def infer(self, expr: Expr, names: dict[str, Type]) -> Type:
        if expr.op == "const":
            return _constant(expr.value)
        if expr.op == "ident":
            return self.ident(expr, names)
        if expr.op in ("select", "optselect", "has"):
            return self.select(expr, names)
        if expr.op == "call":
            takes = [self.infer(part, names) for part in expr.args]
            overloads = FUNCTIONS.get(expr.name)
            if overloads is None:
                return self.undeclared(expr.name, expr.at)
            return self.resolve(expr, overloads, takes, method=False)
        if expr.op == "method":
            return self.method(expr, names)
        if expr.op == "list":
            return list_of(self.joined(expr.args, names))
        if expr.op == "struct":
            return self.struct(expr, names)
        if expr.op == "map":
            keys, values = expr.args[::2], expr.args[1::2]
            return map_of(self.joined(keys, names), self.joined(values, names))
        return self.macro(expr, names)

    def struct(self, expr: Expr, names: dict[str, Type]) -> Type:
        made = struct_type(expr.name) if PATCHES in names else None
        if made is None:
            return self.undeclared(expr.name, expr.at)
        assert made.fields is not None
        for field, part in zip(expr.value, expr.args, strict=True):
            wanted, given = made.fields.get(field), self.infer(part, names)
            if field in expr.bound and given.name == "optional_type":
                given = given.params[0]
            if wanted is None:
                self.wrong(part.at, f"undefined field '{field}'")
            elif not assignable(wanted, given, {}):
                self.wrong(part.at, (
                    f"expected type of field '{field}' is '{wanted}' but provided type is '{given}'"
                ))  # fmt: skip
        return made

    def undeclared(self, name: str, at: int) -> Type:
        return self.wrong(at, f"undeclared reference to '{name}' (in container '')")

    def ident(self, expr: Expr, names: dict[str, Type]) -> Type:
        found = names.get(expr.name)
        if found is not None:
            return found
        named = NAMED_TYPES.get(expr.name)
        return type_of(named) if named is not None else self.undeclared(expr.name, expr.at)

    def select(self, expr: Expr, names: dict[str, Type]) -> Type:
        if qualified(expr) in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            return type_of(read_type(expr.name.lower()))
        whole = names.get(qualified(expr))
        if whole is not None and expr.op == "select":
            return whole
        target = self.infer(expr.args[0], names)
        maybe = expr.op == "optselect"
        if target.name == "optional_type":
            maybe = True
            target = target.params[0]
        found = self.field(expr, target)
        if found is ERROR or expr.op == "has":
            return found if found is ERROR else BOOL
        return optional_of(found) if maybe else found

    def field(self, expr: Expr, target: Type) -> Type:
        if target in (DYN, ERROR) or target.variable:
            return DYN if target is not ERROR else ERROR
        if target.name == "map":
            return target.params[1]
        if target.fields is not None:
            found = target.fields.get(expr.name)
            return found or self.wrong(expr.at, f"undefined field '{expr.name}'")
        return self.wrong(expr.at, f"type '{target}' does not support field selection")

    def method(self, expr: Expr, names: dict[str, Type]) -> Type:
        was = self.mixed
        self.mixed = was or expr.name == "format"
        takes = [self.infer(part, names) for part in expr.args[1:]]
        self.mixed = was
        prefix = qualified(expr.args[0])
        if prefix and prefix.partition(".")[0] not in names:
            overloads = FUNCTIONS.get(f"{prefix}.{expr.name}")
            if overloads is not None and (prefix != "jsonpatch" or PATCHES in names):
                return self.resolve(expr, overloads, takes, method=False)
        target = self.infer(expr.args[0], names)
        overloads = METHODS.get(expr.name)
        if overloads is None:
            return self.undeclared(expr.name, expr.at)
        return self.resolve(expr, overloads, [target, *takes], method=True)

    def resolve(
        self, expr: Expr, overloads: list[Overload], takes: list[Type], *, method: bool
    ) -> Type:
        results: list[Type] = []
        for overload in overloads:
            bound: Binding = {}
            if len(overload.takes) == len(takes) and all(
                assignable(a, b, bound) for a, b in zip(overload.takes, takes, strict=True)
            ):
                results.append(resolved(overload.gives, bound))
        if not results:
            shown = [str(kind) for kind in takes]
            text = f"({', '.join(shown)})"
            if method:
                text = f"{shown[0]}.({', '.join(shown[1:])})"
            return self.wrong(
                expr.at, f"found no matching overload for '{expr.name}' applied to '{text}'"
            )
        first = results[0]
        same = all(kind is first or str(kind) == str(first) for kind in results)
        return first if same else DYN

    def joined(self, parts: tuple[Expr, ...], names: dict[str, Type]) -> Type:
        if not parts:
            return read_type("T")
        bound: Binding = {}
        wanted = read_type("T")
        for part in parts:
            kind = self.infer(part, names)
            if not assignable(wanted, kind, bound):
                if self.mixed:
                    return DYN
                self.wrong(part.at, f"expected type '{bound['T']}' but found '{kind}'")
        return bound["T"]

    def macro(self, expr: Expr, names: dict[str, Type]) -> Type:
        target = self.infer(expr.args[0], names)
        bodies = expr.args[1:]
        if expr.name in ("optMap", "optFlatMap"):
            inner = target.params[0] if target.name == "optional_type" else DYN
            result = self.infer(bodies[0], {**names, expr.bound[0]: inner})
            return result if expr.name == "optFlatMap" else optional_of(result)
        first, second = self.ranged(expr, target)
        if len(expr.bound) == 2:
            inside = {**names, expr.bound[0]: first, expr.bound[1]: second}
        else:
            single = second if target.name == "list" else first
            inside = {**names, expr.bound[0]: single}
        kinds = [self.infer(body, inside) for body in bodies]
        conditions = kinds[:-1]
        if expr.name in ("all", "exists", "exists_one", "existsOne", "filter"):
            conditions = kinds
        for kind in conditions:
            if not assignable(BOOL, kind, {}):
                self.condition(expr, kind)
        if expr.name in ("all", "exists", "exists_one", "existsOne"):
            return BOOL
        if expr.name == "filter":
            return list_of(second if target.name == "list" else first)
        if expr.name == "transformMap":
            return map_of(first, kinds[-1])
        if expr.name == "sortBy":
            return target
        return list_of(kinds[-1])

    def condition(self, expr: Expr, kind: Type) -> None:
        """What the macro's expansion does with a condition that is none."""
        sign, takes = {
            "all": ("_&&_", f"(bool, {kind})"), "exists": ("_||_", f"(bool, {kind})"),
        }.get(expr.name, ("_?_:_", f"({kind}, int, int)"))  # fmt: skip
        self.wrong(expr.at, f"found no matching overload for '{sign}' applied to '{takes}'")

    def ranged(self, expr: Expr, target: Type) -> tuple[Type, Type]:
        """The types of the two variables over a range: index and element, or key and value."""
        if target.name == "list":
            return INT, target.params[0]
        if target.name == "map":
            return target.params[0], target.params[1]
        if target not in (DYN, ERROR) and not target.variable:
            self.wrong(expr.args[0].at, (
                f"expression of type '{target}' cannot be range of a comprehension (must be list, "
                "map, or dynamic)"
            ))  # fmt: skip
            return ERROR, ERROR
        return DYN, DYN


def _constant(value: Any) -> Type:
    if value is None:
        return _NOTHING
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, Unsigned):
        return read_type("uint")
    if isinstance(value, int):
        return INT
    if isinstance(value, float):
        return read_type("double")
    return STRING if isinstance(value, str) else read_type("bytes")
