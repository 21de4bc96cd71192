"""Data of one scheduling cycle about the claims of its pod.

Upstream: plugins/dynamicresources/{claims,dynamicresources}.go (claimStore, stateData).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from attrs import define, field

from controlplane.api.node_selector import LazyNodeSelector
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.allocator import AllocationError, Allocator
from controlplane.scheduler.dra.claims import pod_reference
from controlplane.scheduler.dra.extended import (
    ExtendedResources,
    is_extended_by_class,
    requests_for,
)
from controlplane.scheduler.dra.pools import NodeView
from controlplane.scheduler.dra.requests import requests_of
from controlplane.scheduler.dra.tracker import allocation_of
from controlplane.scheduler.framework.status import Status, error, unresolvable

if TYPE_CHECKING:
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

__all__ = [
    "KEY",
    "Claims",
    "CycleData",
    "GroupData",
    "NodeAllocation",
    "Offered",
    "resources_of_devices",
]

KEY: Final = "DynamicResources"
"""Of the data in the state of a cycle."""

MAX_ALTERNATIVES = 8
"""Alternatives of a request (FirstAvailableDeviceRequestMaxSize)."""
_NO_DEVICES: Final = unresolvable("cannot allocate all claims").by(KEY)


class Claims:
    """The claims of a pod, and after them the one for its extended resources, if it has one."""

    def __init__(
        self,
        users: Sequence[Tree] = (),
        extended: Tree | None = None,
        bindings: Sequence[Tree] = (),
    ) -> None:
        self._claims = [*users, *(() if extended is None else (extended,))]
        self._users = len(users)
        self._bindings = bindings
        self.extended_uid = "" if extended is None else extended["metadata"].get("uid", "")
        """The uid of the last one as PreFilter saw it: that of the object that PreBind creates differs."""

    def __bool__(self) -> bool:
        return bool(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def __getitem__(self, index: int) -> Tree:
        claim: Tree = self._claims[index]
        return claim

    def __setitem__(self, index: int, claim: Tree) -> None:
        self._claims[index] = claim

    def __iter__(self) -> Iterator[Tree]:
        return iter(self._claims)

    @property
    def users(self) -> Sequence[Tree]:
        """Claims that the pod names."""
        return self._claims[: self._users]

    @property
    def extended(self) -> Tree | None:
        """The claim for extended resources."""
        return self._claims[self._users] if self._users < len(self._claims) else None

    @extended.setter
    def extended(self, claim: Tree) -> None:
        self._claims[self._users] = claim

    def is_extended(self, index: int) -> bool:
        """Return whether the claim of this index is the one for extended resources."""
        return index >= self._users

    def to_allocate(self) -> list[tuple[int, Tree]]:
        """Return the claims without an allocation, with their indexes."""
        return [(i, each) for i, each in enumerate(self._claims) if allocation_of(each) is None]

    def has_alternatives(self) -> bool:
        """Return whether a request has alternatives, which are what nodes are rated by."""
        return any(
            request.get("exactly") is None and request.get("firstAvailable")
            for claim in self._claims
            for request in requests_of(claim)
        )

    def binding(self, index: int, pod: Tree) -> Tree:
        """Return the entry of reservedFor for a claim."""
        return self._bindings[index] if index < len(self._bindings) else pod_reference(pod)


class NodeAllocation(NamedTuple):
    """The result of Filter for a node.

    Attributes:
        results: allocations of the claims that have none, in their order.
        extended: the claim for extended resources with the requests for this node.
        mappings: what stands for which extended resource of a container.
        node_resources: entries of the pod's nodeAllocatableResourceClaimStatuses.
    """

    results: Sequence[Tree]
    extended: Tree | None = None
    mappings: Sequence[Tree] = ()
    node_resources: Sequence[Tree] = ()


@define(eq=False)
class Offered:
    """The resources among a pod's requests that classes may offer, and the claims for those that nodes lack.

    Nodes that lack the same get the same claim: it is made once.
    """

    revision: int
    """Of the classes."""
    names: Sequence[tuple[str, bool]]
    """Each with whether a class does offer it."""
    made: dict[tuple[str, ...], tuple[Tree, Sequence[Tree]]] = field(factory=dict)

    @classmethod
    def of(cls, scalars: Mapping[str, int], offers: ExtendedResources) -> Offered:
        """Of requests that are not zero."""
        names = [
            (name, offers.class_of(name) is not None)
            for name, amount in scalars.items()
            if amount and is_extended_by_class(name)
        ]
        return cls(offers.revision, names)

    def wanted_on(self, own: Mapping[str, int]) -> tuple[str, ...] | None:
        """Return what a node with these amounts needs devices for; None if it lacks what no class offers."""
        wanted = []
        for name, is_offered in self.names:
            if is_offered and own.get(name, 0) == 0:
                wanted.append(name)
            elif name not in own:
                return None
        return tuple(wanted)

    def claim_for(
        self, claim: Tree, pod: Tree, wanted: tuple[str, ...], offers: ExtendedResources
    ) -> tuple[Tree, Sequence[Tree]]:
        """Return the claim with requests for these resources, and what stands for them in containers."""
        found = self.made.get(wanted)
        if found is None:
            requests, mappings = requests_for(pod, wanted, offers)
            spec = {**claim["spec"], "devices": {"requests": requests}}
            found = self.made[wanted] = ({**claim, "spec": spec}, mappings)
        return found


@define(eq=False)
class GroupData:
    """Data of a pod group's cycle: the uids of claims that its pods have pending allocations of."""

    pending: dict[str, None] = field(factory=dict)


@define(eq=False)
class CycleData:
    """The result of PreFilter, and additions of Filter and Reserve.

    Attributes:
        claims: the claims of the pod.
        selectors: by index of an allocated claim, the nodes where it can be used.
        allocations: by index, the allocation that Reserve took, or an earlier pod of the group.
        allocator: None if nothing has to be allocated.
        unavailable: indexes of allocated claims that some node could not use.
        nodes: what Filter found, by node.
        scalars: the pod's requests of extended resources.
        plain: claims to allocate where nothing else decides: none is allocated, pending or for extended resources.
        offered: extended resources of the pod, where it has any.
        asked: the last answer of `to_ask`, with what it depends on.
    """

    claims: Claims = field(factory=Claims)
    selectors: dict[int, LazyNodeSelector] = field(factory=dict)
    allocations: dict[int, Tree] = field(factory=dict)
    allocator: Allocator | None = None
    unavailable: dict[int, None] = field(factory=dict)
    nodes: dict[str, NodeAllocation] = field(factory=dict)
    scalars: Mapping[str, int] = field(factory=dict)
    plain: Sequence[Tree] | None = None
    offered: Offered | None = None
    asked: tuple[Tree | None, int, tuple[list[Tree], list[Tree]]] | None = None

    def note_plain(self) -> None:
        """PreFilter is over, and amounts of nodes matter for no claim: see whether `plain` has all there is."""
        claims = self.claims
        unallocated = len(claims.to_allocate()) == len(claims) and not self.allocations
        if unallocated and claims.extended is None:
            self.plain = list(claims)

    def find_plain(self, node: NodeInfo, plain: Sequence[Tree]) -> Status | None:
        """Note allocations on a node, or return why it has none."""
        results, refused = self.search(node, plain)
        if results is None:
            return refused
        self.nodes[node.name] = NodeAllocation(results)
        return None

    def to_ask(self, extended: Tree | None) -> tuple[list[Tree], list[Tree]]:
        """Return the claims that a node is searched for, and the allocations that are pending instead.

        `extended` is the claim for extended resources as the node needs it. Nodes that need the same get the same
        list, by which the allocator knows that it is asked the same.
        """
        known = self.asked
        if known is not None and known[0] is extended and known[1] == len(self.allocations):
            return known[2]
        wanted: list[Tree] = []
        pending: list[Tree] = []
        for index, claim in self.claims.to_allocate():
            if index in self.allocations:
                pending.append(self.allocations[index])
            else:
                own = extended if self.claims.is_extended(index) else None
                wanted.append(own or claim)
        self.asked = (extended, len(self.allocations), (wanted, pending))
        return wanted, pending

    def search(
        self, node: NodeInfo, wanted: Sequence[Tree]
    ) -> tuple[Sequence[Tree] | None, Status | None]:
        """Return allocations on a node for claims that have none, or why it has none for them."""
        allocator = self.allocator
        assert allocator is not None and node.node is not None
        labels = node.node.metadata.labels
        known = allocator.known(node.name, labels, wanted)
        if known is not None:
            return known.found, None if known.found is not None else _NO_DEVICES
        try:
            results = allocator.allocate(NodeView(node.name, labels), wanted)
        except AllocationError as failed:
            if failed.aborted:
                text = f"node {node.name}: timed out trying to allocate devices"
                return None, error(text)
            return None, unresolvable(str(failed)) if failed.node_only else error(str(failed))
        return results, _NO_DEVICES if results is None else None

    def score(self, node: str) -> int:
        """Return the points of a node: the earlier an alternative stands, the more it counts. ValueError."""
        found = self.nodes.get(node)
        if found is None:
            return 0
        points, taken = 0, 0
        for claim in self.claims:
            allocation = allocation_of(claim)
            if allocation is None:
                if taken >= len(found.results):
                    raise ValueError(
                        f"number of allocations {len(found.results)} is smaller than number of claims"
                        " needing allocation"
                    )
                allocation = found.results[taken]
                taken += 1
            points += _points(claim, allocation)
        return points


def resources_of_devices(state: CycleState, node: str) -> Sequence[Tree]:
    """Return the entries for a pod's status about resources that its devices stand for on a node."""
    data: CycleData | None = state.read(KEY)
    found = None if data is None else data.nodes.get(node)
    return () if found is None else found.node_resources


def _points(claim: Tree, allocation: Tree) -> int:
    results = (allocation.get("devices") or {}).get("results") or ()
    chosen = {each.get("request", "") for each in results}
    points = 0
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        if request.get("exactly") is not None:
            continue
        for place, sub in enumerate(request.get("firstAvailable") or ()):
            if f"{request.get('name', '')}/{sub.get('name', '')}" in chosen:
                points += MAX_ALTERNATIVES - place
    return points
