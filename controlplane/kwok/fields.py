"""Fields of KWOK's files, read strictly: each mistake is told with file, object, field and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.errors import UsageError

__all__ = ["API_VERSION", "GROUP", "VERSION", "Fields", "fields_of", "name_of"]

GROUP: Final = "kwok.x-k8s.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"


@frozen
class Fields:
    """Reads the fields of one object; `where` stands before each error."""

    where: str

    def fail(self, field: str, value: Any, expected: str) -> NoReturn:
        """Raise UsageError for a value of a field."""
        raise UsageError(f"{self.where}{field}: {value!r}: expected {expected}")

    def map(self, value: Any, field: str) -> Mapping[str, Any]:
        """Return a map, empty where there is none."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.fail(field, value, "a map")
        return value

    def list(self, value: Any, field: str) -> Sequence[Any]:
        """Return a list, empty where there is none."""
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            self.fail(field, value, "a list")
        return value

    def known(self, tree: Mapping[str, Any], names: Sequence[str], field: str) -> None:
        """Refuse fields of other names."""
        for name in tree:
            if name not in names:
                raise UsageError(
                    f"{self.where}{field}.{name}: no such field; known: {', '.join(names)}"
                )

    def number(self, value: Any, field: str) -> int | None:
        """Return a whole number; None where there is none."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
            self.fail(field, value, "a whole number")
        return int(value)

    def text(self, value: Any, field: str) -> str:
        """Return a text that is not empty."""
        if not isinstance(value, str) or not value:
            self.fail(field, value, "a text")
        return value

    def texts(self, value: Any, field: str) -> tuple[str, ...]:
        """Return the texts of a list; none may be empty."""
        given = self.list(value, field)
        return tuple(self.text(each, f"{field}[{at}]") for at, each in enumerate(given))

    def within(self, value: Any, field: str, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`."""
        found = self.number(value, field)
        if found is None or not low <= found <= high:
            self.fail(field, value, f"a whole number from {low} to {high}")
        return found


def name_of(tree: Mapping[str, Any]) -> str:
    """Return the name of an object, "" where it has none."""
    return str((tree.get("metadata") or {}).get("name") or "")


def fields_of(tree: Tree, place: str) -> Fields:
    """Return the reader of an object of a file. Raises UsageError for another apiVersion."""
    about = f"{tree.get('kind')} {name_of(tree)}: "
    reader = Fields(f"{place}: {about}" if place else about)
    if tree.get("apiVersion") != API_VERSION:
        reader.fail("apiVersion", tree.get("apiVersion"), API_VERSION)
    return reader
