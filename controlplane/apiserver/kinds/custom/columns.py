"""Printer columns of a custom resource: their headers, and the cells of an object's row.

Upstream: apiextensions-apiserver pkg/registry/customresource/tableconvertor/tableconvertor.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from attrs import frozen

from controlplane.api.jsonpath import JSONPath, JSONPathError, parse, printed
from controlplane.api.jsonpath.nodes import NOTHING
from controlplane.api.times import SECOND, Time, parse_go_time, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import human_duration
from controlplane.apiserver.schema.work import spend

__all__ = ["Columns", "reading_cost"]

_NAME_TEXT: Final = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    "updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_AGE_TEXT: Final = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is not guaranteed to be set in happens-before order across separate operations. Clients "
    "may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the "
    "system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_DEFAULT: Final[tuple[Tree, ...]] = (
    {
        "name": "Age",
        "type": "date",
        "description": _AGE_TEXT,
        "jsonPath": ".metadata.creationTimestamp",
    },
)
_INT64: Final = 1 << 63


def reading_cost(path: str) -> int:
    """Steps of `work` that reading a column's path takes: half a microsecond to one each."""
    return 2 * len(path) + 8 * path.count(",")


@frozen(eq=False)
class Columns:
    """The name of an object and the columns that a version of its definition adds."""

    headers: tuple[Tree, ...]
    paths: tuple[tuple[str, JSONPath], ...]
    """Type and path of each added column."""

    @classmethod
    def of(cls, definitions: Iterable[Tree]) -> Columns:
        """The columns of `additionalPrinterColumns`; without any, the age.

        Columns from the first one on whose path cannot be read are left out, as upstream leaves them out.
        """
        headers = [_header("Name", "string", "name", _NAME_TEXT, 0)]
        paths = []
        for column in definitions or _DEFAULT:
            target = column["jsonPath"]
            try:
                path = parse("{" + target + "}", allow_missing_keys=True)
            except JSONPathError:
                break
            paths.append((column["type"], path))
            text = column.get("description") or (
                f"Custom resource definition column (in JSONPath format): {target}"
            )
            headers.append(
                _header(
                    column["name"],
                    column["type"],
                    column.get("format", ""),
                    text,
                    column.get("priority", 0),
                )
            )
        return cls(tuple(headers), tuple(paths))

    def cells(self, tree: Tree, now: int) -> list[Any]:
        """The cells of one object's row. ApiError 504 when the request has computed too much.

        Args:
            tree: The object.
            now: Nanoseconds since the Unix epoch, for ages.
        """
        found: list[Any] = [tree["metadata"].get("name", "")]  # a bookmark has none
        for kind, path in self.paths:
            found.append(_cell(kind, path, tree, now))
        return found


def _header(name: str, kind: str, form: str, text: str, priority: int) -> Tree:
    return {"name": name, "type": kind, "format": form, "description": text, "priority": priority}


def _cell(kind: str, path: JSONPath, tree: Tree, now: int) -> Any:
    """The first value that a path finds, as its column's type shows it; None for none or another type."""
    try:
        found = path.find_results(tree, spend)
    except JSONPathError:
        return None
    if not found or not found[0]:
        return None
    value = found[0][0]
    if kind == "string":
        return printed([NOTHING if value is None else value])
    if kind == "date":
        return _date(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if type(value) not in (int, float) and not isinstance(value, float):
        return None
    if kind == "integer":
        return _as_int64(value)
    return _as_number(value) if kind == "number" else None


def _as_int64(value: int | float) -> int:
    """A number cut to 64 bits; what they do not hold is the lowest one, as amd64 converts it."""
    whole = int(value) if abs(value) < 2 * _INT64 else -_INT64
    return whole if -_INT64 <= whole < _INT64 else -_INT64


def _as_number(value: int | float) -> int | float:
    """A float64, as JSON writes it: without a fraction below 10^21."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _date(text: str, now: int) -> str:
    """The time since a date, in two units at most."""
    if text in ("", "null"):
        return "<unknown>"
    try:
        when = parse_go_time(text)
    except ValueError:
        return "<invalid>"
    if when == _ZERO_TIME:
        return "<unknown>"
    passed = min(max(now - when, -_INT64), _INT64 - 1)
    return human_duration(passed // SECOND)


_ZERO_TIME: Final[Time] = parse_time("0001-01-01T00:00:00Z")
"""Go's zero time, which stands for no time."""
