"""Field errors: paths, kinds of error, and how they are printed.

Follows apimachinery's util/validation/field: the texts appear in 422 answers word for word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from controlplane.api.go_numbers import shown_float
from controlplane.api.go_values import go_json
from controlplane.api.validation import quote
from controlplane.apiserver.schema.json_values import json_text
from controlplane.apiserver.schema.work import spend

__all__ = [
    "FieldError",
    "Path",
    "aggregate",
    "as_json",
    "duplicate",
    "forbidden",
    "internal",
    "invalid",
    "joined",
    "not_found",
    "not_supported",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
]

_TEXTS = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotFound": "Not found",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = ("FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "InternalError")

Path = str

_ERROR = 2
"""Steps to make an error, and again to report it; its text counts both times as well."""


def _made(reason: str, path: Path, value: Any, detail: str = "") -> FieldError:
    """A new error. Counted here, so that a body with too many mistakes is not looked through to its end."""
    spend(_ERROR + (len(detail) >> 6))
    return FieldError(reason, path, value, detail)


def _shown(value: Any) -> str:
    """A bad value as Go prints it: strings quoted, scalars plain, the rest as JSON."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return shown_float(value)
    if value is None:
        return "null"
    return json_text(value)


@frozen
class Raw:
    """A bad value that prints as it stands, without quotes."""

    text: str


def as_json(value: Any) -> Any:
    """Return a value for a field error, which prints maps and lists of custom resources with sorted keys."""
    return Raw(go_json(value)) if isinstance(value, dict | list) else value


@frozen(eq=False)
class FieldError:
    """One violation. `reason` is the cause type of the answer."""

    reason: str
    field: str
    value: Any
    detail: str = ""

    @property
    def body(self) -> str:
        """The text without the field: what `causes[].message` says."""
        text = _TEXTS[self.reason]
        if self.reason == "FieldValueTooMany" or (
            isinstance(self.value, Raw) and not self.value.text
        ):
            pass
        elif self.reason not in _WITHOUT_VALUE:
            shown = self.value.text if isinstance(self.value, Raw) else _shown(self.value)
            text = f"{text}: {shown}"
        text = f"{text}: {self.detail}" if self.detail else text
        spend(_ERROR + (len(text) >> 5))
        return text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def required(path: Path, detail: str = "") -> FieldError:
    """A value is missing."""
    return _made("FieldValueRequired", path, "", detail)


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    """A value is malformed."""
    return _made("FieldValueInvalid", path, value, detail)


def type_invalid(path: Path, value: Any, detail: str) -> FieldError:
    """A value is of the wrong type."""
    return _made("FieldValueTypeInvalid", path, value, detail)


def not_supported(
    path: Path, value: Any, supported: Iterable[str], *, sort: bool = True, typed: bool = True
) -> FieldError:
    """Return the error of an unsupported value; the supported ones are listed (sorted by default).

    `typed`: the value is of a type of its own upstream, as enumerations are, and is shown as JSON.
    """
    values = sorted(supported) if sort else list(supported)
    detail = ""
    if values:
        detail = "supported values: " + ", ".join(quote(text) for text in values)
    if typed and isinstance(value, str):
        value = Raw(json_text(value))
    return _made("FieldValueNotSupported", path, value, detail)


def duplicate(path: Path, value: Any) -> FieldError:
    """A value stands twice in a list that must not repeat it."""
    return _made("FieldValueDuplicate", path, value)


def not_found(path: Path, value: Any) -> FieldError:
    """A value names something that does not exist."""
    return _made("FieldValueNotFound", path, value)


def forbidden(path: Path, detail: str) -> FieldError:
    """A value may not be set here."""
    return _made("FieldValueForbidden", path, "", detail)


def too_long(path: Path, limit: int) -> FieldError:
    """A text has more than `limit` bytes."""
    unit = "byte" if limit == 1 else "bytes"
    return _made("FieldValueTooLong", path, "", f"may not be more than {limit} {unit}")


def too_many(path: Path, actual: int, limit: int) -> FieldError:
    """A list has more than `limit` items."""
    unit = "item" if limit == 1 else "items"
    shown = f"{actual}: " if actual >= 0 else ""
    return _made("FieldValueTooMany", path, actual, f"{shown}must have at most {limit} {unit}")


def internal(path: Path, detail: str) -> FieldError:
    """Something went wrong while checking."""
    return _made("InternalError", path, "", detail)


def aggregate(errors: Iterable[object]) -> str:
    """Several errors in one text, duplicates removed: `e`, or `[e1, e2]`."""
    return joined(str(error) for error in errors)


def joined(errors: Iterable[str]) -> str:
    """The same of errors that are texts."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
