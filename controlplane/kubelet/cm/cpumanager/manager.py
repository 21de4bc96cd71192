"""The CPU manager: a policy with its state, the active pods, and the CPUs of each container.

Upstream: pkg/kubelet/cm/cpumanager/cpu_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import CPU
from controlplane.api.quantity import Quantity
from controlplane.api.validation import quote
from controlplane.decisions import Write
from controlplane.kubelet.cm.cpumanager.policy_static import NAME as STATIC
from controlplane.kubelet.cm.cpumanager.policy_static import Affinity, StaticPolicy
from controlplane.kubelet.cm.cpumanager.state import FILE, Containers, CPUState, restore
from controlplane.kubelet.cm.cpumanager.topology import TopologyError, discover
from controlplane.kubelet.cm.cpuset import EMPTY, CPUSet
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.requests import containers_of
from controlplane.kubelet.cm.resource_manager import KubeletView, NonePolicy, ResourceManager
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.machine import Machine

NONE: Final = "none"
STALE_REMOVED: Final = "kubelet.cpu_manager.stale_state_removed"
"""The point between removing stale state, under the lock, and taking the lock again."""


class NoExclusiveCPUs(NonePolicy[CPUState]):
    """The policy "none"."""

    def __init__(self) -> None:
        super().__init__(NONE, CPUState(NONE))
        self.reserved = EMPTY
        self.allocatable = EMPTY


@attrs.frozen
class Update:
    """A running container that is to run on other CPUs."""

    pod_uid: str
    container: str
    container_id: str
    cpus: CPUSet


class CPUManager(ResourceManager[CPUState]):
    """Operations are decisions: see `controlplane.decisions`."""

    STALE_REMOVED = STALE_REMOVED

    def __init__(
        self,
        machine: Machine,
        policy: str,
        affinity: Affinity,
        view: KubeletView,
        *,
        options: Mapping[str, str] | None = None,
        reservation: Mapping[str, Quantity] | None = None,
        reserved_cpus: CPUSet = EMPTY,
    ) -> None:
        """`reservation` is kept back by node allocatable. Raises ManagerError."""
        super().__init__(view)
        self.last_applied: dict[tuple[str, str], CPUSet] = {}
        self.policy: NoExclusiveCPUs | StaticPolicy
        if policy == NONE:
            if options:
                shown = " ".join(f"{name}:{value}" for name, value in sorted(options.items()))
                raise ManagerError(
                    f"new none policy error: None policy: received unsupported options=map[{shown}]"
                )
            self.policy = NoExclusiveCPUs()
        elif policy == STATIC:
            self.policy = self._static(
                machine, affinity, options or {}, reservation or {}, reserved_cpus
            )
        else:
            raise ManagerError(f"unknown policy: {quote(policy)}")

    def _static(
        self,
        machine: Machine,
        affinity: Affinity,
        options: Mapping[str, str],
        reservation: Mapping[str, Quantity],
        reserved: CPUSet,
    ) -> StaticPolicy:
        try:
            topology = discover(machine)
        except TopologyError as error:
            raise ManagerError(str(error)) from None
        amount = reservation.get(CPU)
        if amount is None:
            raise ManagerError(
                "[cpumanager] unable to determine reserved CPU resources for static policy"
            )
        if amount.is_zero():
            raise ManagerError(
                "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to "
                "be greater than zero"
            )
        count = -(-amount.milli_value() // 1000)
        try:
            return StaticPolicy(
                topology,
                count,
                reserved,
                affinity,
                options,
                self.features,
                self.view.metrics,
                self.view.fixes,
            )
        except ManagerError as error:
            raise ManagerError(f"new static policy error: {error}") from None

    @property
    def assigned(self) -> Mapping[str, Mapping[str, CPUSet]]:
        """The exclusive CPUs by pod uid and container."""
        return self.state.assignments

    def start(self, text: str | None, containers: Containers | None = None) -> Steps[None]:
        """Begin with the checkpoint file, None when there is none. Raises ManagerError.

        `containers` are those that the runtime knows, for files of the oldest format.
        """
        with_pods = self.features.enabled("PodLevelResourceManagers")
        known = containers or {}
        for container_id, (pod_uid, name) in known.items():
            self.containers.add(pod_uid, name, container_id)
        if text is None:
            state = CPUState(self.policy.name, pods={} if with_pods else None)
            yield Write(FILE, state)
        else:
            state = restore(text, self.policy.name, known, pod_entries=with_pods)
        yield from self.policy.start(state)

    def add_container(self, pod_uid: str, container: str, container_id: str) -> None:
        """A container was made: its CPUs were set if it has exclusive ones."""
        self.containers.add(pod_uid, container, container_id)
        cpus = self.state.get(pod_uid, container)
        if cpus is not None:
            self.last_applied[pod_uid, container] = cpus

    def affinity_of(self, pod_uid: str, container: str) -> CPUSet:
        """The CPUs that a container runs on; empty means that none are set."""
        return self.state.get_or_default(pod_uid, container)

    def remove(self, pod_uid: str, container: str) -> Steps[None]:
        """Take a container's CPUs back."""
        yield from super().remove(pod_uid, container)
        self.last_applied.pop((pod_uid, container), None)

    def updates(self, running: Callable[[Pod, str], str | None]) -> list[Update]:
        """Return the changes that a pass of the reconcile loop makes, after stale state was removed.

        `running` tells the id of the running container of a name, None when none runs, from the
        status manager's picture of the pod. The caller that applied an update calls `applied`.
        """
        found = []
        for pod in self.view.active_pods():
            for container in containers_of(pod):
                container_id = running(pod, container.name)
                if container_id is None:
                    continue
                self.containers.add(pod.uid, container.name, container_id)
                cpus = self.affinity_of(pod.uid, container.name)
                if cpus and cpus != self.last_applied.get((pod.uid, container.name)):
                    found.append(Update(pod.uid, container.name, container_id, cpus))
        return found

    def applied(self, update: Update) -> None:
        """A container runs on other CPUs now."""
        self.last_applied[update.pod_uid, update.container] = update.cpus
