"""Parts of a parsed template, and the errors of reading and evaluating one.

Upstream: client-go util/jsonpath/node.go.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import field, frozen

__all__ = [
    "NOTHING",
    "Array",
    "Byte",
    "Field",
    "Filter",
    "Group",
    "Identifier",
    "JSONPathError",
    "Literal",
    "Node",
    "Recursive",
    "Text",
    "TooMuchWork",
    "Union",
    "Whole",
    "Wildcard",
]


class JSONPathError(ValueError):
    """A template that cannot be read, or that cannot be evaluated against an object.

    `values` are the values that upstream returns beside the error: an existence filter counts them.
    """

    def __init__(self, text: str, values: tuple[Any, ...] = ()) -> None:
        super().__init__(text)
        self.values = values


class TooMuchWork(JSONPathError):
    """The evaluation would look at more values than one template may."""


class _Nothing:
    """The zero reflect.Value: the object of a range that has no items."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


class Byte(int):
    """One byte of a string, which a wildcard selects. Go's uint8: it compares with integers only."""


class Whole(int):
    """An integer of a template. Go's int, where those of objects are int64."""


@frozen
class Text:
    """Text outside of braces, or quoted text inside of them."""

    text: str


@frozen
class Literal:
    """An integer, a float or a boolean, which replaces each value."""

    value: int | float | bool


@frozen
class Field:
    """The value of a map's key."""

    name: str


@frozen
class Wildcard:
    """All values of a map, a list or a string."""


@frozen
class Recursive:
    """All containers at any depth, the given values among them."""


@frozen
class Identifier:
    """A keyword: `range`, `end`; any other is refused when it is evaluated."""

    name: str


@frozen
class Array:
    """A slice `[start:end:step]` of a list; None where a part is not given.

    `single`: the end was derived from the start, as in `[2]`.
    """

    start: int | None
    end: int | None
    step: int | None
    single: bool


@frozen
class Group:
    """Nodes that are evaluated one after the other: the content of a pair of braces."""

    nodes: list[Node] = field(factory=list)


@frozen
class Union:
    """The results of several groups, one after the other."""

    groups: list[Group]


@frozen
class Filter:
    """Items of a list for which a comparison holds, or, with the operator `exists`, a value is found."""

    left: Group
    right: Group
    operator: str


Node = Text | Literal | Field | Wildcard | Recursive | Identifier | Array | Group | Union | Filter
