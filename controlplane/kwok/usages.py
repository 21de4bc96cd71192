"""The use of resources by pods on fake nodes: ResourceUsage of one pod, ClusterResourceUsage of those it selects.

A pod's own ResourceUsage comes first; among the others the first whose selector matches and that tells of the
container. A container that is named wins over an entry for all. An amount that nothing tells of is zero.
Upstream: pkg/kwok/server/metrics_resource_usage.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from controlplane.api import usage
from controlplane.api.object import Object
from controlplane.api.quantity import Quantity, QuantityError
from controlplane.api.tree import Tree, is_fake_node
from controlplane.kwok.cel import environment, results
from controlplane.kwok.cel.library import Context
from controlplane.kwok.cel.results import ExpressionError
from controlplane.kwok.fields import Fields, fields_of, name_of

__all__ = [
    "Amount",
    "Entry",
    "ResourceUsage",
    "ResourceUsages",
    "Selector",
    "read",
    "read_expression",
]

NO_DRAW: Final = 0.0
"""The value of `Rand()`: a reading is no step of the run, so it makes no choice."""


@frozen
class Amount:
    """A fixed amount, or an expression of CEL over `node`, `pod` and `container`."""

    value: Quantity | None = None
    expression: str | None = None


@frozen
class Entry:
    """The amounts of some containers, of all others where `containers` is empty."""

    containers: tuple[str, ...]
    amounts: Mapping[str, Amount]


@frozen
class Selector:
    """The pods of some namespaces, with some names; empty ones select all."""

    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def selects(self, namespace: str, name: str) -> bool:
        """Return whether a pod is selected."""
        return (not self.namespaces or namespace in self.namespaces) and (
            not self.names or name in self.names
        )


@frozen
class ResourceUsage:
    """The use of resources of one pod (`own`), or of those that the selector selects."""

    selector: Selector
    entries: tuple[Entry, ...]
    own: bool = False

    def entry(self, container: str) -> Entry | None:
        """Return the entry for a container; None where there is none."""
        of_all: Entry | None = None
        for each in self.entries:
            if not each.containers and of_all is None:
                of_all = each
            elif container in each.containers:
                return each
        return of_all


@frozen
class ResourceUsages:
    """The use of resources, as all objects of the files tell."""

    of_files: tuple[ResourceUsage, ...]

    def at(self, node_of: Callable[[str], Object[Any] | None], now: int) -> usage.Reading:
        """Return the reading of pods at a time (ns): by these objects on fake nodes, by annotations on others."""

        def read(pod: Tree, container: str, resource: str) -> int | None:
            node = node_of((pod.get("spec") or {}).get("nodeName") or "")
            if node is None or not is_fake_node(node.tree):
                return usage.of_container(pod, container, resource)
            return round(self.amount(pod, node.tree, container, resource, now) * 1000)

        return read

    def amount(self, pod: Tree, node: Tree, container: str, resource: str, now: int) -> float:
        """Return the use of a resource by a container of a pod; 0 where it is unknown or its expression fails."""
        inside = next(
            (each for each in pod["spec"]["containers"] if each["name"] == container), None
        )
        entry = self._entry(pod["metadata"], container)
        found = None if entry is None else entry.amounts.get(resource)
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

    def _entry(self, meta: Mapping[str, Any], container: str) -> Entry | None:
        namespace, name = meta.get("namespace", ""), meta["name"]
        selecting = [each for each in self.of_files if each.selector.selects(namespace, name)]
        for each in selecting:
            if each.own:
                return each.entry(container)
        entries = (each.entry(container) for each in selecting)
        return next((each for each in entries if each is not None), None)


def read(tree: Tree, place: str = "") -> ResourceUsage:
    """Return a ResourceUsage or ClusterResourceUsage of a tree. Raises UsageError with the field."""
    fields = fields_of(tree, place)
    spec = fields.map(tree.get("spec"), "spec")
    own = tree.get("kind") == "ResourceUsage"
    fields.known(spec, ("usages",) if own else ("selector", "usages"), "spec")
    if own:
        namespace = (tree.get("metadata") or {}).get("namespace") or "default"
        selector = Selector((namespace,), (name_of(tree),))
    else:
        selector = _selector(fields, spec.get("selector"))
    given = fields.list(spec.get("usages"), "spec.usages")
    entries = (_entry(fields, each, f"spec.usages[{at}]") for at, each in enumerate(given))
    return ResourceUsage(selector, tuple(entries), own)


def _selector(fields: Fields, value: Any) -> Selector:
    tree = fields.map(value, "spec.selector")
    fields.known(tree, ("matchNamespaces", "matchNames"), "spec.selector")
    return Selector(
        *(
            tuple(map(str, fields.list(tree.get(name), f"spec.selector.{name}")))
            for name in ("matchNamespaces", "matchNames")
        )
    )


def _entry(fields: Fields, value: Any, field: str) -> Entry:
    tree = fields.map(value, field)
    fields.known(tree, ("containers", "usage"), field)
    amounts = fields.map(tree.get("usage"), f"{field}.usage")
    return Entry(
        tuple(map(str, fields.list(tree.get("containers"), f"{field}.containers"))),
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
