"""Field selectors: `metadata.name=a,spec.nodeName!=b`, as apimachinery's `fields` package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from controlplane.api.equality import remembered
from controlplane.api.labels import SelectorError


class FieldRequirement(NamedTuple):
    """A field and the value it must, or (operator "!=") must not, have."""

    operator: str
    field: str
    value: str


class FieldSelector:
    """Requirements that must all hold; an absent field has the value ""."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: tuple[FieldRequirement, ...] = ()) -> None:
        self.requirements = requirements

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether the fields of an object meet every requirement."""
        for operator, field, value in self.requirements:
            if (fields.get(field, "") == value) is (operator == "!="):
                return False
        return True

    def empty(self) -> bool:
        """Return whether the selector restricts nothing."""
        return not self.requirements

    def exact(self, field: str) -> str | None:
        """The value that a field must have, None when any other value could match too."""
        for operator, name, value in self.requirements:
            if name == field and operator == "=":
                return value
        return None

    def __iter__(self) -> Iterator[FieldRequirement]:
        return iter(self.requirements)

    def __str__(self) -> str:
        return ",".join(f"{name}{op}{escape(value)}" for op, name, value in self.requirements)

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)


EVERYTHING: Final = FieldSelector()


def escape(value: str) -> str:
    r"""A value with backslash, comma and equals sign escaped by a backslash."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def unescape(value: str) -> str:
    """The value without escapes; SelectorError for unknown ones and for bare separators."""
    plain = []
    chars = iter(value)
    for char in chars:
        if char == "\\":
            char = next(chars, "")
            if not char or char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
        elif char in ",=":
            raise SelectorError(
                f"invalid field selector: unescaped character in value: {ord(char)}"
            )
        plain.append(char)
    return "".join(plain)


def _terms(text: str) -> list[str]:
    return _TERM.findall(text) if text else [""]


def _split(term: str) -> tuple[str, str, str] | None:
    found = _OPERATOR.search(term)
    return None if found is None else (term[: found.start()], found[0], term[found.end() :])


_TERM: Final = re.compile(r"(?:^|(?<=,))(?:[^\\,]|\\.?)*+(?=,|\Z)", re.DOTALL)
"""The text between commas that are not preceded by a backslash."""
_OPERATOR: Final = re.compile("!=|==?")


@remembered(4096)
def parse(text: str) -> FieldSelector:
    """The selector of a `fieldSelector` parameter; SelectorError with upstream's message."""
    found = []
    for term in sorted(_terms(text)):
        if not term:
            continue
        parts = _split(term)
        if parts is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = parts
        found.append(FieldRequirement("!=" if operator == "!=" else "=", field, unescape(value)))
    return FieldSelector(tuple(found))
