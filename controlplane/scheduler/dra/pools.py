"""Pools of devices that a node can reach, gathered from ResourceSlices.

A pool is complete when all slices of its newest generation are known. The devices of an incomplete or invalid pool are
not allocated. Upstream: structured/internal/incubating/pools_incubating.go; the stable implementation keeps slices in
the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Final, NamedTuple

from attrs import field, frozen

from controlplane.api.constraints import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from controlplane.api.labels import SelectorError
from controlplane.api.node_selector import LazyNodeSelector, node_selector
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.devices import DeviceID
from controlplane.scheduler.dra.features import STABLE, Features, channel
from controlplane.scheduler.dra.recall import Recall

__all__ = [
    "NodeView",
    "Pool",
    "PoolError",
    "Slice",
    "Slices",
    "gather_pools",
    "node_matches",
    "selector_of",
]


class PoolError(Exception):
    """A ResourceSlice that cannot be read. The text is upstream's."""


class NodeView(NamedTuple):
    """The name and labels of a node."""

    name: str
    labels: Mapping[str, str]


@frozen(eq=False)
class Slice:
    """A ResourceSlice, read once."""

    tree: Tree
    name: str
    spec: Tree
    driver: str
    pool: str
    generation: int
    count: int
    devices: Sequence[Tree]
    has_counters: bool

    @classmethod
    def read(cls, tree: Tree) -> Slice:
        """Return the slice of a ResourceSlice object."""
        spec = tree.get("spec") or {}
        pool = spec.get("pool") or {}
        return cls(
            tree=tree,
            name=(tree.get("metadata") or {}).get("name", ""),
            spec=spec,
            driver=spec.get("driver", ""),
            pool=pool.get("name", ""),
            generation=pool.get("generation", 0),
            count=pool.get("resourceSliceCount", 0),
            devices=spec.get("devices") or (),
            has_counters=bool(spec.get("sharedCounters")),
        )

    def id_of(self, device: Tree) -> DeviceID:
        """Return the full name of one of the devices."""
        return DeviceID(self.driver, self.pool, device.get("name", ""))


@frozen(eq=False)
class Pool:
    """The slices of a pool in its newest generation.

    Attributes:
        driver: the name of the driver.
        name: the name of the pool.
        incomplete: slices are missing.
        invalid: the reason why the pool is invalid, "" for a valid one.
        targeting: the slices with devices for the node, in the order of the search.
        not_targeting: the other slices with devices, where they matter for counters.
        counter_sets: the counters of each set.
    """

    driver: str
    name: str
    incomplete: bool = False
    invalid: str = ""
    targeting: Sequence[Slice] = ()
    not_targeting: Sequence[Slice] = ()
    counter_sets: Mapping[str, Tree] = field(factory=dict)

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"

    @property
    def usable(self) -> bool:
        """Devices of the pool may be allocated."""
        return not self.incomplete and not self.invalid


class Slices:
    """All ResourceSlices, with those that only one node can use apart."""

    def __init__(self, trees: Iterable[Tree]) -> None:
        self.all = [Slice.read(tree) for tree in trees]
        self.trees = [piece.tree for piece in self.all]
        self.recall: Recall[Pool] = Recall()
        self.shared: list[Slice] = []
        self.on_node: dict[str, list[Slice]] = {}
        for piece in self.all:
            node = piece.spec.get("nodeName") or ""
            if not node or piece.has_counters:
                self.shared.append(piece)
            else:
                self.on_node.setdefault(node, []).append(piece)

    @classmethod
    def of(cls, trees: list[Tree]) -> Slices:
        """Return the slices of these trees: those of the last call, if no tree has changed."""
        known = _last[0]
        if len(known.trees) != len(trees) or not all(map(is_, known.trees, trees)):
            known = _last[0] = cls(trees)
        return known

    def of_node(self, name: str) -> list[Slice]:
        """Return the slices that may matter for a node: its own ones first."""
        return [*self.on_node.get(name, ()), *self.shared]


_last: Final = [Slices(())]


# -- nodes ---------------------------------------------------------------------------------------


def _requirements(found: Iterable[Tree] | None) -> tuple[NodeSelectorRequirement, ...]:
    return tuple(
        NodeSelectorRequirement(
            each.get("key", ""), each.get("operator", ""), tuple(each.get("values") or ())
        )
        for each in found or ()
    )


def _selector(tree: Tree) -> NodeSelector:
    return NodeSelector(
        tuple(
            NodeSelectorTerm(
                _requirements(term.get("matchExpressions")), _requirements(term.get("matchFields"))
            )
            for term in tree.get("nodeSelectorTerms") or ()
        )
    )


def _shown_requirements(found: tuple[NodeSelectorRequirement, ...]) -> str:
    parts = "".join(
        f"NodeSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
        for each in found
    )
    return f"[]NodeSelectorRequirement{{{parts}}}"


def _shown(selector: NodeSelector) -> str:
    """Return a selector as Go prints it."""
    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{_shown_requirements(term.match_expressions)},"
        f"MatchFields:{_shown_requirements(term.match_fields)},}},"
        for term in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def node_matches(node: NodeView, owner: Tree) -> bool:
    """Return whether a slice or device (`owner`) is for a node. PoolError for a node selector that is wrong."""
    if owner.get("nodeName"):
        return bool(owner["nodeName"] == node.name)
    if owner.get("allNodes"):
        return True
    tree = owner.get("nodeSelector")
    if tree is None:
        return False
    selector = _selector(tree)
    try:
        compiled = node_selector(selector)
    except SelectorError as error:
        raise PoolError(f"failed to parse node selector {_shown(selector)}: {error}") from None
    return compiled.matches(node.name, node.labels)


def selector_of(tree: Tree) -> LazyNodeSelector:
    """Return the node selector of an allocation. SelectorError for one that is wrong."""
    return node_selector(_selector(tree))


# -- pools ---------------------------------------------------------------------------------------


def gather_pools(
    slices: Slices, node: NodeView, features: Features, implementation: str = ""
) -> list[Pool]:
    """Return the pools with something for a node, in the order of the search.

    They are in the order of their names; those with binding conditions come last. PoolError.
    The `implementation` is that which upstream chooses for the features, unless one is given.
    """
    is_stable = (implementation or channel(features)) == STABLE
    found: dict[tuple[str, str], list[Slice]] = {}
    for piece in slices.all if is_stable else slices.of_node(node.name):
        if _is_relevant(piece, node, features):
            _add(found, piece)
    plain: list[Pool] = []
    waiting: list[Pool] = []
    for key in sorted(found):
        pool = _pool(key, found[key], slices.all, features, ordered=not is_stable)
        if pool is not None:
            (waiting if not is_stable and _has_conditions(pool) else plain).append(pool)
    return plain + waiting


def _is_relevant(piece: Slice, node: NodeView, features: Features) -> bool:
    spec = piece.spec
    per_device = spec.get("perDeviceNodeSelection")
    if not features.partitionable_devices and (per_device is not None or piece.has_counters):
        return False
    if piece.has_counters:
        return True
    if spec.get("nodeName") or spec.get("allNodes") or spec.get("nodeSelector") is not None:
        try:
            return node_matches(node, spec)
        except PoolError as error:
            text = f"failed to perform node selection for slice {piece.name}: {error}"
            raise PoolError(text) from None
    if not per_device:
        return False
    for device in piece.devices:
        try:
            if node_matches(node, device):
                return True
        except PoolError as error:
            name = device.get("name", "")
            text = (
                f"failed to perform node selection for device {name} in slice {piece.name}: {error}"
            )
            raise PoolError(text) from None
    return False


def _add(found: dict[tuple[str, str], list[Slice]], piece: Slice) -> None:
    """Add a slice to its pool, unless a newer generation is known; an older one goes."""
    key = (piece.driver, piece.pool)
    known = found.get(key)
    if known is None or piece.generation > known[0].generation:
        found[key] = [piece]
    elif piece.generation == known[0].generation:
        known.append(piece)


def _pool(
    key: tuple[str, str],
    known: list[Slice],
    everything: list[Slice],
    features: Features,
    *,
    ordered: bool,
) -> Pool | None:
    """Return the pool of the slices that matter for the node, `ordered` by their names or as they are listed.

    None where all of them are out of date.
    """
    others: list[Slice] | None = None
    if len(known) != known[0].count:
        others = []
        for piece in everything:
            if (piece.driver, piece.pool) != key:
                continue
            if piece.generation > known[0].generation:
                return None
            if piece.generation == known[0].generation:
                others.append(piece)
        if len(others) != known[0].count:
            return Pool(*key, incomplete=True)
    if ordered:
        known = sorted(known, key=lambda piece: piece.name)
    return _built(key, known, others, features)


def _built(
    key: tuple[str, str], known: list[Slice], others: list[Slice] | None, features: Features
) -> Pool:
    partitionable = features.partitionable_devices
    with_devices = [piece for piece in known if not (partitionable and piece.has_counters)]
    wrong = _twice(device.get("name", "") for piece in with_devices for device in piece.devices)
    if wrong is not None:
        return Pool(*key, invalid=f"duplicate device name {wrong}")
    if not partitionable:
        return Pool(*key, targeting=with_devices)
    listed = [
        counters
        for piece in known
        if piece.has_counters
        for counters in piece.spec.get("sharedCounters") or ()
    ]
    wrong = _twice(each.get("name", "") for each in listed)
    if wrong is not None:
        return Pool(*key, invalid=f"duplicate counter set name {wrong}")
    sets = {each.get("name", ""): each.get("counters") or {} for each in listed}
    reason = _wrong_consumption(sets, known)
    if reason:
        return Pool(*key, invalid=reason)
    if others is None or len(known) == len(others):
        return Pool(*key, targeting=with_devices, counter_sets=sets)
    names = {piece.name for piece in known}
    rest = [piece for piece in others if piece.name not in names]
    reason = _wrong_consumption(sets, rest)
    if reason:
        return Pool(*key, invalid=reason)
    return Pool(*key, targeting=with_devices, not_targeting=rest, counter_sets=sets)


def _twice(names: Iterable[str]) -> str | None:
    """Return the first name that occurs again."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _wrong_consumption(sets: Mapping[str, Tree], pieces: Iterable[Slice]) -> str:
    """Return why a device consumes counters that there are not, "" where none does."""
    for piece in pieces:
        for device in piece.devices:
            for consumption in device.get("consumesCounters") or ():
                name = consumption.get("counterSet", "")
                if name not in sets:
                    return f"counter set {name} not found"
                for counter in sorted(consumption.get("counters") or {}):
                    if counter not in sets[name]:
                        return f"counter {counter} not found in counter set {name}"
    return ""


def _has_conditions(pool: Pool) -> bool:
    return any(
        device.get("bindingConditions") is not None
        for piece in pool.targeting
        for device in piece.devices
    )
