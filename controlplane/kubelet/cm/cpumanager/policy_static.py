"""The static policy: containers of Guaranteed pods with whole CPUs get some for themselves.

Upstream: pkg/kubelet/cm/cpumanager/policy_static.go. Each change of the state is written at once, and
taking CPUs out of the default set is one change, giving them to a container the next: what comes in
between finds one without the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final, Protocol

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import CPU
from controlplane.decisions import Write
from controlplane.kubelet.cm.cpumanager.assignment import (
    AssignmentError,
    take_distributed,
    take_packed,
)
from controlplane.kubelet.cm.cpumanager.policy_options import check_options, static_options
from controlplane.kubelet.cm.cpumanager.state import FILE, CPUState
from controlplane.kubelet.cm.cpumanager.topology import CPUTopology, TopologyError
from controlplane.kubelet.cm.cpuset import EMPTY, CPUSet, union
from controlplane.kubelet.cm.errors import (
    EmptyPodSharedPoolError,
    ManagerError,
    SMTAlignmentError,
)
from controlplane.kubelet.cm.fixes import AS_RELEASED, ManagerFixes
from controlplane.kubelet.cm.pod_shares import shares_of
from controlplane.kubelet.cm.requests import (
    containers_of,
    exclusive_cpus,
    exclusive_cpus_of_pod,
    is_init,
    is_sidecar,
    left_alone,
    managed_as_a_whole,
)
from controlplane.kubelet.cm.topologymanager.hints import (
    Choice,
    Hints,
    TopologyHint,
    choices,
    nodes_of,
)
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import Features
from controlplane.metrics.numbers import Metrics

NAME: Final = "static"

NO_CPUS_FOR_INIT: Final = (
    "pod rejected, pod has shared init containers but no cpus available for them"
)
NO_CPUS_LEFT: Final = (
    "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for "
    "shared containers"
)


class Affinity(Protocol):
    """The store of decided hints: the topology manager."""

    @property
    def policy_name(self) -> str:
        """Its policy."""

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        """The hint of a container."""


class StaticPolicy:
    """Works on `state`, which it replaces by another value with each change."""

    name = NAME

    def __init__(
        self,
        topology: CPUTopology,
        reserved_count: int,
        reserved: CPUSet,
        affinity: Affinity,
        options: Mapping[str, str],
        features: Features,
        metrics: Metrics,
        fixes: ManagerFixes = AS_RELEASED,
    ) -> None:
        """`reserved` names the reserved CPUs; when it is empty, `reserved_count` are chosen.

        Raises ManagerError.
        """
        self.topology = topology
        self.affinity = affinity
        self.features = features
        self.metrics = metrics
        self.fixes = fixes
        self.options = static_options(options, features)
        check_options(self.options, topology, affinity.policy_name)
        self.state = CPUState(NAME)
        self._reuse: dict[str, CPUSet] = {}
        self.reserved = reserved
        if not reserved:
            with suppress(AssignmentError):  # the size below says it
                self.reserved = self._take(topology.all_cpus, reserved_count)
        if len(self.reserved) != reserved_count:
            raise ManagerError(
                "[cpumanager] unable to reserve the required amount of CPUs "
                f"(size of {self.reserved} did not equal {reserved_count})"
            )
        try:
            self.reserved_physical = topology.cores_with(self.reserved)
        except TopologyError as error:
            raise ManagerError(
                "[cpumanager] unable to build the reserved physical CPUs from the reserved set: "
                f"{error}"
            ) from None

    # -- start -------------------------------------------------------------------------------

    def start(self, state: CPUState) -> Steps[None]:
        """Take over a restored state. Raises ManagerError when it does not fit this machine."""
        self.state = state
        yield from self._validate()
        self._metrics_at_start()

    def _validate(self) -> Steps[None]:
        state = self.state
        every = self.topology.all_cpus
        if self.options.strict_reservation:
            every -= self.reserved
        if not state.default:
            if state.assignments:
                raise ManagerError("default cpuset cannot be empty")
            yield self._set(state.with_default(every))
            return
        if self.options.strict_reservation:
            wrong = self.reserved & state.default
            if wrong:
                raise ManagerError(
                    f'some of strictly reserved cpus: "{wrong}" are present in defaultCpuSet: '
                    f'"{state.default}"'
                )
        elif not self.reserved <= state.default:
            raise ManagerError(
                f'not all reserved cpus: "{self.reserved}" are present in defaultCpuSet: '
                f'"{state.default}"'
            )
        for uid, pod in sorted(state.assignments.items()):
            for name, cpus in sorted(pod.items()):
                if state.default & cpus:
                    raise ManagerError(
                        f'pod: {uid}, container: {name} cpuset: "{cpus}" overlaps with default '
                        f'cpuset "{state.default}"'
                    )
        known = state.default | state.exclusive() | union((state.pods or {}).values())
        if known != every:
            raise ManagerError(
                f'current set of available CPUs "{every}" doesn\'t match with CPUs in state '
                f'"{known}"'
            )

    @property
    def allocatable(self) -> CPUSet:
        """Return the CPUs that containers may get exclusively at all."""
        return self.topology.all_cpus - self.reserved

    @property
    def available(self) -> CPUSet:
        """Return the CPUs that containers may get exclusively now."""
        return self.state.default - self.reserved

    def _set(self, state: CPUState) -> Write:
        self.state = state
        return Write(FILE, state)

    # -- allocation --------------------------------------------------------------------------

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container its CPUs. Raises ManagerError."""
        count = exclusive_cpus(pod, container, self.features)
        if count == 0 or left_alone(pod, self.features):
            return
        self.metrics.add("cpu_manager_pinning_requests_total")
        try:
            yield from self._allocate(pod, container, count)
        except (ManagerError, AssignmentError) as error:
            self.metrics.add("cpu_manager_pinning_errors_total")
            if self.options.full_pcpus_only:
                self._count_aligned("container", failed=True)
            raise error if isinstance(error, ManagerError) else ManagerError(str(error)) from None
        if self.options.full_pcpus_only:
            self._count_aligned("container")

    def _allocate(self, pod: Pod, container: Container, count: int) -> Steps[None]:
        if self.options.full_pcpus_only:
            self._check_smt_alignment(count)
        assigned = self.state.get(pod.uid, container.name)
        if assigned is not None:
            self._update_reuse(pod, container, assigned)
            return
        hint = self.affinity.affinity(pod.uid, container.name)
        cpus = self._choose(count, hint.mask, self._reuse.get(pod.uid, EMPTY))
        taken = self.state.with_default(self.state.default - cpus)
        if not self.fixes.one_write:
            yield self._set(taken)
        yield self._set(taken.with_cpus(pod.uid, container.name, cpus))
        self._update_reuse(pod, container, cpus)
        self._count_exclusive(cpus, 1)

    def _check_smt_alignment(self, count: int) -> None:
        per_core = self.topology.cpus_per_core
        if per_core and count % per_core:
            raise SMTAlignmentError(
                f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = "
                f"{per_core}"
            )
        available = len(self.state.default - self.reserved_physical)
        if count > available:
            raise SMTAlignmentError(
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
                f"{available}, requested CPUs = {count}, CPUs per core = {per_core}"
            )

    def _choose(self, count: int, mask: int | None, reusable: CPUSet) -> CPUSet:
        """First from the NUMA nodes of the hint, then from anywhere."""
        allocatable = self.available | reusable
        result = EMPTY
        if mask is not None:
            aligned = allocatable & self._aligned_to(mask)
            result = self._take(aligned, min(count, len(aligned)))
        return result | self._take(allocatable - result, count - len(result))

    def _aligned_to(self, mask: int) -> CPUSet:
        nodes = [node for node in self.topology.numas if mask >> node & 1]
        if self.options.align_by_socket:
            return self.topology.in_sockets(self.topology.sockets_of(nodes))
        return self.topology.in_numas(nodes)

    def _take(self, available: CPUSet, count: int) -> CPUSet:
        options = self.options
        if options.distribute_numa:
            group = self.topology.cpus_per_core if options.full_pcpus_only else 1
            return take_distributed(
                self.topology, available, count, max(group, 1), spread=options.distribute_cores
            )
        return take_packed(
            self.topology,
            available,
            count,
            spread=options.distribute_cores,
            align_uncore=options.prefer_uncore,
        )

    def _update_reuse(self, pod: Pod, container: Container, cpus: CPUSet) -> None:
        """CPUs of init containers may serve the containers after them; only the last pod is remembered."""
        reusable = self._reuse.get(pod.uid, EMPTY)
        reusable = reusable | cpus if is_init(pod, container) else reusable - cpus
        self._reuse = {pod.uid: reusable}

    # -- pods as a whole ---------------------------------------------------------------------

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Give a pod with resources of its own its CPUs, and share them out. Raises ManagerError.

        Upstream does not look whether the pod has some already (kubernetes/kubernetes#140989).
        """
        count = exclusive_cpus_of_pod(pod, self.features)
        if count == 0 or not managed_as_a_whole(pod, self.features):
            return
        if self.fixes.pods_once and self.state.of_pod(pod.uid) is not None:
            return
        try:
            yield from self._allocate_pod(pod, count)
        except (ManagerError, AssignmentError) as error:
            self.metrics.add("cpu_manager_pinning_errors_total")
            self.metrics.add(
                "resource_manager_allocation_errors_total", resource_name=CPU, source="pod"
            )
            raise error if isinstance(error, ManagerError) else ManagerError(str(error)) from None
        self.metrics.add("resource_manager_allocations_total", resource_name=CPU, source="pod")

    def _allocate_pod(self, pod: Pod, count: int) -> Steps[None]:
        self._check_shared_pool(pod, count)
        if self.options.full_pcpus_only:
            self._check_smt_alignment(count)
        hint = self.affinity.affinity(pod.uid, containers_of(pod)[0].name)
        bubble = self._choose(count, hint.mask, EMPTY)
        yield self._set(self.state.with_default(self.state.default - bubble))
        self._count_exclusive(bubble, 1)
        yield self._set(self.state.with_pod(pod.uid, bubble))
        shares = self._shares(pod, bubble)
        for container in containers_of(pod):
            cpus = shares[container.name]
            yield self._set(self.state.with_cpus(pod.uid, container.name, cpus))

    def _check_shared_pool(self, pod: Pod, count: int) -> None:
        """Containers without CPUs of their own must find some left at any time."""
        sidecars = 0
        shared = False
        for container in pod.spec.init_containers:
            own = exclusive_cpus(pod, container, self.features)
            if is_sidecar(container):
                sidecars += own
                shared = shared or own == 0
            elif own == 0 and count - sidecars <= 0:
                raise EmptyPodSharedPoolError(NO_CPUS_FOR_INIT)
        taken = sidecars
        for container in pod.spec.containers:
            own = exclusive_cpus(pod, container, self.features)
            taken += own
            shared = shared or own == 0
        if shared and taken >= count:
            raise EmptyPodSharedPoolError(NO_CPUS_LEFT)

    def _shares(self, pod: Pod, bubble: CPUSet) -> dict[str, CPUSet]:
        """Return the CPUs of each container of a pod, of the pod's CPUs. Raises AssignmentError."""

        def take(container: Container, pool: CPUSet) -> CPUSet | None:
            own = exclusive_cpus(pod, container, self.features)
            if not own:
                return None
            self.metrics.add("cpu_manager_pinning_requests_total")
            return self._take(pool, own)

        return shares_of(pod, bubble, take, CPUSet.__sub__)

    # -- removal -----------------------------------------------------------------------------

    def remove(self, pod_uid: str, container: str) -> Steps[None]:
        """Take a container's CPUs back, but for those that others of its pod have as well."""
        cpus = self.state.get(pod_uid, container)
        if cpus is None:
            return
        removed = self.state.without(pod_uid, container)
        whole = removed.of_pod(pod_uid)
        siblings = removed.assignments.get(pod_uid, {})
        if whole is not None:
            yield self._set(removed)
            if siblings:
                return
            yield self._set(removed.with_default(removed.default | whole))
            yield self._set(self.state.without_pod(pod_uid))
            self._count_exclusive(whole, -1)
            return
        freed = cpus - union(siblings.values()) if self.fixes.siblings_keep else cpus
        if not self.fixes.one_write:
            yield self._set(removed)
        yield self._set(removed.with_default(removed.default | freed))
        self._count_exclusive(freed, -1)

    # -- hints -------------------------------------------------------------------------------

    @cached_property
    def _choices(self) -> tuple[tuple[Choice, int, int, int], ...]:
        """All choices of NUMA nodes with the CPUs that they have, and how many these are."""
        topology = self.topology
        found = []
        for choice in choices(tuple(topology.numas)):
            cpus = topology.in_numas(nodes_of(choice.mask)).mask
            found.append((choice, choice.size, cpus, cpus.bit_count()))
        return tuple(found)

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        """Return the NUMA nodes that could give a container its CPUs; None when it needs none of its own."""
        count = exclusive_cpus(pod, container, self.features)
        if count == 0 or left_alone(pod, self.features):
            return None
        assigned = self.state.get(pod.uid, container.name)
        if assigned is not None:
            if len(assigned) != count:
                return {CPU: []}
            return {CPU: self._hints(assigned, EMPTY, count)}
        return {CPU: self._hints(self.available, self._reuse.get(pod.uid, EMPTY), count)}

    def pod_topology_hints(self, pod: Pod) -> Hints:
        """Return the NUMA nodes that could give a pod its CPUs; None when it needs none of its own."""
        count = exclusive_cpus_of_pod(pod, self.features)
        if count == 0 or left_alone(pod, self.features):
            return None
        if managed_as_a_whole(pod, self.features):
            try:
                self._check_shared_pool(pod, count)
            except EmptyPodSharedPoolError:
                return {CPU: []}
        assigned = EMPTY
        for container in containers_of(pod):
            cpus = self.state.get(pod.uid, container.name)
            if cpus is not None:
                if len(cpus) != exclusive_cpus(pod, container, self.features):
                    return {CPU: []}
                assigned |= cpus
        if len(assigned) == count:
            return {CPU: self._hints(assigned, EMPTY, count)}
        reusable = self._reuse.get(pod.uid, EMPTY) | assigned
        return {CPU: self._hints(self.available, reusable, count)}

    def _hints(self, available: CPUSet, reusable: CPUSet, count: int) -> list[TopologyHint]:
        free, again = available.mask, reusable.mask
        missing = count - again.bit_count()
        smallest = len(self.topology.numas)
        found = []
        for choice, size, cpus, total in self._choices:
            if total >= count and size < smallest:
                smallest = size
            if again & ~cpus:
                continue
            if (free & cpus).bit_count() >= missing:
                found.append(choice)
        if self.options.align_by_socket:
            sockets = self._sockets_for(smallest)
            return [
                each.preferred
                if each.size == smallest or self._touched(each.mask) == sockets
                else each.plain
                for each in found
            ]
        return [each.preferred if each.size == smallest else each.plain for each in found]

    def _sockets_for(self, nodes: int) -> int | None:
        """The fewest sockets that have this number of NUMA nodes; None when a node spans sockets."""
        if self.topology.num_sockets == 0:
            raise ManagerError(
                "align-by-socket needs a machine that reports sockets (upstream's kubelet panics)"
            )
        per_socket = len(self.topology.numas) // self.topology.num_sockets
        return -(-nodes // per_socket) if per_socket else None

    def _touched(self, mask: int) -> int:
        nodes = [node for node in self.topology.numas if mask >> node & 1]
        return len(self.topology.sockets_of(nodes))

    # -- metrics -----------------------------------------------------------------------------

    def _metrics_at_start(self) -> None:
        self.metrics.set("cpu_manager_shared_pool_size_millicores", 1000 * len(self.available))
        self.metrics.set("cpu_manager_exclusive_cpu_allocation_count", len(self.state.exclusive()))
        self._count_per_numa()

    def _count_exclusive(self, cpus: CPUSet, sign: int) -> None:
        """Counts the full size even of CPUs that were reused, as upstream does: the sums drift."""
        count = sign * len(cpus)
        self.metrics.add("cpu_manager_exclusive_cpu_allocation_count", count)
        self.metrics.add("cpu_manager_shared_pool_size_millicores", -1000 * count)
        self._count_per_numa()
        if sign > 0 and self.topology.aligned_uncore(cpus):
            self._count_aligned("container", "uncore_cache")

    def _count_per_numa(self) -> None:
        """A node that has none any more keeps its last value."""
        for numa, count in self.topology.numa_counts(self.state.exclusive()).items():
            self.metrics.set("cpu_manager_allocation_per_numa", count, numa_node=str(numa))

    def _count_aligned(
        self, scope: str, boundary: str = "physical_cpu", *, failed: bool = False
    ) -> None:
        suffix = "_failure" if failed else ""
        self.metrics.add(
            f"container_aligned_compute_resources{suffix}_count", scope=scope, boundary=boundary
        )
