"""How much expressions may cost at most: limits of one expression and of a whole schema.

An estimate counts steps; texts cost by their length, macros by how often their bodies run. What has
no bound in the schema is bounded by the largest request. Upstream: cel-go checker/cost.go,
apiserver pkg/cel/library/cost.go, apiextensions-apiserver pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

from attrs import define, field, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel.compiling import Program
from controlplane.apiserver.kinds.custom.cel.signatures import FUNCTIONS, METHODS
from controlplane.apiserver.kinds.custom.cel.syntax import Expr, unescaped
from controlplane.apiserver.schema.field_errors import FieldError, forbidden

__all__ = ["UNBOUNDED", "Costs", "Place", "elements", "estimate", "repeated"]

UNBOUNDED: Final = 2**64 - 1
RULE_LIMIT: Final = 10_000_000
TOTAL_LIMIT: Final = 100_000_000
_NOTEWORTHY = TOTAL_LIMIT // 100
_SHOWN = 4
_REQUEST: Final = 3 * 1024 * 1024
_HINT = ("(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
         "arrays, maps, and strings are declared)")  # fmt: skip
_TRAVERSAL, _REGEX = 0.1, 0.25
_FORMAT_SIZES = {"duration": 32, "date": 12, "date-time": 37}
_FORMAT_LEAST = {"duration": 4, "date": 12, "date-time": 21}
_SCANNED = {"startsWith": 1, "endsWith": 1}
_WHOLE_TEXT = {
    "lowerAscii", "upperAscii", "trim", "substring", "split", "url", "isURL", "ip", "isIP",
    "cidr", "isCIDR", "quantity", "isQuantity", "semver", "isSemver", "validate", "replace",
    "charAt", "ip.isCanonical", "bytes", "quote", "strings.quote",
}  # fmt: skip
"""Functions that read the whole text they are given."""
_WHOLE_LIST = {"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "join", "reverse",
               "flatten", "slice", "sort"}  # fmt: skip
_COMPARED = {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"}


def _capped(value: float) -> int:
    return UNBOUNDED if value >= UNBOUNDED else math.ceil(value)


def least_size(schema: Tree) -> int:
    """How many bytes a value of the schema takes at least."""
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type")
    if kind == "object":
        if isinstance(schema.get("additionalProperties"), dict):
            return 2
        known = schema.get("properties") or {}
        return 2 + sum(
            len(name) + least_size(known[name]) + 4
            for name in schema.get("required") or ()
            if name in known and known[name].get("default") is None
        )
    if kind == "string":
        return _FORMAT_LEAST.get(schema.get("format", ""), 2)
    return {"boolean": 4, "array": 2}.get(str(kind), 1)


def elements(schema: Tree) -> int:
    """How many characters, elements or entries a value of the schema has at most."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return _REQUEST - 2
    if kind == "array":
        most = schema.get("maxItems")
        if most is not None:
            return max(int(most), 0)
        return (_REQUEST - 2) // (least_size(schema.get("items") or {}) + 1)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        most = schema.get("maxProperties")
        if most is not None:
            return max(int(most), 0)
        return (_REQUEST - 2) // (least_size(schema["additionalProperties"]) + 6)
    if kind == "string":
        form = schema.get("format", "")
        if form in _FORMAT_SIZES:
            return _FORMAT_SIZES[form]
        if schema.get("maxLength") is not None:
            return max(int(schema["maxLength"]), 0) * (1 if form == "byte" else 4)
        if schema.get("enum"):
            return max(len(str(item)) for item in schema["enum"])
        return _REQUEST - 2
    return 1


def repeated(many: int | None, schema: Tree) -> int | None:
    """How many elements there are where there are so many such lists or maps; None without bound."""
    key = "maxItems" if schema.get("type") == "array" else "maxProperties"
    most = schema.get(key)
    if many is None or most is None:
        return None
    return many * max(int(most), 0)


# -- one expression ------------------------------------------------------------------------------


@frozen(eq=False)
class _Worth:
    """The most that a part costs, how large its value is, and its schema if it comes from one."""

    cost: int
    size: int
    schema: Tree | None = None


_NO_SCHEMA: Tree = {}


def estimate(expr: Expr, names: dict[str, Tree | None]) -> int:
    """The most that an expression costs, over variables with these schemas."""
    return _worth(expr, names).cost


def _inner(schema: Tree | None) -> Tree | None:
    if schema is None:
        return None
    found = schema.get("items") if schema.get("type") == "array" else (
        schema.get("additionalProperties")
    )  # fmt: skip
    return found if isinstance(found, dict) else None


def _sized(cost: float, schema: Tree | None) -> _Worth:
    return _Worth(_capped(cost), UNBOUNDED if schema is None else elements(schema), schema)


def _worth(expr: Expr, names: dict[str, Tree | None]) -> _Worth:
    if expr.op == "const":
        value = expr.value
        return _Worth(0, len(value) if isinstance(value, (str, bytes)) else 1)
    if expr.op == "ident":
        return _sized(1, names.get(expr.name))
    parts = expr.args
    if expr.op in ("select", "optselect", "has"):
        target = _worth(parts[0], names)
        if expr.op == "has":
            return _Worth(target.cost, 1)
        schema = target.schema
        if schema is not None:
            known = (schema.get("properties") or {}).get(unescaped(expr.name))
            schema = known if isinstance(known, dict) else _inner(schema)
        return _sized(target.cost + 1, schema)
    if expr.op == "list":
        return _Worth(_capped(10 + sum(_worth(part, names).cost for part in parts)), len(parts))
    if expr.op == "map":
        total = 30 + sum(_worth(part, names).cost for part in parts)
        return _Worth(_capped(total), len(parts) // 2)
    if expr.op == "struct":
        return _Worth(_capped(40 + sum(_worth(part, names).cost for part in parts)), len(parts))
    if expr.op == "macro":
        return _macro(expr, names)
    return _call(expr.name, [_worth(part, names) for part in parts])


def _macro(expr: Expr, names: dict[str, Tree | None]) -> _Worth:
    target = _worth(expr.args[0], names)
    inner = _inner(target.schema)
    if expr.name in ("optMap", "optFlatMap"):
        inner, turns = target.schema, 1
    else:
        turns = target.size
    keyed = target.schema is not None and target.schema.get("type") == "object"
    key: Tree = {"type": "string"} if keyed else {"type": "integer"}
    kinds = (key, inner) if len(expr.bound) == 2 else ((key if keyed else inner),)
    inside = {**names, **dict(zip(expr.bound, kinds, strict=False))}
    body = sum(_worth(part, inside).cost for part in expr.args[1:])
    # Each turn looks at the result so far; macros that make lists also add to one.
    overhead = {"all": 3, "exists": 4, "exists_one": 4, "existsOne": 4}.get(expr.name, 14)
    size = 1 if expr.name in ("all", "exists", "exists_one", "existsOne") else target.size
    cost = _capped(target.cost + turns * (body + overhead) + 1)
    return _Worth(cost, size, target.schema if expr.name == "filter" else None)


_LONG = {"string", "bytes", "list", "map", "dyn", "optional_type"}


@cache
def _gives_scalar(name: str) -> bool:
    """Whether no form of a function gives something that has a length."""
    forms = [*FUNCTIONS.get(name, ()), *METHODS.get(name, ())]
    return not any(form.gives.variable or form.gives.name in _LONG for form in forms)


def _call(name: str, parts: list[_Worth]) -> _Worth:
    given = sum(part.cost for part in parts)
    if name == "_?_:_":
        cost = parts[0].cost + max(parts[1].cost, parts[2].cost)
        return _Worth(_capped(cost), max(parts[1].size, parts[2].size))
    if name in ("_&&_", "_||_"):
        return _Worth(_capped(given), 1)
    first = parts[0] if parts else _Worth(0, 1)
    if name in ("_[_]", "_[?_]"):
        return _sized(given + 1, _inner(first.schema))
    if name in _COMPARED:
        return _Worth(_capped(given + max(1, min(p.size for p in parts) * _TRAVERSAL)), 1)
    if name == "_+_":
        return _sum(given, parts)
    if name == "@in":
        keyed = parts[1].schema is not None and parts[1].schema.get("type") == "object"
        return _Worth(_capped(given + (1 if keyed else max(1, parts[1].size))), 1)
    if name == "contains":
        traversed = (1 + first.size) * _TRAVERSAL * max(1, parts[1].size * _TRAVERSAL)
        return _Worth(_capped(given + traversed), 1)
    if name in ("matches", "find", "findAll"):
        traversed = (1 + first.size) * _TRAVERSAL * max(1, parts[1].size * _REGEX)
        return _Worth(_capped(given + traversed), first.size)
    if name in _SCANNED:
        return _Worth(_capped(given + max(1, parts[1].size * _TRAVERSAL)), 1)
    if name in _WHOLE_LIST and (first.schema or _NO_SCHEMA).get("type") != "string":
        element = _inner(first.schema)
        textual = element is not None and element.get("type") == "string"
        each = 1 + (elements(element) * _TRAVERSAL if textual and element is not None else 0)
        return _Worth(_capped(given + first.size * each), first.size, first.schema)
    if name == "distinct":
        return _Worth(_capped(given + first.size * first.size), first.size, first.schema)
    if name in _WHOLE_TEXT:
        return _Worth(_capped(given + max(1, first.size * _TRAVERSAL)), first.size)
    if _gives_scalar(name):
        return _Worth(_capped(given + 1), 1)
    known = name in ("value", "orValue", "or", "dyn", "optional.of")
    return _Worth(_capped(given + 1), first.size if known else UNBOUNDED)


def _sum(given: int, parts: list[_Worth]) -> _Worth:
    """Numbers cost one step, texts by what is copied."""
    kinds = {(part.schema or _NO_SCHEMA).get("type") for part in parts}
    size = sum(part.size for part in parts)
    if kinds & {"integer", "number"} or (size <= len(parts) and "array" not in kinds):
        return _Worth(_capped(given + 1), 1)
    schema = next((part.schema for part in parts if part.schema is not None), None)
    if "array" in kinds:
        return _Worth(_capped(given + 1), _capped(size), schema)
    return _Worth(_capped(given + max(1, size * _TRAVERSAL)), _capped(size))


# -- limits --------------------------------------------------------------------------------------


def _too_much(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    text = "more than 100" if factor > 100 else f"{factor:.1f}"
    return f"{what} exceeds budget by factor of {text}x {_HINT}"


@frozen(eq=False)
class Place:
    """Where in a schema a part stands.

    There may be so `many` of it in an object, None if that has no bound; `loose` is the path of the
    part around it whose elements have no former state, if there is one.
    """

    costs: Costs
    many: int | None = 1
    loose: str = ""


@define
class Costs:
    """What all rules of one schema cost together."""

    total: int = 0
    dearest: list[tuple[int, str]] = field(factory=list)

    def observed(
        self, program: Program, schema: Tree, many: int | None, path: str, what: str
    ) -> list[FieldError]:
        """Add an expression on values of this schema, of which there are so many in an object."""
        once = estimate(program.tree, {"self": schema, "oldSelf": schema})
        if many is None:
            many = _REQUEST // (least_size(schema) + 1)
        cost = _capped(once * many)
        self.total = _capped(self.total + cost)
        if cost >= _NOTEWORTHY:
            self.dearest = sorted([*self.dearest, (cost, path)], key=lambda item: -item[0])[:_SHOWN]
        if cost <= RULE_LIMIT:
            return []
        return [forbidden(path, _too_much(f"estimated {what} cost", cost, RULE_LIMIT))]

    def total_problems(self, path: str) -> list[FieldError]:
        """What is said of the whole schema, at this path, and of its dearest expressions."""
        if self.total <= TOTAL_LIMIT:
            return []
        text = ("contributed to estimated rule cost total exceeding cost limit for entire "
                "OpenAPIv3 schema")  # fmt: skip
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(forbidden(where, text) for _, where in self.dearest),
            forbidden(path, _too_much(what, self.total, TOTAL_LIMIT)),
        ]
