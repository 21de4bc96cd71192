"""Metrics of fake nodes, written as Metric objects: each value and label is an expression of CEL.

A page has the metrics of one node. A metric whose expression fails is left out, the others stay.
Upstream: pkg/kwok/metrics and pkg/kwok/server/metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final, Literal, get_args

from attrs import frozen

from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.api.usage import Stored
from controlplane.errors import UsageError
from controlplane.kwok.cel import environment, results
from controlplane.kwok.cel.library import Context
from controlplane.kwok.cel.results import ExpressionError
from controlplane.kwok.fields import GROUP, VERSION, Fields, fields_of, name_of
from controlplane.kwok.usages import NO_DRAW, ResourceUsages, read_expression
from controlplane.metrics.exposition import text_of
from controlplane.metrics.family import Buckets, Family, Kind, Sample
from controlplane.metrics.numbers import Labels

__all__ = ["KIND", "Bucket", "Metric", "MetricConfig", "NodePages", "page", "read"]

KIND: Final = "Metric"
ROOT: Final = "/metrics"
NODE: Final = "{nodeName}"
Dimension = Literal["node", "pod", "container"]


@frozen
class Bucket:
    """A bucket of a histogram; a hidden one only counts for the next."""

    le: float
    value: str
    hidden: bool = False


@frozen
class MetricConfig:
    """One metric of a page. `labels` are names with the expressions of their values."""

    name: str
    kind: Kind
    help: str
    dimension: Dimension
    labels: tuple[tuple[str, str], ...]
    value: str
    buckets: tuple[Bucket, ...]


@frozen
class Metric:
    """A page of metrics under a path, in which `{nodeName}` stands for the node."""

    name: str
    path: str
    metrics: tuple[MetricConfig, ...]

    def node_at(self, path: str) -> str | None:
        """Return the node whose metrics are at a path; None where the page is elsewhere."""
        before, marked, after = self.path.partition(NODE)
        if not marked:
            return self.name if path == self.path else None
        if not (path.startswith(before) and path.endswith(after)):
            return None
        name = path[len(before) : len(path) - len(after)]
        return name if name and "/" not in name else None


# -- reading ---------------------------------------------------------------------------------------


def read(tree: Tree, place: str = "") -> Metric:
    """Return the Metric of a tree. Raises UsageError with the field."""
    fields = fields_of(tree, place)
    spec = fields.map(tree.get("spec"), "spec")
    fields.known(spec, ("path", "metrics"), "spec")
    path = fields.text(spec.get("path"), "spec.path")
    if not path.startswith(ROOT):
        fields.fail("spec.path", path, f"a path that begins with {ROOT}")
    given = fields.list(spec.get("metrics"), "spec.metrics")
    return Metric(
        name_of(tree),
        path,
        tuple(_config(fields, each, f"spec.metrics[{at}]") for at, each in enumerate(given)),
    )


_CONFIG: Final = ("name", "help", "kind", "labels", "value", "buckets", "dimension")


def _config(fields: Fields, value: Any, field: str) -> MetricConfig:
    tree = fields.map(value, field)
    fields.known(tree, _CONFIG, field)
    kind: Kind = _one_of(fields, tree.get("kind"), f"{field}.kind", get_args(Kind))
    dimension: Dimension = _one_of(
        fields, tree.get("dimension") or "node", f"{field}.dimension", get_args(Dimension)
    )
    labels = fields.list(tree.get("labels"), f"{field}.labels")
    buckets = fields.list(tree.get("buckets"), f"{field}.buckets")
    return MetricConfig(
        fields.text(tree.get("name"), f"{field}.name"),
        kind,
        str(tree.get("help") or ""),
        dimension,
        tuple(_label(fields, each, f"{field}.labels[{at}]") for at, each in enumerate(labels)),
        "" if kind == "histogram" else read_expression(fields, tree.get("value"), f"{field}.value"),
        tuple(_bucket(fields, each, f"{field}.buckets[{at}]") for at, each in enumerate(buckets)),
    )


def _one_of(fields: Fields, value: Any, field: str, known: Sequence[Any]) -> Any:
    if value not in known:
        fields.fail(field, value, ", ".join(known))
    return value


def _label(fields: Fields, value: Any, field: str) -> tuple[str, str]:
    tree = fields.map(value, field)
    fields.known(tree, ("name", "value"), field)
    return fields.text(tree.get("name"), f"{field}.name"), read_expression(
        fields, tree.get("value"), f"{field}.value"
    )


def _bucket(fields: Fields, value: Any, field: str) -> Bucket:
    tree = fields.map(value, field)
    fields.known(tree, ("le", "value", "hidden"), field)
    le = tree.get("le")
    if isinstance(le, bool) or not isinstance(le, int | float) or le < 0:
        fields.fail(f"{field}.le", le, "a number from 0 on")
    expression = read_expression(fields, tree.get("value"), f"{field}.value")
    return Bucket(float(le), expression, bool(tree.get("hidden")))


# -- pages -----------------------------------------------------------------------------------------


@frozen(eq=False)
class _Node:
    """A node with its pods at a time: the use of resources that expressions ask for."""

    tree: Tree
    pods: Sequence[Tree]
    used_by: ResourceUsages
    now: int

    def used(self, resource: str, place: tuple[str, ...], *, cumulative: bool) -> float:
        """Return the use of a resource; upstream sums it up from scrape to scrape, here it is the use times the age."""
        total = 0.0
        for pod in self.pods:
            meta = pod["metadata"]
            if len(place) > 1 and (meta.get("namespace", ""), meta["name"]) != place[:2]:
                continue
            names = [each["name"] for each in pod["spec"]["containers"]]
            for name in names if len(place) < 3 else set(names) & {place[2]}:
                amount = self.used_by.amount(pod, self.tree, name, resource, self.now)
                total += amount * (_age(pod, self.now) if cumulative else 1.0)
        return total

    def started_containers(self, _node: str) -> int:
        """Return how many containers of the node's pods have been started."""
        return sum(
            bool((status.get("state") or {}).keys() & {"running", "terminated"})
            for pod in self.pods
            for status in (pod.get("status") or {}).get("containerStatuses") or ()
        )

    def subjects(self, dimension: Dimension) -> Iterator[tuple[Tree | None, Tree | None]]:
        """Iterate over the pods and containers that a metric of a dimension has values for."""
        if dimension == "node":
            yield None, None
            return
        for pod in self.pods:
            if dimension == "pod":
                yield pod, None
                continue
            for container in pod["spec"]["containers"]:
                yield pod, container


def _age(pod: Tree, now: int) -> float:
    return (now - parse_time(pod["metadata"]["creationTimestamp"])) / SECOND


def page(
    metrics: Iterable[MetricConfig],
    node: Tree,
    pods: Sequence[Tree],
    used_by: ResourceUsages,
    now: int,
) -> list[Family]:
    """Return the metrics of a node with its pods at a time (ns), in the order of their names."""
    at = _Node(node, pods, used_by, now)
    families: dict[str, Family] = {}
    for each in metrics:
        try:
            samples = dict(_samples(each, at))
        except ExpressionError:
            continue
        found = tuple(Sample(labels, samples[labels]) for labels in sorted(samples))
        if found:
            families[each.name] = Family(each.name, each.kind, each.help, found)
    return [families[name] for name in sorted(families)]


def _samples(config: MetricConfig, node: _Node) -> Iterator[tuple[Labels, float | Buckets]]:
    context = Context(node.now, lambda: NO_DRAW, node)
    for pod, container in node.subjects(config.dimension):

        def value(source: str, pod: Tree | None = pod, container: Tree | None = container) -> Any:
            return environment.evaluate_metric(source, context, node.tree, pod, container)

        labels = tuple(
            sorted((name, results.as_string(value(source))) for name, source in config.labels)
        )
        if config.kind != "histogram":
            yield labels, results.as_float(value(config.value))
            continue
        counts = {
            bucket.le: int(results.as_float(value(bucket.value))) for bucket in config.buckets
        }
        yield labels, _buckets(config.buckets, counts)


def _buckets(buckets: Sequence[Bucket], counts: Mapping[float, int]) -> Buckets:
    """Return a histogram: the count of a hidden bucket stands in the next one that is shown."""
    bounds = sorted(each.le for each in buckets)
    reached = dict(zip(bounds, accumulate(counts[le] for le in bounds), strict=True))
    visible = tuple(sorted(each.le for each in buckets if not each.hidden))
    return Buckets(
        visible,
        tuple(reached[le] for le in visible),
        sum(counts.values()),
        sum(le * count for le, count in counts.items()),
    )


@frozen
class NodePages:
    """The pages that the server of KWOK has for its nodes."""

    metrics: tuple[Metric, ...]
    used_by: ResourceUsages
    stored: tuple[str, ...] = ()
    """The kinds of pages whose objects are those of the API."""

    @property
    def kinds(self) -> Mapping[str, tuple[str, str, str]]:
        """The kinds whose objects are those of the API, with those that tell the usage."""
        return {**dict.fromkeys(self.stored, (GROUP, VERSION, "metrics")), **self.used_by.kinds}

    def text(
        self,
        path: str,
        nodes: Mapping[str, Tree],
        pods: Mapping[str, Sequence[Tree]],
        now: int,
        stored: Stored,
    ) -> str | None:
        """Return the page at a path at a time (ns), empty for a node that is unknown; None where there is no page.

        Args:
            path: for example `/metrics/nodes/fake-1/metrics/resource`.
            nodes: the nodes, by name.
            pods: the pods of each node.
            now: the time.
            stored: returns the objects of one of `kinds`.
        """
        used_by = self.used_by.with_objects(stored)
        for metric in (*self.metrics, *self._stored(stored)):
            name = metric.node_at(path)
            if name is None:
                continue
            node = nodes.get(name)
            if node is None:
                return ""
            return text_of(page(metric.metrics, node, pods.get(name, ()), used_by, now))
        return None

    def _stored(self, objects: Stored) -> Iterator[Metric]:
        """Yield the pages of the API in the order of their names; one that is malformed is left out."""
        for kind in self.stored:
            for tree in sorted(objects(kind), key=lambda tree: str(tree["metadata"]["name"])):
                with suppress(UsageError):
                    yield read(tree)
