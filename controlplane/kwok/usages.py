"""The use of resources by pods on fake nodes: ResourceUsage of one pod, ClusterResourceUsage of those it selects.

An amount that nothing tells of is zero.
Upstream: pkg/kwok/server/metrics_resource_usage.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from attrs import frozen

from controlplane.api import usage
from controlplane.api.object import Object
from controlplane.api.quantity import Quantity, QuantityError
from controlplane.api.tree import Tree, is_fake_node
from controlplane.errors import UsageError
from controlplane.kwok import selection
from controlplane.kwok.cel import environment, results
from controlplane.kwok.cel.library import Context
from controlplane.kwok.cel.results import ExpressionError
from controlplane.kwok.fields import GROUP, VERSION, Fields
from controlplane.kwok.selection import Entry, Rule

__all__ = [
    "KINDS",
    "Amount",
    "ResourceUsage",
    "ResourceUsages",
    "read",
    "read_expression",
]

KINDS: Final = ("ResourceUsage", "ClusterResourceUsage")
NO_DRAW: Final = 0.0
"""The value of `Rand()`: a reading is no step of the run, so it makes no choice."""


@frozen
class Amount:
    """A fixed amount, or an expression of CEL over `node`, `pod` and `container`."""

    value: Quantity | None = None
    expression: str | None = None


ResourceUsage = Rule[Mapping[str, Amount]]
"""The use of resources by containers, as one object tells."""


@frozen
class ResourceUsages:
    """The use of resources, as all objects of the files tell, and those of the API of the kinds in `stored`."""

    rules: tuple[ResourceUsage, ...] = ()
    stored: tuple[str, ...] = ()

    @property
    def kinds(self) -> Mapping[str, tuple[str, str, str]]:
        """The kinds whose objects are those of the API."""
        return {kind: (GROUP, VERSION, f"{kind.lower()}s") for kind in self.stored}

    def with_objects(self, objects: usage.Stored) -> ResourceUsages:
        """Return the same with the objects of the API as they are now, in the order of their names.

        One that is malformed is left out.
        """
        if not self.stored:
            return self
        found = list(self.rules)
        for kind in self.stored:
            for tree in sorted(objects(kind), key=lambda tree: str(tree["metadata"]["name"])):
                with suppress(UsageError):
                    found.append(read(tree))
        return ResourceUsages(tuple(found))

    def at(
        self, node_of: Callable[[str], Object[Any] | None], now: int, stored: usage.Stored
    ) -> usage.Reading:
        """Return the reading of pods at a time (ns): by these objects on fake nodes, by annotations on others."""
        told = self.with_objects(stored)

        def read(pod: Tree, container: str, resource: str) -> int | None:
            node = node_of((pod.get("spec") or {}).get("nodeName") or "")
            if node is None or not is_fake_node(node.tree):
                return usage.of_container(pod, container, resource)
            return round(told.amount(pod, node.tree, container, resource, now) * 1000)

        return read

    def amount(self, pod: Tree, node: Tree, container: str, resource: str, now: int) -> float:
        """Return the use of a resource by a container of a pod; 0 where it is unknown or its expression fails."""
        inside = next(
            (each for each in pod["spec"]["containers"] if each["name"] == container), None
        )
        meta = pod["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        amounts = selection.choose(self.rules, namespace, name, container).value
        found = None if amounts is None else amounts.get(resource)
        if found is None or inside is None:
            return 0.0
        if found.value is not None:
            return found.value.approximate_float()
        context = Context(now, lambda: NO_DRAW)
        try:
            value = environment.evaluate_metric(found.expression or "", context, node, pod, inside)
            return results.as_float(value)
        except ExpressionError:
            return 0.0


def read(tree: Tree, place: str = "") -> ResourceUsage:
    """Return a ResourceUsage or ClusterResourceUsage of a tree. Raises UsageError with the field."""
    return selection.read(tree, place, "usages", _entry)


def _entry(fields: Fields, value: Any, field: str) -> Entry[Mapping[str, Amount]]:
    tree = fields.map(value, field)
    fields.known(tree, ("containers", "usage"), field)
    amounts = fields.map(tree.get("usage"), f"{field}.usage")
    return Entry(
        fields.texts(tree.get("containers"), f"{field}.containers"),
        {name: _amount(fields, each, f"{field}.usage.{name}") for name, each in amounts.items()},
    )


def _amount(fields: Fields, value: Any, field: str) -> Amount:
    tree = fields.map(value, field)
    fields.known(tree, ("value", "expression"), field)
    if (fixed := tree.get("value")) is not None:
        try:
            return Amount(Quantity.parse(str(fixed)))
        except QuantityError:
            fields.fail(f"{field}.value", fixed, "a quantity")
    return Amount(expression=read_expression(fields, tree.get("expression"), f"{field}.expression"))


def read_expression(fields: Fields, value: Any, field: str) -> str:
    """Return the source of an expression of a metric or a usage that compiles. Raises UsageError."""
    source = fields.text(value, field)
    try:
        environment.check_metric(source)
    except ExpressionError as error:
        fields.fail(field, source, f"an expression of CEL ({error})")
    return source
