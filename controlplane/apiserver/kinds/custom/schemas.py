"""Values against the schema of a custom resource: pruning, defaulting, validation.

Order and texts of the errors are those of kube-openapi's validators and apiextensions' translation.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Hashable
from typing import Any

from controlplane.api.equality import Seen, by_value
from controlplane.api.times import parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.schema import go_regexp
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    Raw,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from controlplane.apiserver.schema.work import spend

__all__ = [
    "KNOWN_FORMATS",
    "PRESERVE",
    "UNSET",
    "check_lists",
    "defaulted",
    "pruned",
    "validate",
    "without_nulls",
]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
NOWHERE = "<nil>"
_PARTED = (dict, list)
"""What has parts."""


def child(path: str, name: str) -> str:
    """The path of a property."""
    return f"{path}.{name}" if path else name


# -- pruning and defaulting ----------------------------------------------------------------------


def _property(schema: Tree, name: str) -> Tree | None:
    found: Tree | None = schema.get("properties", {}).get(name)
    if found is None:
        more = schema.get("additionalProperties")
        found = more if isinstance(more, dict) else None
    return found


def pruned(value: Any, schema: Tree, path: str, unknown: list[str], *, root: bool = False) -> Any:
    """The value without fields that the schema does not know; their paths go to `unknown`."""
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        spend(len(value) * (1 + (len(path) >> 9)))
        return [
            pruned(item, items, f"{path}[{i}]", unknown) if isinstance(item, _PARTED) else item
            for i, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    keep = bool(schema.get(PRESERVE)) or schema.get("additionalProperties") is True
    embedded = root or schema.get("x-kubernetes-embedded-resource")
    out: Tree = {}
    spend(1 + len(value) * (1 + (len(path) >> 9)))
    for name, item in value.items():
        if embedded and name in ("apiVersion", "kind", "metadata"):
            out[name] = item
            continue
        inner = _property(schema, name)
        if inner is not None:
            if isinstance(item, _PARTED):
                item = pruned(item, inner, child(path, name), unknown)
            out[name] = item
        elif keep:
            out[name] = item
        else:
            unknown.append(child(path, name))
    return out


def without_nulls(value: Any, schema: Tree) -> Any:
    """The value without nulls where the schema does not allow them."""
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        return [without_nulls(item, items) if isinstance(item, _PARTED) else item for item in value]
    if not isinstance(value, dict):
        return value
    out: Tree = {}
    for name, item in value.items():
        inner = _property(schema, name)
        if inner is None:
            out[name] = item
        elif item is not None or inner.get("nullable") or not (
            inner.get("type") or inner.get(INT_OR_STRING)
        ):  # fmt: skip
            out[name] = without_nulls(item, inner) if isinstance(item, _PARTED) else item
    return out


def defaulted(value: Any, schema: Tree) -> Any:
    """The value with the schema's defaults filled in."""
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        return [defaulted(item, items) if isinstance(item, _PARTED) else item for item in value]
    if not isinstance(value, dict):
        return value
    out = dict(value)
    properties = schema.get("properties", {})
    spend(1 + ((len(value) + len(properties)) >> 1))
    for name, inner in properties.items():
        if name not in out and inner.get("default") is not None:
            out[name] = inner["default"]
    for name, item in out.items():
        if isinstance(item, _PARTED):
            found = _property(schema, name)
            if found is not None:
                out[name] = defaulted(item, found)
    return out


# -- validation ----------------------------------------------------------------------------------


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


_CODED = {"integer": "int64", "number": "float64"}
"""The formats of numbers, as they are decoded."""


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


_FORMATS: dict[str, Callable[[str], object]] = {
    "date-time": _is_time,
    "date": re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])").fullmatch,
    "byte": re.compile(
        r"(?=.)([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
    ).fullmatch,
    "duration": re.compile(r"[-+]?(\d+(\.\d*)?\s*[a-zµ]+\s*)+|0").fullmatch,
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "hostname": re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*").fullmatch,
    "ipv4": lambda text: _is_address(text, 4),
    "ipv6": lambda text: _is_address(text, 6),
    "cidr": _is_network,
    "mac": re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}").fullmatch,
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.*").fullmatch,
    "uuid": re.compile(r"[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}").fullmatch,
}


KNOWN_FORMATS = frozenset((
    "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3",
    "uuid4", "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor",
    "byte", "password", "date", "duration", "datetime", "date-time", "int32", "int64", "float",
    "double", "k8s-short-name", "k8s-long-name",
))  # fmt: skip
"""Formats that validation of custom resources knows."""


def _pattern(text: str) -> go_regexp.Pattern | None:
    try:
        return go_regexp.compiled(text)
    except go_regexp.PatternError:
        return None


class _Unset:
    """There is no old value to compare with."""


UNSET = _Unset()


_PLAIN = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object"}
"""Values whose type needs no second look."""
_COMBINING = frozenset(("anyOf", "oneOf", "allOf", "not"))


def _plain(schema: Tree) -> type | None:
    """The type whose every value fits a schema that asks for nothing else."""
    return _SCALARS.get(schema.get("type", "")) if len(schema) == 1 else None


_SCALARS = {"string": str, "boolean": bool, "integer": int}


def validate(
    value: Any,
    schema: Tree,
    path: str,
    old: Any = UNSET,
    *,
    update: bool = False,
    inside: str = "",
) -> list[FieldError]:
    """What is wrong with a value. On an update, parts equal to the old value are not looked at.

    Messages leave out the prefix `inside` of paths, as a status that is written has a schema of its own.
    """
    errors: list[FieldError] = []
    spend(3 + (len(path) >> 9))
    if update and old is not UNSET and value == old and type(value) is type(old):
        return errors
    shown = path.removeprefix(inside)
    if _PLAIN.get(type(value), "") != schema.get("type") or "format" in schema:
        _check_type(value, schema, path, shown, errors)
    if value is None:
        return errors
    if not _COMBINING.isdisjoint(schema):
        _check_combined(value, schema, path, errors)
    if isinstance(value, str):
        if len(schema) > 1:
            _check_string(value, schema, path, shown, errors)
            _check_format(value, schema, path, shown, errors)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, schema, path, shown, errors)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            former = Former(schema, old)
            plain = _plain(items)
            spend(len(value) >> 1)
            for index, item in enumerate(value):
                if type(item) is plain:
                    continue
                was = former.of(item, index)
                errors += validate(
                    item, items, f"{path}[{index}]", was, update=update, inside=inside
                )
        _check_list(value, schema, path, shown, errors)
    enum = schema.get("enum")
    if enum is not None:
        spend(len(enum) >> 5)
    if enum is not None and value not in enum:
        texts = [item if isinstance(item, str) else str(item) for item in enum]
        errors.append(not_supported(path, value, texts, sort=False))
    if isinstance(value, dict):
        errors += _check_object(value, schema, path, old, update=update, inside=inside)
    return errors


class Former:
    """The former elements of a list, by what an element of now is known by.

    `placed`: without keys, an equal element or the one in the same place is the former one.
    """

    __slots__ = ("_keys", "_known", "_old", "_placed")

    def __init__(self, schema: Tree, old: Any, *, placed: bool = True) -> None:
        self._old: list[Any] | None = old if isinstance(old, list) else None
        keys = schema.get("x-kubernetes-list-map-keys")
        self._keys: list[str] = keys or []
        self._placed = placed
        self._known: dict[Hashable, Any] = {}
        if self._old is None:
            return
        if self._keys:
            for item in self._old:
                if isinstance(item, dict):
                    self._known.setdefault(self._key(item), item)
        elif placed:
            self._known = {by_value(item): item for item in self._old}

    def _key(self, item: Tree) -> Hashable:
        return tuple([by_value(item.get(key)) for key in self._keys])

    def of(self, item: Any, index: int) -> Any:
        """The former state of an element, or UNSET."""
        old = self._old
        if old is None:
            return UNSET
        if self._keys:
            return self._known.get(self._key(item), UNSET) if isinstance(item, dict) else UNSET
        if not self._placed:
            return UNSET
        if by_value(item) in self._known:
            return item
        return old[index] if index < len(old) else UNSET


def _check_type(value: Any, schema: Tree, path: str, shown: str, errors: list[FieldError]) -> None:
    kind = _type_of(value)
    allowed = ("integer", "string") if schema.get(INT_OR_STRING) else (
        (schema["type"],) if schema.get("type") else ()
    )  # fmt: skip
    if value is None and schema.get("nullable"):
        return
    wide = {kind}
    if kind == "integer":
        wide.add("number")
    if isinstance(value, float) and value.is_integer():
        wide.add("integer")
    form = schema.get("format")
    coded = _CODED.get(kind, "")
    if (
        form in KNOWN_FORMATS
        and not isinstance(value, (str, list))
        and not wide.intersection(allowed)
    ):
        if coded != form:
            text = f'{shown} in body must be of type {form}: "{coded}"'
            errors.append(type_invalid(path or NOWHERE, coded, text))
            return
    if allowed and not wide.intersection(allowed):
        text = f'{shown} in body must be of type {",".join(allowed)}: "{kind}"'
        errors.append(type_invalid(path or NOWHERE, kind, text))


def _check_format(
    value: str, schema: Tree, path: str, shown: str, errors: list[FieldError]
) -> None:
    kinds = ("string",) if not schema.get("type") else (schema["type"],)
    form = schema.get("format")
    fits = schema.get(INT_OR_STRING) or "string" in kinds
    if fits and form in _FORMATS and not _FORMATS[form](value):
        text = f'{shown} in body must be of type {form}: "{value}"'
        errors.append(type_invalid(path, value, text))


def _check_combined(value: Any, schema: Tree, path: str, errors: list[FieldError]) -> None:
    quoted = f'"{path}"'
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        if not options:
            continue
        results = [validate(value, option, path) for option in options]
        good = sum(1 for result in results if not result)
        if key == "allOf":
            if good != len(options):
                none = ". None validated" if not good else ""
                text = f"{quoted} must validate all the schemas (allOf){none}"
                errors.append(invalid(NOWHERE, "", text))
                for result in results:
                    errors.extend(result)
        elif key == "anyOf" and not good:
            errors.append(
                invalid(NOWHERE, "", f"{quoted} must validate at least one schema (anyOf)")
            )
            errors.extend(results[0])
        elif key == "oneOf" and good != 1:
            found = f"Found {good} valid alternatives" if good else "Found none valid"
            text = f"{quoted} must validate one and only one schema (oneOf). {found}"
            errors.append(invalid(NOWHERE, "", text))
            if not good:
                errors.extend(results[0])
    refused = schema.get("not")
    if refused is not None and not validate(value, refused, path):
        errors.append(invalid(NOWHERE, "", f"{quoted} must not validate the schema (not)"))


def _check_string(
    value: str, schema: Tree, path: str, shown: str, errors: list[FieldError]
) -> None:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        errors.append(too_long(path, most))
    elif least is not None and len(value) < least:
        errors.append(
            invalid(path, value, f"{shown} in body should be at least {least} chars long")
        )
    elif pattern:
        compiled = _pattern(pattern)
        if compiled is not None and not compiled.found(value):
            errors.append(invalid(path, value, f"{shown} in body should match '{pattern}'"))


def _check_number(
    value: float, schema: Tree, path: str, shown: str, errors: list[FieldError]
) -> None:
    factor, least, most = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    ranged = factor is not None or least is not None or most is not None
    fractional = isinstance(value, float) and not value.is_integer()
    if ranged and fractional and schema.get("type") == "integer":
        text = f"Checked value must be of type integer (default format) in {path}"
        errors.append(invalid(NOWHERE, "", text))
        return
    if factor is not None:
        if isinstance(value, int):
            factor = math.trunc(factor)
        if factor <= 0:
            text = f"factor MultipleOf declared for {shown} must be positive: {factor}"
            errors.append(invalid(path, factor, text))
        elif not float(value / factor).is_integer():
            errors.append(invalid(path, value, f"{shown} in body should be a multiple of {factor}"))
    if most is not None:
        exclusive = schema.get("exclusiveMaximum")
        if value > most or (exclusive and value == most):
            rule = "less than" if exclusive else "less than or equal to"
            errors.append(invalid(path, value, f"{shown} in body should be {rule} {most}"))
    if least is not None:
        exclusive = schema.get("exclusiveMinimum")
        if value < least or (exclusive and value == least):
            rule = "greater than" if exclusive else "greater than or equal to"
            errors.append(invalid(path, value, f"{shown} in body should be {rule} {least}"))


def _check_list(
    value: list[Any], schema: Tree, path: str, shown: str, errors: list[FieldError]
) -> None:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if least is not None and len(value) < least:
        errors.append(
            invalid(path, len(value), f"{shown} in body should have at least {least} items")
        )
    if most is not None and len(value) > most:
        errors.append(too_many(path, len(value), most))
    seen = Seen()
    if schema.get("uniqueItems") and any(seen.again(item) for item in value):
        errors.append(invalid(path, Raw(""), f"{shown} in body shouldn't contain duplicates"))


def _check_object(
    value: Tree, schema: Tree, path: str, old: Any, *, update: bool, inside: str
) -> list[FieldError]:
    count = len(value)
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and count < least:
        return [invalid(path, count, f"{path} in body should have at least {least} properties")]
    errors: list[FieldError] = []
    if most is not None and count > most:
        errors.append(too_many(path, count, most))
    before = old if isinstance(old, dict) else {}
    for name in sorted(value):
        inner = _property(schema, name)
        if inner is not None and type(value[name]) is not _plain(inner):
            was = before.get(name, UNSET)
            errors += validate(
                value[name], inner, child(path, name), was, update=update, inside=inside
            )
    errors += [required(child(path, name)) for name in schema.get("required", ())
               if name not in value]  # fmt: skip
    return errors


def check_lists(value: Any, schema: Tree, path: str) -> list[FieldError]:
    """Lists of type set and map hold no element twice."""
    errors: list[FieldError] = []
    if isinstance(value, dict):
        spend(1 + len(value) * (1 + (len(path) >> 9)))
        for name in sorted(name for name, item in value.items() if isinstance(item, _PARTED)):
            inner = _property(schema, name)
            if inner is not None:
                errors += check_lists(value[name], inner, child(path, name))
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        keys = schema.get("x-kubernetes-list-map-keys", ())
        seen = Seen()
        spend(2 * len(value))
        for index, item in enumerate(value):
            identity = item
            if kind == "map" and isinstance(item, dict):
                identity = {key: item[key] for key in keys if key in item}
            if kind in ("map", "set"):
                if seen.again(identity):
                    errors.append(duplicate(f"{path}[{index}]", identity))
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                if isinstance(item, _PARTED):
                    errors += check_lists(item, items, f"{path}[{index}]")
    return errors
