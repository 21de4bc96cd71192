"""Starting containers: which are next, the pull of an image, and the delay after crashes.

Images are pulled and containers started one after the other. Upstream: kuberuntime (computePodActions,
startContainer, doBackOff).
"""

from __future__ import annotations

from collections import deque

from controlplane.api.durations import format_duration
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod.actions import Action, Event, Made
from controlplane.kubelet.pod.mounting import Retry
from controlplane.kubelet.pod.pod_state import RETRY, ContainerState, PodState
from controlplane.kubelet.pod.restarts import BackOff
from controlplane.kubelet.pod.status import APP, EPHEMERAL


class ContainerStarts:
    """Brings the containers of one pod up that a sync has to start."""

    __slots__ = ("_plan", "_state", "look_again_at")

    def __init__(self, state: PodState) -> None:
        self._state = state
        self._plan: deque[ContainerState] | None = None
        self.look_again_at: int | None = None
        """The time of the next sync after one that failed."""

    @property
    def planned(self) -> bool:
        """Return whether the sync under way has decided which containers it starts."""
        return self._plan is not None

    def forget(self) -> None:
        """A sync begins, or ends: nothing is decided."""
        self._plan = None

    def plan(self, now: int) -> None:
        """Decide which containers this sync starts."""
        self._plan = deque(self._to_start(now))
        for each in self._state.containers.values():
            if each.waits_until is not None and each.waits_until <= now:
                each.waits_until = None

    def advance(self, now: int, actions: list[Action]) -> bool:
        """Start one container after the other; return whether all that can be started were."""
        while self._plan:
            each = self._plan[0]
            if each.stage:
                if each.due is None or each.due > now:
                    return False
                self._bring_up(each, now, actions)
                if not each.stage:  # it runs, or cannot be made
                    self._plan.popleft()
            elif not self._begin(each, now, actions):
                self._plan.popleft()
        return True

    def timers(self, now: int) -> list[int | None]:
        """Return the times at which a sync would find something to start."""
        times = [self.look_again_at]
        for each in self._state.containers.values():
            times.append(each.waits_until)
            if each.unmade is not None and not self._state.unmakeable(each):
                times.append(each.unmade.armed(now))
        return times

    def only_recurs(self) -> bool:
        """Return whether all that waits is the next of a container's ever same restarts."""
        if self.look_again_at is not None:
            return False
        every = self._state.containers.values()
        return all(
            each.unmade is None and (each.waits_until is None or each.container.recurs)
            for each in every
        )

    def _to_start(self, now: int) -> list[ContainerState]:
        """Return the next init container, or all others that do not run; sidecars in their turn.

        Ephemeral containers come first, and do not wait for init containers: they serve to find out why those fail.
        """
        state = self._state
        every = state.containers.values()
        found = [each for each in every if each.role == EPHEMERAL and self._wants_start(each, now)]
        for each in every:
            if each.role in (APP, EPHEMERAL):
                continue
            if self._wants_start(each, now):
                found.append(each)
            if not state.initialized(each):
                return found
        apps = [each for each in state.containers.values() if each.role == APP]
        return found + [each for each in apps if self._wants_start(each, now)]

    def _wants_start(self, each: ContainerState, now: int) -> bool:
        if each.restarts:
            return True
        if each.running:
            return False
        if each.unmade is not None and not each.unmade.due(now):
            return False
        ended = each.seen.exit
        return ended is None or self._state.may_restart(each, ended)

    def _begin(self, each: ContainerState, now: int, actions: list[Action]) -> bool:
        """Begin to pull, unless the container is held back after crashes; return which."""
        ended = each.seen.exit
        if ended is not None and not each.restarts:
            back_off = each.back_off = each.back_off or BackOff()
            until = back_off.held_until(ended.finished_at, now)
            if until is not None:
                if each.waits_until != until:
                    each.waits_until = until
                    pod = self._state.full_name
                    message = f"Back-off restarting failed container {each.spec.name} in pod {pod}"
                    actions.append(Event("Warning", "BackOff", message, each.spec.name))
                    self._look_again(now)
                return False
            back_off.next(ended.finished_at, now)
        each.waits_until = None
        durations = self._state.services.durations
        takes = 0 if each.unmade is not None else durations(runtime.PULL, each.spec.name)
        name = each.spec.image
        if takes:
            actions.append(Event("Normal", "Pulling", f'Pulling image "{name}"', each.spec.name))
        each.stage = runtime.PULL
        each.pull_ns = takes
        each.due = now + takes
        return True

    def _bring_up(self, each: ContainerState, now: int, actions: list[Action]) -> None:
        """Take the step after the one that just ended: pulled -> created -> running."""
        state, services = self._state, self._state.services
        name = each.spec.name
        assert each.due is not None
        if each.stage == runtime.PULL:
            actions.append(Event("Normal", "Pulled", _pulled(each.spec.image, each.pull_ns), name))
            error = state.config_error(name)
            if error:
                each.stage, each.due = "", None
                each.unmade = Retry(error, now + RETRY, RETRY, RETRY)
                self._look_again(now)
                actions.append(Event("Warning", "Failed", f"Error: {error}", name))
                return
            each.stage = runtime.START
            each.due = now + services.durations(runtime.START, name)
            return
        each.stage = ""
        each.due = None
        each.restarts = False
        each.unmade = None
        if services.resizing is not None and each.role != EPHEMERAL:
            each.container.resources = services.resizing.create(state.pod, name)
        each.container.cpus, each.container.exclusive = services.cpus(state.uid, name)
        life = None
        if not runtime.is_described(state.pod, name):
            following = runtime.container_id(state.uid, name, each.container.attempt + 1)
            life = services.execute(state.addressed(), name, following, now)
        each.container.start(state.uid, now, life)
        actions.append(Made(name, each.container.container_id))
        actions.append(Event("Normal", "Created", "Container created", name))
        actions.append(Event("Normal", "Started", "Container started", name))

    def _look_again(self, now: int) -> None:
        """A sync failed: the next one shows why, and tries again."""
        self.look_again_at = now + RETRY


def _pulled(image: str, took_ns: int) -> str:
    if not took_ns:
        return f'Container image "{image}" already present on machine'
    took = format_duration(took_ns)
    return (
        f'Successfully pulled image "{image}" in {took} ({took} including waiting). '
        "Image size: 0 bytes."
    )
