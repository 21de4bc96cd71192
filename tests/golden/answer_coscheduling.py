"""Groups of pods that wait for each other, step by step."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.times import SECOND, parse_time
from controlplane.scheduler.community.coscheduling import Coscheduling
from controlplane.scheduler.community.objects import Objects
from controlplane.scheduler.framework.cycle_state import PODS_TO_ACTIVATE, CycleState
from controlplane.scheduler.framework.interface import Code, NodeToStatus
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.framework.waiting import WaitingPod
from controlplane.scheduler.state.pod_info import PodInfo
from tests.golden.scheduler_world import World, status_json

Case = dict[str, Any]
LATER = 100 * 86400 * SECOND
"""The times of pods were moved to the time of the run, those of groups were not."""


def answer(case: Case) -> Case:
    """The answer for one case of `coscheduling`."""
    machine = _Machine(case)
    made: Case = {"steps": [machine.step(each) for each in case["ops"]]}
    waiting = sorted(each.pod.key for each in machine.handle.waiting_pods.values())
    return {**made, **({"stillWaiting": waiting} if waiting else {})}


class _Machine:
    """The plugin of a case, and the pods that wait."""

    def __init__(self, case: Case) -> None:
        self.world = World(case)
        self.world.update_snapshot()
        self.handle = self.world.handle
        self.now = parse_time(case["now"]) + LATER
        self.handle.clock = lambda: self.now
        self.plugin = Coscheduling(
            case.get("args"), self.handle, Objects(case.get("podGroups", ()))
        )
        self.pods = {pod.key: pod for pod in map(Pod.from_tree, case["pods"])}
        self.states: dict[str, CycleState] = {}
        self.active: dict[str, dict[str, None]] = {}

    def step(self, op: Case) -> Case:
        """Run one operation; what it shows."""
        self.now += 1
        made: Case = getattr(self, op["op"])(op) or {}
        waiting = self.handle.waiting_pods
        decided = {uid: each for uid, each in waiting.items() if each.is_decided}
        for uid in decided:
            del waiting[uid]
        if decided:
            made["decided"] = {e.pod.key: status_json(e.status) for e in decided.values()}
        return made

    def addPod(self, op: Case) -> None:  # the operations have the names of the cases
        pod = Pod.from_tree(op["object"])
        self.pods[pod.key] = pod
        self.world.pods.put(pod)

    def removePod(self, op: Case) -> None:
        self.world.pods.remove(*op["pod"].split("/"))

    def preFilter(self, op: Case) -> Case:
        state = self.states[op["pod"]] = CycleState(self.now)
        self.active[op["pod"]] = {}
        _, status = self.plugin.pre_filter(state, self.pods[op["pod"]], ())
        return {"status": status_json(status)}

    def _permit(self, op: Case) -> tuple[Any, int]:
        state = self.states.setdefault(op["pod"], CycleState(self.now))
        status, timeout = self.plugin.permit(state, self.pods[op["pod"]], op["node"])
        found = self.active.get(op["pod"])
        if found is not None:
            found.update(dict.fromkeys(state.read(PODS_TO_ACTIVATE) or ()))
        return status, timeout

    def permit(self, op: Case) -> Case:
        status, timeout = self._permit(op)
        pod, made = self.pods[op["pod"]], {"status": status_json(status)}
        active = sorted(self.active.get(op["pod"], ()))
        if active:
            made["activate"] = active
        if status is not None and status.code == Code.WAIT:
            waiting = WaitingPod(pod, {self.plugin.name: timeout}, self.now, lambda: None)
            self.handle.waiting_pods[pod.uid] = waiting
            told = f'one or more plugins asked to wait and no plugin rejected pod "{pod.name}"'
            made["status"]["reasons"] = [told]
            made["pendingPlugins"] = waiting.pending_plugins
        return made

    def permitTimeout(self, op: Case) -> Case:
        status, timeout = self._permit(op)
        return {"status": status_json(status), "timeoutSeconds": timeout // SECOND}

    def unreserve(self, op: Case) -> None:
        self.plugin.unreserve(CycleState(self.now), self.pods[op["pod"]], op["node"])

    def postFilter(self, op: Case) -> Case:
        plugin, pod = self.plugin, self.pods[op["pod"]]
        _, status = plugin.post_filter(CycleState(self.now), pod, NodeToStatus(), None)  # type: ignore[arg-type]
        return {"status": status_json(status)}

    def less(self, op: Case) -> Case:
        infos = []
        for key in (op["pod"], op["node"]):
            pod = self.pods[key]
            at = parse_time(pod.tree["metadata"]["creationTimestamp"]) + LATER
            infos.append(QueuedPodInfo(PodInfo(pod), at, initial_attempt_timestamp=at))
        return {"less": self.plugin.less(*infos)}
