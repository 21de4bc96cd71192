"""A template that can be evaluated. Upstream: client-go util/jsonpath/jsonpath.go.

Two things differ from upstream, on purpose. Values of a map come in the order of its keys, where upstream
takes Go's random order. And a template keeps nothing between two evaluations; upstream's drops what stands
before its last `range`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from controlplane.api.go_values import go_json, go_type, go_value
from controlplane.api.jsonpath.comparing import holds
from controlplane.api.jsonpath.nodes import (
    NOTHING,
    Array,
    Byte,
    Field,
    Filter,
    Group,
    Identifier,
    JSONPathError,
    Literal,
    Node,
    Recursive,
    Text,
    TooMuchWork,
    Union,
    Whole,
    Wildcard,
)
from controlplane.api.jsonpath.parsing import parse_template
from controlplane.api.jsonpath.printing import printed

__all__ = ["JSONPath", "parse"]

_MOST_VALUES: Final = 100_000
"""Values that one evaluation looks at; nested ranges and descents multiply. 0.1 s at the most."""
_MOST_RANGES: Final = 100
"""Ranges inside each other, each of which is a call."""


def parse(text: str, *, allow_missing_keys: bool = False) -> JSONPath:
    """A template such as `{.spec.size}` or `{range .items[*]}{.metadata.name},{end}`.

    Args:
        text: The template.
        allow_missing_keys: Whether a field that is not found is an empty result instead of an error.

    Raises:
        JSONPathError: the template cannot be read; the text is upstream's.
    """
    return JSONPath(tuple(parse_template(text).nodes), allow_missing_keys)


@frozen
class JSONPath:
    """A parsed template."""

    nodes: tuple[Node, ...]
    allow_missing_keys: bool

    def find_results(
        self, data: Any, spend: Callable[[int], None] | None = None
    ) -> list[list[Any]]:
        """The values that each part of the template finds, in the template's order.

        Args:
            data: A JSON tree.
            spend: Called with the number of values that were looked at.

        Raises:
            JSONPathError: a part cannot be evaluated against this tree.
            TooMuchWork: the evaluation was given up.
        """
        search = _Search(self.nodes, self.allow_missing_keys)
        try:
            return search.find(data, 0)
        finally:
            if spend is not None:
                spend(_MOST_VALUES - search.left)

    def execute(self, data: Any, *, as_json: bool = False) -> str:
        """Return the output of the template for a tree; `as_json`: each part's results as an indented JSON list.

        Raises:
            JSONPathError: as `find_results`.
        """
        found = self.find_results(data)
        if not as_json:
            return "".join(map(printed, found))
        if any(value is NOTHING for results in found for value in results):
            raise JSONPathError(_ZERO.format("Interface"))
        return "".join(go_json(results, indent=4) + "\n" for results in found)


_ZERO: Final = "reflect: call of reflect.Value.{} on zero Value"
"""The panic of upstream for a range without items whose body has no value to start from."""


class _Search:
    """One evaluation: how many ranges were begun, are entered, have ended, and where."""

    def __init__(self, nodes: tuple[Node, ...], allow_missing_keys: bool) -> None:
        self.nodes = nodes
        self.allow_missing_keys = allow_missing_keys
        self.begun = self.inside = self.ended = 0
        self.last_end = -1
        self.left = _MOST_VALUES

    def spend(self, values: int) -> None:
        """Count values that are looked at. TooMuchWork."""
        self.left -= values
        if self.left < 0:
            raise TooMuchWork(f"more than {_MOST_VALUES} values are looked at")

    def find(self, data: Any, first: int) -> list[list[Any]]:
        """The results of the nodes from `first` on, up to the end of the range that they stand in."""
        current = [NOTHING if data is None else data]
        found: list[list[Any]] = []
        at = first
        while at < len(self.nodes):
            self.spend(1)
            results = self.walk(current, self.nodes[at])
            if 0 < self.ended <= self.inside:
                self.ended -= 1
                self.last_end = at
                break
            if self.begun > 0:
                self.begun -= 1
                found += self.repeated(results, at + 1)
                at = max(at, self.last_end)
            else:
                found.append(results)
            at += 1
        return found

    def repeated(self, items: list[Any], first: int) -> list[list[Any]]:
        """The results of a range's body for each item; without items it is passed through once."""
        self.inside += 1
        if self.inside > _MOST_RANGES:
            raise TooMuchWork(f"more than {_MOST_RANGES} ranges stand inside each other")
        found: list[list[Any]] = []
        for item in items:
            if item is NOTHING:
                raise JSONPathError(_ZERO.format("Interface"))
            found += self.find(item, first)
        if not items:
            self.find(None, first)
        self.inside -= 1
        return found

    def walk(self, values: list[Any], node: Node) -> list[Any]:
        """Return the results of a node for these values. Raises JSONPathError with upstream's partial results."""
        self.spend(len(values) or 1)
        match node:
            case Field():
                return self.field(values, node)
            case Group():
                return self.group(values, node)
            case Text():
                return [node.text]
            case Literal():
                return [node.value] * len(values)
            case Array():
                return self.array(values, node)
            case Filter():
                return self.filter(values, node)
            case Wildcard():
                return [each for value in values for each in self.children(value)]
            case Recursive():
                return self.descendants(values)
            case Union():
                return self.union(values, node)
            case Identifier():
                return self.identifier(values, node)

    def group(self, values: list[Any], group: Group) -> list[Any]:
        """Each node on the results of the one before."""
        for node in group.nodes:
            values = self.walk(values, node)
        return values

    def identifier(self, values: list[Any], node: Identifier) -> list[Any]:
        """`range` begins a loop over the values that follow, `end` ends it."""
        if node.name == "range":
            self.begun += 1
            return values
        if node.name == "end":
            if self.inside == 0:
                raise JSONPathError("not in range, nothing to end")
            self.ended += 1
            return []
        raise JSONPathError(f"unrecognized identifier {node.name}", tuple(values))

    def field(self, values: list[Any], node: Field) -> list[Any]:
        """The value of a key in each map that has it."""
        name = node.name
        results = [value[name] for value in values if isinstance(value, dict) and name in value]
        if not results and values and not self.allow_missing_keys:
            raise JSONPathError(f"{name} is not found")
        return results

    def array(self, values: list[Any], node: Array) -> list[Any]:
        """A slice of each list; an empty slice ends the search, as upstream's does."""
        results: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                if value is NOTHING:
                    raise JSONPathError(_ZERO.format("Type"), tuple(values))
                raise JSONPathError(f"{_go_type(value)} is not array or slice", tuple(values))
            length = len(value)
            start = 0 if node.start is None else node.start
            start += length if start < 0 else 0
            end = length if node.end is None else node.end
            end += length if end < 0 or (end == 0 and node.single) else 0
            if start == end:
                return results
            problem = _outside(start, end, length)
            step = 1 if node.step is None else node.step
            if not problem and step <= 0:
                problem = "step must be > 0"
            if problem:
                raise JSONPathError(problem, tuple(values))
            results += value[start:end:step]
        return results

    def union(self, values: list[Any], node: Union) -> list[Any]:
        """The results of all groups."""
        results: list[Any] = []
        for group in node.groups:
            try:
                results += self.group(values, group)
            except TooMuchWork:
                raise
            except JSONPathError as error:
                raise JSONPathError(str(error), tuple(values)) from None
        return results

    def children(self, value: Any) -> list[Any]:
        """The values in a map, in the order of its keys, the items of a list, or the bytes of a string."""
        found: list[Any] = []
        if isinstance(value, dict):
            found = [value[key] for key in sorted(value)]
        elif isinstance(value, list):
            found = value
        elif isinstance(value, str):
            found = [Byte(each) for each in value.encode("utf-8", "surrogatepass")]
        self.spend(len(found))
        return found

    def descendants(self, values: list[Any]) -> list[Any]:
        """All that is not empty at any depth: maps, lists and strings, each before what it contains."""
        results: list[Any] = []
        waiting = values[::-1]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                if value:
                    results.append(value)
                continue
            inner = self.children(value)
            if inner:
                results.append(value)
                waiting += inner[::-1]
        return results

    def filter(self, values: list[Any], node: Filter) -> list[Any]:
        """The items of each list that a filter lets through."""
        results: list[Any] = []
        for value in values:
            if not isinstance(value, list):
                shown = "<invalid reflect.Value>" if value is NOTHING else go_value(value)
                text = f"{shown} is not array or slice and cannot be filtered"
                raise JSONPathError(text, tuple(values))
            self.spend(len(value))
            for item in value:
                try:
                    if self.passes(item, node):
                        results.append(item)
                except TooMuchWork:
                    raise
                except _Uncomparable as error:
                    raise JSONPathError(str(error), tuple(results)) from None
                except JSONPathError as error:
                    raise JSONPathError(str(error), tuple(values)) from None
        return results

    def passes(self, item: Any, node: Filter) -> bool:
        """Return whether a filter lets one item through."""
        if node.operator == "exists":
            try:
                return bool(self.group([item], node.left))
            except TooMuchWork:
                raise
            except JSONPathError as error:
                return bool(error.values)
        sides = []
        for side in (node.left, node.right):
            found = self.group([item], side)
            if not found:
                return False
            if len(found) > 1:
                raise JSONPathError("can only compare one element at a time")
            sides.append(found[0])
        try:
            return holds(node.operator, sides[0], sides[1])
        except JSONPathError as error:
            raise _Uncomparable(str(error)) from None


class _Uncomparable(JSONPathError):
    """Two values that an operator does not compare."""


def _outside(start: int, end: int, length: int) -> str:
    """Return the reason why a slice does not lie inside of a list; "" if it does."""
    if not 0 <= start < length:
        return f"array index out of bounds: index {start}, length {length}"
    if not 0 <= end <= length:
        return f"array index out of bounds: index {end - 1}, length {length}"
    return f"starting index {start} is greater than ending index {end}" if start > end else ""


def _go_type(value: Any) -> str:
    if isinstance(value, Byte):
        return "uint8"
    return "int" if isinstance(value, Whole) else go_type(value)
