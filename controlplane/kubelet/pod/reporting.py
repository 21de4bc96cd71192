"""Reports of a pod's status: its containers as the kubelet sees them, and its reasons to end the pod.

Upstream: pkg/kubelet/kubelet_pods.go (generateAPIPodStatus, convertToAPIContainerStatuses).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from controlplane.api.durations import format_duration
from controlplane.kubelet.allocation.state import container_trees
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod import status
from controlplane.kubelet.pod.actions import Action, SetStatus
from controlplane.kubelet.pod.container_runtime import NOT_SEEN, Exit
from controlplane.kubelet.pod.pod_state import SYNC, TERMINATED, ContainerState, PodState
from controlplane.kubelet.pod.status import (
    APP,
    EPHEMERAL,
    INIT,
    SIDECAR,
    Condition,
    ContainerReport,
    Observed,
    ResizeReport,
)
from controlplane.sharing.alike import alike_list

if TYPE_CHECKING:
    from controlplane.api.tree import Tree

_GONE: Final = "The container could not be located when the pod was terminated"


class StatusReports:
    """Tells the status of one pod whenever it changed.

    `reported` is the status told last; `override` sets phase and reason of a pod that the node itself ends, and
    `extra` is a condition that goes with it. `silent`: the object is gone, nothing is told any more.
    """

    __slots__ = ("_final", "_state", "extra", "override", "reported", "silent", "start_time")

    def __init__(self, state: PodState, start_time: int, reported: Tree | None) -> None:
        self._state = state
        self._final = False
        self.start_time = start_time
        self.reported = reported
        self.override: Mapping[str, str] | None = None
        self.extra: tuple[Condition, ...] = ()
        self.silent = False

    @property
    def ended(self) -> bool:
        """Return whether the status told last is that of a pod that has ended."""
        return (self.reported or {}).get("phase") in status.TERMINAL

    def containers(self) -> list[ContainerReport]:
        """Return the containers as the kubelet sees them."""
        state = self._state
        initialized = all(
            state.initialized(each)
            for each in state.containers.values()
            if each.role in (INIT, SIDECAR)
        )
        promised = self._promises()
        gone = self._final and state.any_app_started()
        return [
            self._container(each, promised(each.spec.name), initialized=initialized, gone=gone)
            for each in state.containers.values()
        ]

    def _container(
        self, each: ContainerState, promised: Tree | None, *, initialized: bool, gone: bool
    ) -> ContainerReport:
        state = self._state
        seen, ended = each.seen, each.seen.exit
        waiting, message, previous = "", "", seen.previous
        restarts = ended is not None and state.may_restart(each, ended)
        if not each.running and state.phase == SYNC and (ended is None or restarts):
            if ended is None:
                waiting = "ContainerCreating"
                if state.pod.spec.init_containers and (each.role != APP or not initialized):
                    waiting = "PodInitializing"
            if each.unmade is not None:
                waiting, message = "CreateContainerConfigError", each.unmade.error
                previous, ended = ended or previous, None
            elif each.waits_until is not None and ended is not None:
                waiting, previous, ended = "CrashLoopBackOff", ended, None
                assert each.back_off is not None
                message = (
                    f"back-off {format_duration(each.back_off.delay)} restarting failed "
                    f"container={each.spec.name} pod={state.full_name}"
                )
        if gone and ended is None and each.role != EPHEMERAL:
            ended = Exit(runtime.KILLED, "ContainerStatusUnknown", 0, 0, "", _GONE)
        given = seen.resources if each.running else None
        return ContainerReport(
            name=each.spec.name,
            image=each.spec.image,
            role=each.role,
            running_since=seen.running_since,
            exit=ended,
            previous=previous,
            waiting=waiting,
            waiting_message=message,
            ready=state.ready(each),
            started=state.started(each),
            restart_count=max(0, seen.attempt),
            container_id=seen.container_id,
            image_id=runtime.image_id(each.spec.image) if seen.attempt >= 0 else "",
            may_restart=restarts,
            resources=promised if given is None else given or None,
            allocated=promised,
            devices=self._devices(each),
        )

    def _devices(self, each: ContainerState) -> tuple[Tree, ...]:
        """Return the devices of a container with their health: those of plugins, then those of claims."""
        state, services = self._state, self._state.services
        if each.role != APP:
            return ()
        found: list[Tree] = []
        if services.devices is not None:
            found += services.devices(state.uid, each.spec.name)
        if services.claims is not None:
            found += services.claims.resource_statuses(state.pod, each.spec.name)
        return tuple(found)

    def _promises(self) -> Callable[[str], Tree | None]:
        """Return the resources allocated to each container by now, by its name."""
        state, resizing = self._state, self._state.services.resizing
        known = None if resizing is None else resizing.allocation(state.uid)
        allocated = {} if known is None else known.containers
        trees = container_trees(state.pod)
        return lambda name: allocated.get(name) or trees.get(name, {}).get("resources") or None

    def report(self, now: int, actions: list[Action], *, stopped: bool = False) -> None:
        """Tell the status, if it differs from the last one. `stopped`: nothing runs any more."""
        if self.silent:
            return
        state, pod = self._state, self._state.pod
        last = state.phase == TERMINATED
        anew = last and self.reported is None and pod.status.phase in status.TERMINAL
        if anew and all(each.seen == NOT_SEEN for each in state.containers.values()):
            return
        override = self.override
        self._final = last
        reports = self.containers()
        # A static pod may be started again under its uid.
        ends = (stopped or last) and not state.is_static
        if last and not override and not state.is_static:
            found = status.phase(reports, terminating=ends)
            if found not in status.TERMINAL:
                override = {"phase": status.FAILED}
        stands = state.sandbox.ready(now)
        # After a restart the kubelet finds a sandbox that was stopped, which has no address any more.
        has_address = stands and (not anew or pod.spec.host_network)
        observed = Observed(
            start_time=self.start_time,
            sandbox_ready=stands and not stopped and not last,
            ip=state.sandbox.ip if has_address else "",
            host_ip=state.services.host_ip,
            terminating=ends,
        )
        tree = status.build(
            pod,
            reports,
            observed,
            now=now,
            before=self._before(),
            override=override,
            extra=self.extra,
            resize=self._resize(),
            tracks_generation=state.services.tracks_generation,
        )
        if tree != self.reported:
            self.reported = tree
            actions.append(SetStatus(state.uid, tree))

    def _resize(self) -> ResizeReport | None:
        state, resizing = self._state, self._state.services.resizing
        if resizing is None:
            return None
        return ResizeReport(
            resizing.trees(state.uid),
            resizing.whole(state.pod),
            resizing.promised_whole(state.pod),
        )

    def _before(self) -> Tree | None:
        """Return the last reported status, with the conditions that others set meanwhile."""
        if self.reported is None:
            return None
        current: Sequence[Tree] = (self._state.pod.tree.get("status") or {}).get("conditions") or ()
        foreign = [item for item in current if item["type"] not in status.OWN_CONDITIONS]
        own = [
            item
            for item in self.reported.get("conditions") or ()
            if item["type"] in status.OWN_CONDITIONS
        ]
        return self.reported | {"conditions": alike_list([*foreign, *own])}
