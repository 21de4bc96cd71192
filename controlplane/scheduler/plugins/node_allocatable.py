"""CPU, memory and huge pages that devices stand for: they count for the pod besides what its containers request.

Feature DRANodeAllocatableResources. Upstream: plugins/dynamicresources/nodeallocatabledynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from controlplane.api.pod_resources import HUGE_PAGES, Options
from controlplane.api.pod_resources import pod_requests as effective_requests
from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.claims import ClaimError
from controlplane.scheduler.dra.tracker import allocation_of
from controlplane.scheduler.framework.effects import Effects, RequestFailed
from controlplane.scheduler.framework.status import (
    Code,
    Status,
    error,
    unresolvable,
)
from controlplane.scheduler.plugins.claim_cycle import Claims
from controlplane.scheduler.plugins.claim_writing import patch_pod_status
from controlplane.scheduler.state.resources import Resource
from controlplane.sharing.replacing import replaced

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.dra.manager import DRAManager
    from controlplane.scheduler.state.node_info import NodeInfo

__all__ = ["NodeResources", "clear_patch", "status_patch", "with_statuses"]

FIELD = "nodeAllocatableResourceClaimStatuses"
_WITHOUT_POD_LEVEL = Options(skip_pod_level=True, node_allocatable=True)
_TOTAL = Options(node_allocatable=True)


class _Missing(Exception):
    """A device or capacity that an allocation names is not there. The text is upstream's."""


@define(eq=False)
class _OfClaim:
    """Node resources that the devices of a claim stand for, and the containers that use it."""

    name: str
    containers: list[str] = field(factory=list)
    resources: dict[str, Quantity] = field(factory=dict)

    @property
    def tree(self) -> Tree:
        shown: Tree = {"resourceClaimName": self.name}
        if self.containers:
            shown["containers"] = list(self.containers)
        if self.resources:
            shown["resources"] = {name: str(amount) for name, amount in self.resources.items()}
        return shown


@frozen(eq=False)
class NodeResources:
    """Checks nodes.

    Attributes:
        dra: slices and claims.
        claims_of: returns the pod's names of its claims, with the claims; raises ClaimError.
    """

    dra: DRAManager
    claims_of: Callable[[Tree], list[tuple[str, Tree]]]

    def sharing(self, pod: Pod, node: NodeInfo, claim: Tree) -> Status | None:
        """Refuse a claim whose devices stand for resources of the node and that another pod there uses."""
        name = claim["metadata"].get("name", "")
        users: dict[str, None] = {}
        for info in node.pods:
            for each in info.pod.status.node_allocatable_resource_claim_statuses:
                if info.pod.namespace == pod.namespace and each.get("resourceClaimName") == name:
                    users[info.pod.uid] = None
        if len(users) > 1:
            return unresolvable(f"node allocatable resource claim {name} shared by multiple pods")
        if users and pod.uid not in users:
            return unresolvable(
                f"node allocatable resource claim {name} is already used by another pod"
            )
        return None

    def check(
        self, claims: Claims, pod: Pod, node: NodeInfo, allocations: Mapping[str, Tree]
    ) -> tuple[Sequence[Tree], Status | None]:
        """Return the entries for the pod's status, or why the node has no room for what the devices stand for."""
        counted = [claim for claim in claims if self._counts(claim, allocations)]
        if not counted:
            return (), None
        try:
            names = {
                name: claim["metadata"].get("uid", "") for name, claim in self.claims_of(pod.tree)
            }
        except ClaimError as failed:
            return (), error(f"processing pod resource claims: {failed}")
        try:
            found = self._statuses(pod, counted, allocations, names)
        except _Missing as failed:
            return (), error(str(failed))
        for each in found:
            if not each.containers:
                return (), unresolvable(
                    f"claim {each.name}: node-allocatable resource claim not referenced by any"
                    " container within the pod"
                )
        trees = [each.tree for each in found]
        counting = with_statuses(pod, trees)
        total = effective_requests(counting, _TOTAL)
        refused = _covered(counting, total)
        if refused is None:
            refused = _fits(node, Resource.from_requests(total))
        return (trees, None) if refused is None else ((), refused)

    def _counts(self, claim: Tree, allocations: Mapping[str, Tree]) -> bool:
        """Return whether a device of a claim that is being allocated stands for resources."""
        allocation = allocations.get(claim["metadata"].get("uid", ""))
        for result in _results(allocation):
            device = self.dra.device(result.get("pool", ""), result.get("device", ""))
            if device is not None and device.get("nodeAllocatableResourceMappings"):
                return True
        return False

    def _statuses(
        self,
        pod: Pod,
        claims: Sequence[Tree],
        allocations: Mapping[str, Tree],
        names: Mapping[str, str],
    ) -> list[_OfClaim]:
        found: dict[str, _OfClaim] = {}
        for claim in claims:
            uid = claim["metadata"].get("uid", "")
            allocation = allocations.get(uid) or allocation_of(claim)
            of_claim = _OfClaim(claim["metadata"].get("name", ""))
            namespace = pod.namespace
            if self._add_up(of_claim, allocation, f"claim {namespace}/{of_claim.name}"):
                found[uid] = of_claim
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            for used in container.resources.claims:
                known = found.get(names.get(used.name, ""))
                if known is not None:
                    known.containers.append(container.name)
        return sorted(found.values(), key=lambda each: each.name)

    def _add_up(self, of_claim: _OfClaim, allocation: Tree | None, shown: str) -> bool:
        """Add up what the devices of an allocation stand for; return whether they do for anything."""
        counts = False
        for result in _results(allocation):
            pool, name = result.get("pool", ""), result.get("device", "")
            where = f"{shown}, device {name}"
            device = self.dra.device(pool, name)
            if device is None:
                raise _Missing(f"{where}: device {name} not found in pool {pool}")
            mappings = device.get("nodeAllocatableResourceMappings") or {}
            for resource in sorted(mappings):
                amount = _amount(mappings[resource], result, resource, where)
                if amount is None:
                    continue
                has = of_claim.resources.get(resource)
                of_claim.resources[resource] = amount if has is None else has.add(amount)
                counts = True
        return counts


def _results(allocation: Tree | None) -> Sequence[Tree]:
    return ((allocation or {}).get("devices") or {}).get("results") or ()


def _amount(mapping: Tree, result: Tree, resource: str, where: str) -> Quantity | None:
    """Return what a device stands for; None where the mapping does not apply."""
    multiplier = mapping.get("allocationMultiplier")
    key = mapping.get("capacityKey")
    if key:
        consumed = result.get("consumedCapacity")
        if consumed is None:
            raise _Missing(
                f"{where}: ConsumedCapacity is nil, but Capacity key '{key}' is set in"
                f" NodeAllocatableResourceMappings for resource {resource}"
            )
        if key not in consumed:
            return None
        amount = parse(str(consumed[key]))
        return amount if multiplier is None else _times(amount, parse(str(multiplier)))
    return parse("0") if multiplier is None else parse(str(multiplier))


def _times(amount: Quantity, multiplier: Quantity) -> Quantity:
    """Return a product, exactly, in the form of the first factor."""
    return amount.times(multiplier)


def _covered(pod: Pod, total: Mapping[str, Quantity]) -> Status | None:
    """Refuse a pod whose own requests, as a whole, are less than those of its containers and devices."""
    if not (pod.spec.resources is not None and pod.spec.resources.requests):
        return None
    parts = effective_requests(pod, _WITHOUT_POD_LEVEL)
    for name in sorted(total):
        if name in parts and parts[name].cmp(total[name]) > 0:
            return unresolvable(
                f"pod level request for {name} is insufficient to cover the aggregated container and"
                " node-allocatable DRA requests"
            )
    return None


def _fits(node: NodeInfo, request: Resource) -> Status | None:
    """Refuse a node without room."""
    has, used = node.allocatable, node.requested
    checks: list[tuple[str, int, int, int]] = [
        ("cpu", request.milli_cpu, has.milli_cpu, used.milli_cpu),
        ("memory", request.memory, has.memory, used.memory),
        (
            "ephemeral-storage",
            request.ephemeral_storage,
            has.ephemeral_storage,
            used.ephemeral_storage,
        ),
    ]
    for name in sorted(request.scalars):
        if name.startswith(HUGE_PAGES):
            amounts = has.scalars.get(name, 0), used.scalars.get(name, 0)
            checks.append((name, request.scalars[name], *amounts))
    lacking = [
        (name, wanted > capacity)
        for name, wanted, capacity, taken in checks
        if wanted > capacity - taken and (wanted > 0 or name.startswith(HUGE_PAGES))
    ]
    if not lacking:
        return None
    never = any(never for _, never in lacking)
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if never else Code.UNSCHEDULABLE
    return Status(code, tuple(f"Insufficient {name}" for name, _ in lacking))


# -- the status of the pod -------------------------------------------------------------------------


def with_statuses(pod: Pod, statuses: Sequence[Tree]) -> Pod:
    """Return the pod with these entries in its status."""
    status = {**(pod.tree.get("status") or {}), FIELD: list(statuses)}
    view = replaced(pod.status, node_allocatable_resource_claim_statuses=tuple(statuses))
    return replaced(pod, tree={**pod.tree, "status": status}, status=view)


def status_patch(pod: Pod, statuses: Sequence[Tree]) -> Effects[str]:
    """Write the entries into the pod's status; returns an error text, "" when all went well."""
    if _comparable(pod.status.node_allocatable_resource_claim_statuses) != _comparable(statuses):
        return "assumed pod status does not match calculated status to be patched"
    patch = {"status": {FIELD: list(statuses)}}
    try:
        yield from patch_pod_status(pod.namespace, pod.name, patch)
    except RequestFailed as failed:
        return f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {failed}"
    return ""


def clear_patch(pod: Pod) -> Effects[None]:
    """Take the entries out of the pod's status again; an error changes nothing."""
    if not pod.status.node_allocatable_resource_claim_statuses:
        return
    patch: Tree = {"status": {FIELD: None}}
    try:
        yield from patch_pod_status(pod.namespace, pod.name, patch)
    except RequestFailed:
        return


def _comparable(statuses: Sequence[Tree]) -> Any:
    return [
        (
            each.get("resourceClaimName", ""),
            tuple(each.get("containers") or ()),
            {name: parse(str(n)).normal() for name, n in (each.get("resources") or {}).items()},
        )
        for each in statuses
    ]
