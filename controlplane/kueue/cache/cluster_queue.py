"""A cluster queue in the cache: its settings, its workloads, and why it is active or not.

Follows `pkg/cache/scheduler/clusterqueue.go` and `localqueue.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controlplane.api.decoding import decode
from controlplane.api.labels import Selector, from_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.tree import Tree
from controlplane.kueue.amounts import Quotas, add, clamp
from controlplane.kueue.cache.quota import (
    QueueNode,
    Quota,
    ResourceGroup,
    groups_of,
    quotas_of,
)
from controlplane.kueue.cache.share import fair_weight
from controlplane.kueue.cache.topology_port import Topologies
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import PROVISIONING_CONTROLLER
from controlplane.kueue.workload.info import Info, new_info
from controlplane.kueue.workload.requests import RequestOptions
from controlplane.kueue.workload.status import PODS_READY, condition_text, is_admitted, is_true
from controlplane.kueue.workload.status_checks import checks_of_queue

PENDING: Final = "pending"
ACTIVE: Final = "active"
TERMINATING: Final = "terminating"

NEVER: Final = "Never"
MAY_STOP_SEARCH: Final = "MayStopSearch"
TRY_NEXT_FLAVOR: Final = "TryNextFlavor"
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"


@dataclass(frozen=True)
class Preemption:
    """Policies of `spec.preemption`; `borrow_within_cohort` is None if not given."""

    reclaim_within_cohort: str = NEVER
    within_cluster_queue: str = NEVER
    borrow_within_cohort: str | None = None
    max_priority_threshold: int | None = None

    @staticmethod
    def from_tree(tree: Tree | None) -> Preemption:
        """Read `spec.preemption`."""
        if tree is None:
            return Preemption()
        borrow = tree.get("borrowWithinCohort")
        return Preemption(
            tree.get("reclaimWithinCohort") or "",
            tree.get("withinClusterQueue") or "",
            None if borrow is None else borrow.get("policy") or "",
            None if borrow is None else borrow.get("maxPriorityThreshold"),
        )

    def borrowing_forbidden(self) -> bool:
        """Return whether preempting others must not make the queue borrow."""
        return self.borrow_within_cohort in (None, NEVER)


@dataclass(frozen=True)
class Fungibility:
    """`spec.flavorFungibility`."""

    when_can_borrow: str = MAY_STOP_SEARCH
    when_can_preempt: str = TRY_NEXT_FLAVOR
    preference: str | None = None

    @staticmethod
    def from_tree(tree: Tree | None) -> Fungibility:
        """Read `spec.flavorFungibility`; what is missing gets its default."""
        known = tree or {}
        return Fungibility(
            known.get("whenCanBorrow") or MAY_STOP_SEARCH,
            known.get("whenCanPreempt") or TRY_NEXT_FLAVOR,
            known.get("preference"),
        )


@dataclass(frozen=True)
class AdmissionCheck:
    """The fields of an AdmissionCheck that decisions read."""

    active: bool
    controller: str


@dataclass
class LocalQueueState:
    """Counters of a local queue."""

    reserving: int = 0
    admitted: int = 0
    reserved: Quotas = field(default_factory=dict)
    used: Quotas = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    counted: bool = False
    counted_admitted: bool = False
    """For the metrics: a workload, and an admitted one, has ever counted here."""


@dataclass
class Checks:
    """Findings about the admission checks of a queue, each sorted by name."""

    missing: list[str] = field(default_factory=list)
    inactive: list[str] = field(default_factory=list)
    multikueue: list[str] = field(default_factory=list)
    provisioning: list[str] = field(default_factory=list)
    multikueue_per_flavor: list[str] = field(default_factory=list)


def selector_of(tree: Tree | None) -> Selector:
    """A label selector; None selects nothing, an empty one everything."""
    return from_label_selector(None if tree is None else decode(LabelSelector, tree))


class ClusterQueueState(QueueNode):
    """A cluster queue of the cache. `workloads` are those that hold quota in it."""

    quotas: dict[Any, Quota]

    def __init__(
        self, queue: Tree, gates: Gates, options: RequestOptions, topologies: Topologies
    ) -> None:
        super().__init__(queue["metadata"]["name"])
        self._gates = gates
        self._options = options
        self._topologies = topologies
        self.groups: tuple[ResourceGroup, ...] = ()
        self.workloads: dict[str, Info] = {}
        self.not_ready: dict[str, None] = {}
        self.local_queues: dict[str, LocalQueueState] = {}
        self.admitted_usage: Quotas = {}
        self.admitted = 0
        self.counted = self.counted_admitted = False
        """For the metrics: a workload, and an admitted one, has ever counted here."""
        self.selector = from_label_selector(None)
        self.preemption = Preemption()
        self.fungibility = Fungibility()
        self.check_flavors: dict[str, frozenset[str]] = {}
        self.admission_mode: str | None = (
            (queue.get("spec") or {}).get("admissionScope") or {}
        ).get("admissionMode")
        self.concurrent_admission: Tree | None = None
        self.status = ""
        self.stopped = False
        self.missing_flavors: list[str] = []
        self.tas_flavors: dict[str, str] = {}
        self.tas_synced = False
        self.checks = Checks()
        self.track_pods_ready = False

    # -- settings ----------------------------------------------------------------------------------

    def set_quotas(self, spec: Tree) -> bool:
        """Take resource groups and quotas; return whether they differ from before."""
        before = self.groups, self.quotas
        self.groups = groups_of(spec.get("resourceGroups") or ())
        self.quotas = quotas_of(spec.get("resourceGroups") or ())
        return self.generation == 0 or before != (self.groups, self.quotas)

    def set_spec(
        self, queue: Tree, flavors: Mapping[str, Tree], checks: Mapping[str, AdmissionCheck]
    ) -> None:
        """Take everything but the quotas."""
        spec = queue.get("spec") or {}
        self.selector = selector_of(spec.get("namespaceSelector"))
        self.stopped = (spec.get("stopPolicy") or "None") != "None"
        self.check_flavors = checks_of_queue(queue)
        self.preemption = Preemption.from_tree(spec.get("preemption"))
        self.update_flavors(flavors)
        self.update_checks(checks)
        self.fungibility = Fungibility.from_tree(spec.get("flavorFungibility"))
        self.fair_weight = fair_weight(spec.get("fairSharing"))
        self.admission_mode = (spec.get("admissionScope") or {}).get("admissionMode")
        if self._gates.enabled("ConcurrentAdmission"):
            self.concurrent_admission = spec.get("concurrentAdmissionPolicy")

    def update_flavors(self, flavors: Mapping[str, Tree]) -> None:
        """Look up which flavors are missing and which have a topology."""
        before = self.tas_flavors
        self.missing_flavors, self.tas_flavors = [], {}
        for group in self.groups:
            for name in group.flavors:
                flavor = flavors.get(name)
                if flavor is None:
                    self.missing_flavors.append(name)
                    continue
                topology = (flavor.get("spec") or {}).get("topologyName")
                if topology is not None:
                    if name not in before:
                        self.tas_synced = False
                    self.tas_flavors[name] = topology
        self.update_status()

    def update_checks(self, checks: Mapping[str, AdmissionCheck]) -> None:
        """Look up the state of the admission checks."""
        found = Checks()
        every = frozenset(name for group in self.groups for name in group.flavors)
        for name in sorted(self.check_flavors):
            check = checks.get(name)
            if check is None:
                found.missing.append(name)
                continue
            if not check.active:
                found.inactive.append(name)
            if check.controller == PROVISIONING_CONTROLLER:
                found.provisioning.append(name)
            if check.controller == MULTIKUEUE:
                found.multikueue.append(name)
                if self.check_flavors[name] != every:
                    found.multikueue_per_flavor.append(name)
        if found != self.checks:
            self.checks = found
            self.update_status()

    # -- activity ----------------------------------------------------------------------------------

    def update_status(self) -> None:
        """Decide whether the queue is active."""
        self._sync_topology()
        checks = self.checks
        pending = (
            self.stopped
            or self.missing_flavors
            or checks.missing
            or checks.inactive
            or self._topology_missing()
            or len(checks.multikueue) > 1
            or checks.multikueue_per_flavor
            or (checks.multikueue and checks.provisioning)
        )
        if self.status != TERMINATING:
            self.status = PENDING if pending else ACTIVE

    def _tas(self) -> bool:
        return bool(self.tas_flavors) and self._gates.enabled("TopologyAwareScheduling")

    def _topology_known(self) -> bool:
        return all(self._topologies.flavor(name) is not None for name in self.tas_flavors)

    def _topology_missing(self) -> bool:
        return self._tas() and not self.checks.multikueue and not self._topology_known()

    def _sync_topology(self) -> None:
        """Count the workloads in topologies that have become known."""
        if not self._gates.enabled("TopologyAwareScheduling"):
            return
        if not self.tas_flavors or not self._topology_known():
            self.tas_synced = False
        elif not self.tas_synced:
            for info in list(self.workloads.values()):
                self.add_workload(info.obj)
            self.tas_synced = True

    def usable(self) -> str:
        """Return why a snapshot leaves the queue out, or an empty text."""
        if self.status != ACTIVE:
            return "NotActive"
        if self.parent is not None and self.parent.has_cycle():
            return "HasCycle"
        if self._tas() and not self.tas_synced:
            return "TASUsageNotSynced"
        return ""

    def readiness(self) -> tuple[str, str, str]:
        """Status, reason and message of the condition Active."""
        if self.status not in (
            PENDING,
            TERMINATING,
        ):  # empty while a cohort cycle kept the rest out
            known = "True" if self.status == ACTIVE else "False"
            return known, "Ready", "Can admit new workloads"
        if self.status == TERMINATING:
            text = "Can't admit new workloads; clusterQueue is terminating"
            return "False", "Terminating", text
        found = self._obstacles()
        if not found:
            return "False", "Unknown", "Can't admit new workloads."
        text = ", ".join(message for _, message in found)
        return "False", found[0][0], condition_text(f"Can't admit new workloads: {text}.")

    def _obstacles(self) -> list[tuple[str, str]]:
        checks = self.checks
        multikueue, provisioning = ",".join(checks.multikueue), ",".join(checks.provisioning)
        table: list[tuple[Any, str, str]] = [
            (self.stopped, "Stopped", "is stopped"),
            (
                self.missing_flavors,
                "FlavorNotFound",
                f"references missing ResourceFlavor(s): {','.join(self.missing_flavors)}",
            ),
            (
                checks.missing,
                "AdmissionCheckNotFound",
                f"references missing AdmissionCheck(s): {','.join(checks.missing)}",
            ),
            (
                checks.inactive,
                "AdmissionCheckInactive",
                f"references inactive AdmissionCheck(s): {','.join(checks.inactive)}",
            ),
            (
                len(checks.multikueue) > 1,
                "MultipleMultiKueueAdmissionChecks",
                "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, "
                f"found: {multikueue}",
            ),
            (
                checks.multikueue_per_flavor,
                "MultiKueueAdmissionCheckAppliedPerFlavor",
                "Cannot specify MultiKueue AdmissionCheck per flavor, "
                f"found: {','.join(checks.multikueue_per_flavor)}",
            ),
            (
                checks.multikueue and checks.provisioning,
                "MultiKueueWithProvisioningRequest",
                "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
                f"found: {multikueue}, {provisioning}",
            ),
        ]
        found = [(reason, text) for holds, reason, text in table if holds]
        if self._tas():
            found.extend(
                ("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{name}"')
                for name, topology in sorted(self.tas_flavors.items())
                if self._topologies.flavor(name) is None
            )
        return found

    def topology_only(self) -> bool:
        """Return whether all flavors have a topology."""
        return all(name in self.tas_flavors for group in self.groups for name in group.flavors)

    def flavors_with_provisioning(self) -> frozenset[str]:
        """The flavors that a provisioning request is made for."""
        return frozenset(
            flavor for name in self.checks.provisioning for flavor in self.check_flavors[name]
        )

    # -- workloads ---------------------------------------------------------------------------------

    def add_workload(self, workload: Tree) -> None:
        """Count a workload that holds quota; one that counted before is replaced."""
        info = new_info(workload, self._gates, self._options)
        self.delete_workload(info.key)
        self.workloads[info.key] = info
        self._count(info, 1)
        if self.track_pods_ready and not is_true(workload, PODS_READY):
            self.not_ready[info.key] = None

    def delete_workload(self, key: str) -> None:
        """Stop counting a workload."""
        info = self.workloads.get(key)
        if info is None:
            return
        self._count(info, -1)
        self.not_ready.pop(key, None)
        self.generation += 1
        del self.workloads[key]

    def _count(self, info: Info, sign: int) -> None:
        usage = info.quota_usage[0]
        for pair, amount in usage.items():
            if sign > 0:
                self.add_usage(pair, amount)
            else:
                self.remove_usage(pair, amount)
        self._count_topology(info, sign)
        admitted = is_admitted(info.obj)
        self.counted = True
        if admitted:
            self.counted_admitted = True
            _change(self.admitted_usage, usage, sign)
            if self.parent is not None and not self.parent.has_cycle():
                for above in self.path():
                    above.admitted += sign
            self.admitted += sign
        local = self.local_queues.get(f"{info.namespace}/{info.queue_name}")
        if local is not None:
            _count_local(local, usage, sign, admitted)
            local.counted = True
            local.counted_admitted |= admitted

    def _count_topology(self, info: Info, sign: int) -> None:
        if not info.uses_tas or not self._gates.enabled("TopologyAwareScheduling"):
            return
        for name, requests in info.tas_usage.items():
            flavor = self._topologies.flavor(name)
            if flavor is None:
                continue
            if sign > 0:
                flavor.add_usage(info.key, requests)
            else:
                flavor.remove_usage(info.key)

    # -- local queues ------------------------------------------------------------------------------

    def add_local_queue(self, queue: Tree) -> LocalQueueState:
        """Start counting for a local queue, with the workloads that are here already."""
        meta = queue["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        local = LocalQueueState(labels=meta.get("labels") or {}, counted=True)
        self.reset_local(local)
        for info in self.workloads.values():
            if (info.namespace, info.queue_name) == (meta["namespace"], meta["name"]):
                _count_local(local, info.quota_usage[0], 1, is_admitted(info.obj))
        self.local_queues[key] = local
        return local

    def reset_local(self, local: LocalQueueState) -> None:
        """Keep the counters of the flavors and resources that this queue has used."""
        local.reserved = {pair: local.reserved.get(pair, 0) for pair in self.usage}
        local.used = {pair: local.used.get(pair, 0) for pair in self.admitted_usage}


def _count_local(local: LocalQueueState, usage: Quotas, sign: int, admitted: bool) -> None:
    _change(local.reserved, usage, sign)
    local.reserving += sign
    if admitted:
        _change(local.used, usage, sign)
        local.admitted += sign


def _change(total: Quotas, usage: Quotas, sign: int) -> None:
    for pair, amount in usage.items():
        total[pair] = add(total.get(pair, 0), clamp(sign * amount))
