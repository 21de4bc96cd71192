"""The state of one pod on its node: its object, its phase of life, and its containers as the kubelet knows them.

The parts of a pod's worker (starts, resizes, termination, reports) share one `PodState`. Upstream:
pkg/kubelet/pod_workers.go (podSyncStatus), kuberuntime (computePodActions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from controlplane.api.container_inside import mount_error
from controlplane.api.containers import Container as ContainerSpec
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod.actions import Action, Ended
from controlplane.kubelet.pod.claims import Claims
from controlplane.kubelet.pod.container_runtime import (
    NOT_SEEN,
    READINESS,
    STARTUP,
    Container,
    Durations,
    Exit,
    Sandbox,
    Seen,
)
from controlplane.kubelet.pod.mounting import Retry, Volumes
from controlplane.kubelet.pod.pleg import PodCache
from controlplane.kubelet.pod.preemption import is_static
from controlplane.kubelet.pod.prober import Results
from controlplane.kubelet.pod.references import Find, anywhere, environment_error
from controlplane.kubelet.pod.restarts import BackOff, may_restart
from controlplane.kubelet.pod.status import APP, EPHEMERAL, INIT, SIDECAR
from controlplane.kubelet.pod.tokens import Tokens
from controlplane.sharing.compact import compact

if TYPE_CHECKING:
    from controlplane.api.containers import EphemeralContainer
    from controlplane.api.pod import Pod
    from controlplane.kubelet.pod.resizing import Resizing
    from controlplane.shell.running import Life

SYNC: Final = "sync"
TERMINATING: Final = "terminating"
TERMINATED: Final = "terminated"
FINISHED: Final = "finished"

RETRY: Final = 10 * SECOND
"""The delay of the next sync after one that failed."""


def _any_cpus(_uid: str, _container: str) -> tuple[str, bool]:
    return "", False


def _no_life(_pod: Tree, _container: str, _id: str, _now: int) -> Life | None:
    return None


def _no_error(_pod: Pod) -> str:
    return ""


def _anything(_resource: str, _name: str) -> Tree:
    return {}


@attrs.frozen
class PodServices:
    """The parts of a kubelet that the workers of its pods use.

    Args:
        durations: the time that things take, in nanoseconds.
        cache: the kubelet's knowledge of containers.
        host_ip: the node's address.
        find: by namespace, the lookup of objects that pods name.
        cpus: by pod uid and container, the CPUs on which it is made to run, and whether they are its own.
        probes: results of probes.
        resizing: resizes in place; None: there are none.
        volumes: the volume manager of the node's CSI drivers, if it has any.
        tokens: the tokens of service accounts in volumes; None: there are none.
        claims: the manager of claims; None where the kubelet does not prepare any.
        execute: runs the program of a container (pod, name, id of the run, time); None where the emulated shell does
            not know it.
        services_error: why the variables of Services of a pod's containers are not known, "" if they are.
        tracks_generation: the status tells which generation of the pod it is of.
        terminal_first: a pod that has ended before its first sync goes through termination like others.
    """

    durations: Durations
    cache: PodCache
    host_ip: str = ""
    tracks_generation: bool = True
    find: Callable[[str], Find] = lambda _namespace: _anything
    cpus: Callable[[str, str], tuple[str, bool]] = _any_cpus
    probes: Results = attrs.field(factory=Results)
    resizing: Resizing | None = None
    volumes: Volumes | None = None
    tokens: Tokens | None = None
    claims: Claims | None = None
    devices: Callable[[str, str], Sequence[Tree]] | None = None
    terminal_first: bool = False
    execute: Callable[[Tree, str, str, int], Life | None] = _no_life
    services_error: Callable[[Pod], str] = _no_error


@attrs.define
class ContainerState:
    """The kubelet's memory of one container; the runtime's is `container`, its last report `seen`."""

    spec: ContainerSpec
    role: str
    container: Container
    seen: Seen = NOT_SEEN
    stage: str = ""
    """"pull" or "start" while the container is being brought up."""
    due: int | None = None
    back_off: BackOff | None = None
    """Of one that has ended before."""
    waits_until: int | None = None
    pull_ns: int = 0
    asked_to_stop: bool = False
    restarts: bool = False
    """The container is killed so that it starts anew."""
    unmade: Retry | None = None
    """The reason why it could not be made, until it is."""

    @property
    def running(self) -> bool:
        """As far as is known."""
        return self.seen.running_since is not None

    @property
    def runs(self) -> bool:
        """In the runtime."""
        return self.container.running_since is not None

    def take_truth(self, actions: list[Action]) -> None:
        """Ask the runtime itself for the result of a killed container: the pod cache only learns of it later."""
        was_running = self.running
        self.seen = self.container.seen()
        if was_running and not self.running:
            actions.append(Ended(self.seen.container_id))


class PodState:
    """One pod: the object that the worker goes by, its phase of life, its sandbox and its containers."""

    __slots__ = ("containers", "find", "is_static", "phase", "pod", "sandbox", "services")

    def __init__(self, pod: Pod, sandbox: Sandbox, services: PodServices) -> None:
        self.pod = pod
        self.phase = SYNC
        self.is_static = is_static(pod)
        self.sandbox = sandbox
        self.services = services
        self.find = services.find(pod.namespace)
        self.containers = self._make_containers()

    def _make_containers(self) -> dict[str, ContainerState]:
        spec = self.pod.spec
        of_job = any(owner.kind == "Job" for owner in self.pod.metadata.owner_references)
        states: dict[str, ContainerState] = {}
        containers = dict(self.sandbox.containers)
        for item in (*spec.init_containers, *spec.containers):
            role = APP
            if len(states) < len(spec.init_containers):
                role = SIDECAR if item.restart_policy == "Always" else INIT
            container = containers.get(item.name)
            if container is None:
                ends = role == INIT or (role == APP and of_job)
                durations = self.services.durations
                program = runtime.program(self.pod, item.name, ends=ends, durations=durations)
                container = Container(item.name, item.image, program)
                containers[item.name] = container
            states[item.name] = ContainerState(item, role, container)
        for added in spec.ephemeral_containers:
            states[added.name] = self._ephemeral(added, containers)
        self.sandbox.containers = compact(containers)
        return compact(states)

    def _ephemeral(
        self, item: EphemeralContainer, containers: dict[str, Container]
    ) -> ContainerState:
        """The state of an ephemeral container, which `containers` of the runtime has or gets."""
        container = containers.get(item.name)
        if container is None:
            durations = self.services.durations
            program = runtime.program(self.pod, item.name, ends=False, durations=durations)
            container = containers[item.name] = Container(item.name, item.image, program)
        spec = ContainerSpec(name=item.name, image=item.image)
        return ContainerState(spec, EPHEMERAL, container)

    def take_ephemeral(self) -> None:
        """Take in ephemeral containers that were added to the pod's spec."""
        added = [
            each for each in self.pod.spec.ephemeral_containers if each.name not in self.containers
        ]
        if added:
            containers = dict(self.sandbox.containers)
            states = {each.name: self._ephemeral(each, containers) for each in added}
            self.sandbox.containers = compact(containers)
            self.containers = compact({**self.containers, **states})

    @property
    def uid(self) -> str:
        """The pod's uid: workers are known by it, not by name."""
        return self.sandbox.uid

    @property
    def full_name(self) -> str:
        """The pod's name as upstream's messages have it."""
        return f"{self.pod.name}_{self.pod.namespace}({self.uid})"

    def take_in(self, entry: Mapping[str, Seen], actions: list[Action], *, first: bool) -> None:
        """Take over an entry of the pod cache. `first`: for the first sync."""
        for name, state in self.containers.items():
            seen = entry.get(name, NOT_SEEN)
            if seen == state.seen:
                continue
            ended = state.seen.container_id
            if state.running and (seen.running_since is None or seen.container_id != ended):
                actions.append(Ended(ended))
            elif not first and seen.exit is not None and not state.running:
                actions.append(Ended(seen.container_id))  # it came and went between two relists
            state.seen = seen

    # -- containers ------------------------------------------------------------------------------

    def runs(self, name: str) -> bool:
        """Return whether a container runs, as far as is known."""
        return self.containers[name].running

    def started(self, state: ContainerState) -> bool:
        """Return whether a container runs and its startup probe, if any, has succeeded."""
        if not state.running:
            return False
        if state.spec.startup_probe is None:
            return True
        return self.services.probes.get(STARTUP, state.seen.container_id) is True

    def ready(self, state: ContainerState) -> bool:
        """Return whether a container counts as ready."""
        if not self.started(state) or state.role in (INIT, EPHEMERAL):
            return False
        if state.spec.readiness_probe is None:
            return state.container.program.ready
        return self.services.probes.get(READINESS, state.seen.container_id) is True

    def initialized(self, state: ContainerState) -> bool:
        """Return whether an init container lets the next one start."""
        if state.role == SIDECAR:
            return self.started(state) or self.any_app_started()
        ended = state.seen.exit
        return ended is not None and ended.exit_code == 0

    def any_app_started(self) -> bool:
        """Return whether an app container was ever started."""
        return any(
            state.seen.attempt >= 0 for state in self.containers.values() if state.role == APP
        )

    def may_restart(self, state: ContainerState, ended: Exit) -> bool:
        """Return whether a container would be started again after this end."""
        if state.role == EPHEMERAL or (state.role == INIT and ended.exit_code == 0):
            return False
        policy = self.pod.spec.restart_policy or "Always"
        return may_restart(state.spec, state.role, policy, ended.exit_code)

    def unmakeable(self, state: ContainerState) -> bool:
        """Return whether making a container would fail as it did before."""
        before = "" if state.unmade is None else state.unmade.error
        return bool(before) and self.config_error(state.spec.name) == before

    def config_error(self, name: str) -> str:
        """Return why a container cannot be made, "" if it can: its devices are looked up first."""
        claims = self.services.claims
        error = "" if claims is None else claims.devices_error(self.pod, name)
        return (
            error
            or self.services.services_error(self.pod)
            or environment_error(self.pod, name, self.find)
            or mount_error(self.addressed(), name, anywhere(self.find))
        )

    def addressed(self) -> Tree:
        """Return the pod's tree with the addresses that the kubelet knows: programs ask for them."""
        return addressed(self.pod.tree, self.services.host_ip, self.sandbox.ip)


def addressed(pod: Tree, host: str, own: str) -> Tree:
    """Return the tree of a pod with the addresses of its node and its own."""
    known = {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": own, "podIPs": [{"ip": own}]}
    return {**pod, "status": {**(pod.get("status") or {}), **known}}
