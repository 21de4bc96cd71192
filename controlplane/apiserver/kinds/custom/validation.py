"""Values against the schema of a custom resource.

The checks, their order, their texts and the choice of the alternative whose errors are reported are those of
kube-openapi pkg/validation/validate; their translation to field errors is that of apiextensions-apiserver
pkg/apiserver/validation. Upstream goes through the properties of an object in no order; here they are sorted by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from typing import Any, Final

from controlplane.api.equality import Seen
from controlplane.api.go_numbers import shown_float
from controlplane.api.go_values import go_json, go_type
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.correlation import Correlated
from controlplane.apiserver.kinds.custom.formats import is_recognized, string_format
from controlplane.apiserver.kinds.custom.schemas import INT_OR_STRING
from controlplane.apiserver.schema import go_regexp
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    as_json,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from controlplane.apiserver.schema.work import spend

__all__ = ["check_lists", "validate"]

_NOWHERE: Final = "<nil>"
"""The path of a whole object in messages of the API server."""
_JUNCTORS: Final = frozenset(("anyOf", "oneOf", "allOf", "not"))
_PLAIN: Final = {"string": str, "boolean": bool, "integer": int}
"""Types of values that need no second look where the schema asks for nothing but the type."""
_WHOLE_LIMIT: Final = float(2**53 - 1)
"""Beyond it a float counts as no integer."""
_NEARLY: Final = 1e-9
_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_MOST_FLOAT32: Final = 3.4028235677973366e38
"""From here on a number rounds to infinity as a float32."""


def validate(
    value: Any, schema: Tree, *, within: str = "", correlated: Correlated | None = None
) -> list[FieldError]:
    """Return the errors of a value.

    Args:
        value: the value; integers are Python's int, other numbers float.
        schema: the part of a structural schema that describes it.
        within: the field that holds the value: it begins the paths of errors, but stands in no message.
        correlated: on an update, the value beside its old one: unchanged parts are not reported.
    """
    result = _Result(within)
    _validate(value, schema, "", result, correlated)
    return list(result.errors.values())


class _Result:
    """Errors by their texts, of which each is reported once, and how many checks passed.

    The second number chooses, among alternatives that all fail, the one whose errors are reported.
    """

    __slots__ = ("errors", "matches", "within")

    def __init__(self, within: str) -> None:
        self.errors: dict[str, FieldError] = {}
        self.matches = 0
        self.within = within

    def apart(self) -> _Result:
        """Return an empty result for an alternative."""
        return _Result(self.within)

    def merge(self, other: _Result) -> None:
        """Take over errors and count of a part."""
        for text, error in other.errors.items():
            self.errors.setdefault(text, error)
        self.matches += other.matches

    def path(self, name: str) -> str:
        """Return the field that a name within the value stands for."""
        name = name.removeprefix(".")
        if not name:
            return self.within or _NOWHERE
        return f"{self.within}.{name}" if self.within else name

    def add(self, text: str, error: FieldError) -> None:
        """Add an error unless its text is known."""
        self.errors.setdefault(text, error)

    def refuse(self, name: str, value: Any, text: str) -> None:
        """Add an error about a value whose text and detail are the same."""
        self.add(text, invalid(self.path(name), value, text))

    def refuse_type(self, name: str, wanted: str, found: str) -> None:
        """Add an error about the type or format of a value."""
        text = f"{name} in body must be of type {wanted}: {_quoted(found)}"
        self.add(text, type_invalid(self.path(name), found, text))

    def refuse_whole(self, text: str) -> None:
        """Add an error that names no field."""
        self.add(text, invalid(self.within or _NOWHERE, "", text))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _validate(
    value: Any, schema: Tree, name: str, result: _Result, correlated: Correlated | None
) -> None:
    """Check a value, or, where an update may have left it unchanged, check it apart and drop errors then."""
    spend(3 + (len(name) >> 9))
    if correlated is None:
        _check(value, schema, name, result, None)
        return
    apart = result.apart()
    _check(value, schema, name, apart, correlated)
    if apart.errors and correlated.unchanged:
        apart.errors = {}
    result.merge(apart)


def _check(
    value: Any, schema: Tree, name: str, result: _Result, correlated: Correlated | None
) -> None:
    """Ask every check that applies to the value, in the order of kube-openapi's SchemaValidator."""
    if value is None:
        _check_type(value, schema, name, result)
        _check_enum(value, schema, name, result)
        return
    if _types(schema) or (schema.get("format") and is_recognized(schema)):
        _check_type(value, schema, name, result)
        result.matches += 1
    if not _JUNCTORS.isdisjoint(schema):
        _check_junctors(value, schema, name, result)
    result.matches += 2  # the junctors' own count, and that of their check
    if isinstance(value, str):
        _check_string(value, schema, name, result)
        _check_format(value, schema, name, result)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, schema, name, result)
    elif isinstance(value, list):
        _check_list(value, schema, name, result, correlated)
    _check_enum(value, schema, name, result)
    result.matches += 1
    if isinstance(value, dict):
        _check_object(value, schema, name, result, correlated)
        result.matches += 1
    result.matches += 1


# -- type, format and enum -----------------------------------------------------------------------


def _type_of(value: Any) -> tuple[str, str]:
    """Return the JSON type of a value, and the format that a decoded number has."""
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, int):
        return "integer", "int64"
    if isinstance(value, float):
        return "number", "float64"
    if isinstance(value, str):
        return "string", ""
    return ("array", "") if isinstance(value, list) else ("object", "")


def _types(schema: Tree) -> tuple[str, ...]:
    if schema.get(INT_OR_STRING):
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if kind else ()


def _check_type(value: Any, schema: Tree, name: str, result: _Result) -> None:
    allowed = _types(schema)
    if value is None:
        if allowed and not schema.get("nullable"):
            result.refuse_type(name, ",".join(allowed), "null")
        else:
            result.matches += 1
        return
    kind, coded = _type_of(value)
    fits = (
        kind in allowed
        or (kind == "integer" and "number" in allowed)
        or (kind == "number" and "integer" in allowed and _is_whole(value))
    )
    form = schema.get("format") if is_recognized(schema) else ""
    if form and kind not in ("string", "array") and not fits and coded != form:
        result.refuse_type(name, form, coded)
    elif form and kind in ("string", "array") and not {"integer", "number"}.intersection(allowed):
        result.matches += 1  # a format makes a text of a value of any type
    elif fits or not (allowed or form):
        result.matches += 1
    else:
        result.refuse_type(name, ",".join(allowed), kind)


def _is_whole(value: float) -> bool:
    """Return whether a float stands for an integer, as go-openapi decides it."""
    if not math.isfinite(value) or abs(value) > _WHOLE_LIMIT:
        return False
    rounded = math.floor(abs(value) + 0.5)
    return abs(value) == rounded or (rounded != 0 and abs(abs(value) - rounded) < _NEARLY * rounded)


def _check_format(value: str, schema: Tree, name: str, result: _Result) -> None:
    form = schema.get("format", "")
    check = string_format(form) if form and is_recognized(schema) else None
    if check is None:
        return
    if not check(value):
        result.refuse_type(name, form, value)
    result.matches += 1


def _check_enum(value: Any, schema: Tree, name: str, result: _Result) -> None:
    allowed = schema.get("enum")
    if not allowed:
        return
    spend(len(allowed) >> 5)
    if any(_is_enumerated(value, each) for each in allowed):
        return
    texts = [each if isinstance(each, str) else go_json(each) for each in allowed]
    result.add(
        f"{name} in body should be one of {texts}",
        not_supported(result.path(name), as_json(value), texts, sort=False, typed=False),
    )


def _is_enumerated(value: Any, allowed: Any) -> bool:
    """Return whether a value equals an allowed one once Go has converted it to the other's type."""
    if value is None or allowed is None:
        return False
    if isinstance(value, bool) or isinstance(allowed, bool):
        return value is allowed
    if isinstance(value, float) and isinstance(allowed, int):
        return math.isfinite(value) and int(value) == allowed
    if isinstance(value, int) and isinstance(allowed, str):
        return 0 <= value < 0x110000 and chr(value) == allowed
    return (type(value) is type(allowed) and bool(value == allowed)) or (
        isinstance(value, int | float) and isinstance(allowed, float) and float(value) == allowed
    )


# -- junctors ------------------------------------------------------------------------------------


def _check_junctors(value: Any, schema: Tree, name: str, result: _Result) -> None:
    """Check the alternatives; what an update left unchanged within them is reported nevertheless."""

    def tried(option: Tree) -> _Result:
        apart = result.apart()
        spend(3)
        _check(value, option, name, apart, None)
        return apart

    quoted = _quoted(name)
    options = schema.get("anyOf")
    if options:
        chosen: _Result | None = None
        for option in options:
            found = tried(option)
            if not found.errors:
                chosen = found
                break
            if chosen is None or found.matches > chosen.matches:
                chosen = found
        assert chosen is not None
        if chosen.errors:
            result.refuse_whole(f"{quoted} must validate at least one schema (anyOf)")
        result.merge(chosen)
    options = schema.get("oneOf")
    if options:
        _check_one_of([tried(option) for option in options], quoted, result)
    options = schema.get("allOf")
    if options:
        results = [tried(option) for option in options]
        good = sum(not found.errors for found in results)
        for found in results:
            result.merge(found)
        if good != len(options):
            none = "" if good else ". None validated"
            result.refuse_whole(f"{quoted} must validate all the schemas (allOf){none}")
    refused = schema.get("not")
    if refused is not None and not tried(refused).errors:
        result.refuse_whole(f"{quoted} must not validate the schema (not)")


def _check_one_of(results: list[_Result], quoted: str, result: _Result) -> None:
    valid = [found for found in results if not found.errors]
    if len(valid) == 1:
        result.merge(valid[0])
        return
    text = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result.refuse_whole(f"{quoted} must validate one and only one schema (oneOf). {text}")
    if not valid:
        result.merge(max(results, key=lambda found: found.matches))


# -- scalars -------------------------------------------------------------------------------------


def _check_string(value: str, schema: Tree, name: str, result: _Result) -> None:
    result.matches += 1
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        result.add(
            f"{name} in body should be at most {most} chars long",
            too_long(result.path(name), most),
        )
    elif least is not None and len(value) < least:
        result.refuse(name, value, f"{name} in body should be at least {least} chars long")
    elif pattern:
        try:
            compiled = go_regexp.compiled(pattern)
        except go_regexp.PatternError as error:
            text = f"{pattern}, but pattern is invalid: {error}"
            result.refuse(name, value, f"{name} in body should match '{text}'")
            return
        if not compiled.found(value):
            result.refuse(name, value, f"{name} in body should match '{pattern}'")


def _out_of_range(value: float, kind: str, form: str) -> bool:
    """Return whether a number cannot be converted to the type and format of a schema."""
    if kind == "integer":
        if isinstance(value, float):
            if not value.is_integer():
                return True
            value = int(value)
        least, most = _INT32 if form == "int32" else _INT64
        return not least <= value <= most
    return form == "float" and abs(value) >= _MOST_FLOAT32


def _check_number(value: float, schema: Tree, name: str, result: _Result) -> None:
    """Check the range of the type, then multipleOf, minimum and maximum.

    A bound that does not fit the type is reported, too, and then compared as a float64.
    """
    result.matches += 2
    types = _types(schema)
    kind = types[0] if len(types) == 1 and types[0] in ("integer", "number") else ""
    form = schema.get("format", "") if kind and is_recognized(schema) else ""

    def fits(number: float, prefix: str) -> bool:
        if not _out_of_range(number, kind, form):
            return True
        shown = f"with format {form}" if form else "(default format)"
        result.refuse_whole(f"{prefix} value must be of type {kind} {shown} in {name}")
        return False

    fits(value, "Checked")
    factor, least, most = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    if factor is not None:
        native = fits(factor, "MultipleOf") and isinstance(value, int)
        _check_multiple(value if native else float(value), factor, name, result)
    for bound, exclusive, prefix, words in (
        (least, schema.get("exclusiveMinimum"), "Minimum boundary", "greater than"),
        (most, schema.get("exclusiveMaximum"), "Maximum boundary", "less than"),
    ):
        if bound is None:
            continue
        whole = fits(bound, prefix) and isinstance(value, int)
        number = value if whole else float(value)
        limit = int(bound) if whole else float(bound)
        shown = str(limit) if whole else shown_float(limit)
        beyond = number < limit if words == "greater than" else number > limit
        if beyond or (exclusive and number == limit):
            rule = words if exclusive else f"{words} or equal to"
            result.refuse(name, number, f"{name} in body should be {rule} {shown}")


def _check_multiple(value: float, factor: float, name: str, result: _Result) -> None:
    if isinstance(value, int):
        factor = int(factor)
        shown = str(factor)
    else:
        factor = float(factor)
        shown = shown_float(factor)
    if factor <= 0:
        text = f"factor MultipleOf declared for {name} must be positive: {shown}"
        result.refuse(name, factor, text)
        return
    if isinstance(value, int):
        good = value % int(factor) == 0
    else:
        good = _is_whole(1 / factor * value if factor < 1 else value / factor)
    if not good:
        result.refuse(name, value, f"{name} in body should be a multiple of {shown}")


# -- lists and objects ---------------------------------------------------------------------------


def _is_plain(schema: Tree) -> type | None:
    """Return the Python type of all values that fit a schema which asks for nothing but the type."""
    return _PLAIN.get(schema.get("type", "")) if len(schema) == 1 else None


_PLAIN_MATCHES: Final = {str: 7, bool: 6, int: 8}
"""The checks that pass for a value of a schema that asks for nothing but the type."""


def _check_list(
    value: list[Any], schema: Tree, name: str, result: _Result, correlated: Correlated | None
) -> None:
    result.matches += 2
    items = schema.get("items")
    if isinstance(items, dict):
        plain = _is_plain(items)
        spend(len(value) >> 1)
        for index, item in enumerate(value):
            if type(item) is plain:
                result.matches += _PLAIN_MATCHES[plain]
                continue
            inner = None if correlated is None else correlated.item(index)
            _validate(item, items, f"{name}[{index}]", result, inner)
    most, least = schema.get("maxItems"), schema.get("minItems")
    if least is not None and len(value) < least:
        result.refuse(name, len(value), f"{name} in body should have at least {least} items")
    if most is not None and len(value) > most:
        result.add(
            f"{name} in body should have at most {most} items",
            too_many(result.path(name), len(value), most),
        )
    seen = Seen()
    if schema.get("uniqueItems") and any(seen.again(item) for item in value):
        result.refuse(name, "", f"{name} in body shouldn't contain duplicates")


def _check_object(
    value: Tree, schema: Tree, name: str, result: _Result, correlated: Correlated | None
) -> None:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and len(value) < least:
        result.refuse(name, len(value), f"{name} in body should have at least {least} properties")
    if most is not None and len(value) > most:
        result.add(
            f"{name} in body should have at most {most} properties",
            too_many(result.path(name), len(value), most),
        )
    known = schema.get("properties") or {}
    more = schema.get("additionalProperties")

    def check(key: str, inner: Tree, at: str) -> None:
        item = value[key]
        plain = _is_plain(inner)
        if type(item) is plain:
            result.matches += _PLAIN_MATCHES[plain]
            return
        # Changes of the object's own kind and version are not seen, as both were converted.
        seen = correlated is not None and (name != "" or key not in ("apiVersion", "kind"))
        within = correlated.field(key) if correlated is not None and seen else None
        _validate(item, inner, at, result, within)

    if isinstance(more, dict):
        for key in sorted(key for key in value if key not in known):
            check(key, more, f"{name}.{key}")
    for key in sorted(key for key in value if key in known):
        check(key, known[key], f"{name}.{key}" if name else key)
    for key in schema.get("required") or ():
        if key not in value:
            text = f"{name}.{key}"
            result.add(f"{text} in body is required", required(result.path(text)))


# -- lists of type set and map -------------------------------------------------------------------


def check_lists(value: Any, schema: Tree, path: str = "") -> list[FieldError]:
    """Return an error for each element that repeats another one in a list of type set or map.

    Source: apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go.
    """
    errors: list[FieldError] = []
    if isinstance(value, dict):
        spend(1 + len(value) * (1 + (len(path) >> 9)))
        more = schema.get("additionalProperties")
        known = schema.get("properties") or {}
        parted = sorted(key for key, item in value.items() if isinstance(item, dict | list))
        if isinstance(more, dict):
            for key in parted:
                errors += check_lists(value[key], more, f"{path}[{key}]")
        for key in parted:
            if key in known:
                errors += check_lists(value[key], known[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        spend(2 * len(value))
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            errors += _repeated(value, value, path)
        elif kind == "map":
            errors += _repeated_keys(value, schema.get("x-kubernetes-list-map-keys") or (), path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                if isinstance(item, dict | list):
                    errors += check_lists(item, items, f"{path}[{index}]")
    return errors


def _repeated(values: list[Any], shown: list[Any], path: str) -> list[FieldError]:
    """Return an error for the second appearance of each value; further ones are not reported."""
    times: dict[Hashable, int] = {}
    errors: list[FieldError] = []
    for index, value in enumerate(values):
        identity = _identity(value)
        times[identity] = times.get(identity, 0) + 1
        if times[identity] == 2:
            errors.append(duplicate(f"{path}[{index}]", as_json(shown[index])))
    return errors


def _identity(value: Any) -> Hashable:
    """Return what values are compared by: Go's type and value of a scalar, the JSON of a list or a map."""
    return go_json(value) if isinstance(value, dict | list) else (go_type(value), value)


def _repeated_keys(values: list[Any], keys: Sequence[str], path: str) -> list[FieldError]:
    for index, item in enumerate(values):
        if item is not None and not isinstance(item, dict):
            text = "must be an object for an array of list-type map"
            return [invalid(f"{path}[{index}]", as_json(item), text)]
    shown = [{key: item[key] for key in keys if item and key in item} for item in values]
    if len(keys) == 1:
        return _repeated([found.get(keys[0], {}) for found in shown], shown, path)
    return _repeated(shown, shown, path)
