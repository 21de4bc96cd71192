"""Notice nodes that failed under workloads with topology assignments.

A Workload gets the node into `unhealthyNodes`, so that the scheduler finds another place for its pods; one that lost
a second node meanwhile is evicted. Follows `pkg/controller/tas/node_controller.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.taints import blocks_scheduling, tolerated
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.client.errors import ApiError, RequestFailed, is_not_found
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Done,
    Emit,
    MergePatch,
    Reader,
    ReconcileError,
)
from controlplane.kueue.names import ADMISSION_MANAGER
from controlplane.kueue.placement.pods import (
    is_admitted_to_domains,
    is_over,
    is_placed,
    node_named_by,
    pods_of,
    waits_for_domain,
    workload_of,
)
from controlplane.kueue.topology.assignment import assignment_of, ends_at_nodes
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_evict import prepare_eviction
from controlplane.kueue.workload.status_patch import admission_patch

if TYPE_CHECKING:
    from controlplane.api.constraints import Taint, Toleration
    from controlplane.api.tree import Tree
    from controlplane.kueue.gates import Gates

PATIENCE: Final = 30 * SECOND
"""The time for which a node may be not ready (NodeFailureDelay)."""
BATCH: Final = SECOND // 10
TERMINATED: Final = "Pod terminated by Kueue NodeController due to node taint"
Steps = Generator[Any, Any, None]


@frozen
class NodeFailures:
    """Reconciles nodes.

    Args:
        reader: Informer caches.
        gates: Kueue's feature gates.
        clock: The present time, nanoseconds.
    """

    reader: Reader
    gates: Gates
    clock: Callable[[], int]

    # -- events ------------------------------------------------------------------------------------

    def concerns(self, old: Tree | None, new: Tree | None) -> bool:
        """Return whether a changed node has to be looked at."""
        if not self.gates.enabled("TASFailedNodeReplacement"):
            return False
        if old is None or new is None or _is_ready(old) != _is_ready(new):
            return True
        taints = [(each.get("spec") or {}).get("taints") or [] for each in (old, new)]
        return self.gates.enabled("TASReplaceNodeOnNodeTaints") and taints[0] != taints[1]

    @staticmethod
    def nodes_of(pod: Tree) -> list[str]:
        """The nodes to look at because a pod changed: it waits for one, or leaves one."""
        if not is_placed(pod):
            return []
        node = (pod.get("spec") or {}).get("nodeName") or ""
        if not node:
            named = node_named_by(pod)
            return [named] if named else []
        leaves = pod["metadata"].get("deletionTimestamp") or is_over(pod)
        return [node] if leaves else []

    # -- reconcile ---------------------------------------------------------------------------------

    def reconcile(self, name: str) -> Generator[Any, Any, Done]:
        """Look at one node."""
        node = self.reader.get("Node", "", name)
        ready = None if node is None else _ready_condition(node)
        expired = False
        if ready is not None and ready.get("status") != "True":
            left = PATIENCE - (self.clock() - parse_time(ready["lastTransitionTime"]))
            expired = left <= 0
            if not expired and not self.gates.enabled("TASReplaceNodeOnPodTermination"):
                return Done(left)
        affected = self._workloads_on(name)
        if node is None or ready is None:
            yield from self._failed(name, affected)
            return Done()
        if expired and self.gates.enabled("TASReplaceNodeDueToNotReadyOverFixedTime"):
            evicted = yield from self._failed(name, affected)
            affected = [key for key in affected if key not in evicted]
        waiting = self._pods_sent_to(name)
        affected += [key for key in waiting if key not in affected and self._still_runs(key)]
        yield from self._look(name, node, affected, waiting)
        return Done()

    def _workloads_on(self, node: str) -> list[str]:
        """The keys of running workloads that have the node in their assignments."""
        return [
            status.key_of(each)
            for each in self.reader.list("Workload")
            if is_admitted_to_domains(each) and _runs(each) and _assigned_to(each, node)
        ]

    def _pods_sent_to(self, node: str) -> dict[str, list[Tree]]:
        """The placed pods whose node selector names the node, by workload."""
        found: dict[str, list[Tree]] = {}
        for pod in self.reader.list("Pod"):
            name = workload_of(pod)
            if name is not None and node_named_by(pod) == node:
                namespace = pod["metadata"].get("namespace", "")
                found.setdefault(f"{namespace}/{name}", []).append(pod)
        return found

    def _still_runs(self, key: str) -> bool:
        workload = self._workload(key)
        return workload is not None and _runs(workload)

    def _workload(self, key: str) -> Tree | None:
        return self.reader.get("Workload", *key.split("/", 1))

    def _look(
        self, name: str, node: Tree, keys: Sequence[str], waiting: dict[str, list[Tree]]
    ) -> Steps:
        """Decide for each workload whether the node has failed it."""
        failed: list[str] = []
        healthy: list[str] = []
        stuck: dict[str, list[Tree]] = {}
        for key in keys:
            workload = self._workload(key)
            if workload is None:
                healthy.append(key)
                continue
            bad, pods = self._health(name, node, workload, waiting.get(key, []))
            (failed if bad else healthy).append(key)
            if pods:
                stuck[key] = pods
        evicted = (yield from self._failed(name, failed)) if failed else []
        yield from self._recovered(name, healthy)
        for key, pods in stuck.items():
            if key not in evicted:
                yield from self._end(pods)

    def _health(
        self, name: str, node: Tree, workload: Tree, waiting: list[Tree]
    ) -> tuple[bool, list[Tree]]:
        """The failure of the node for a workload, and its pods that will never start there."""
        by_pods = self.gates.enabled("TASReplaceNodeOnPodTermination")
        if not _assigned_to(workload, name):
            return False, _never_start(waiting)
        if not _is_ready(node):
            return (True, []) if not by_pods else self._by_pods(name, workload, waiting)
        taints = [each for each in Node.from_tree(node).spec.taints if blocks_scheduling(each)]
        if not taints or not self.gates.enabled("TASReplaceNodeOnNodeTaints"):
            return False, []
        tolerations = self._tolerations(name, workload)
        if any(not tolerated(each, taint) for taint in taints for each in tolerations):
            return (True, []) if not by_pods else self._by_pods(name, workload, waiting)
        if any(not _for_ever(each, taint) for taint in taints for each in tolerations):
            return self._by_pods(name, workload, waiting)
        return False, []

    def _by_pods(self, name: str, workload: Tree, waiting: list[Tree]) -> tuple[bool, list[Tree]]:
        """The node has failed a workload once none of its pods there runs on."""
        running = any(
            (pod.get("spec") or {}).get("nodeName") == name
            and not pod["metadata"].get("deletionTimestamp")
            and not is_over(pod)
            for pod in pods_of(self.reader, workload)
        )
        return not running, _never_start(waiting)

    def _tolerations(self, node: str, workload: Tree) -> list[tuple[Toleration, ...]]:
        """The tolerations of the pods on the node, by pod set: their own, those of flavors and of checks."""
        sets = {each.get("name"): each for each in workload["spec"].get("podSets") or ()}
        found = []
        for assigned in workload["status"]["admission"]["podSetAssignments"]:
            pod_set = sets.get(assigned["name"])
            if pod_set is None or not _has_node(assigned, node):
                continue
            spec = (pod_set.get("template") or {}).get("spec") or {}
            tolerations = list(spec.get("tolerations") or ())
            for flavor in dict.fromkeys((assigned.get("flavors") or {}).values()):
                tree = self.reader.get("ResourceFlavor", "", flavor)
                if tree is None:
                    raise ReconcileError(f'resourceflavors.kueue.x-k8s.io "{flavor}" not found')
                tolerations += (tree.get("spec") or {}).get("tolerations") or ()
            for check in workload["status"].get("admissionChecks") or ():
                updates = check.get("podSetUpdates") or ()
                own: Tree = next((each for each in updates if each["name"] == assigned["name"]), {})
                tolerations += own.get("tolerations") or ()
            found.append(Pod.from_tree({"spec": {"tolerations": tolerations}}).spec.tolerations)
        return found

    # -- writes ------------------------------------------------------------------------------------

    def _failed(self, node: str, keys: Sequence[str]) -> Generator[Any, Any, list[str]]:
        """Note the failed node in workloads; those that were or are evicted.

        Raises:
            ReconcileError: A write failed; the others were tried all the same.
        """
        evicted: list[str] = []
        errors: list[str] = []
        for key in keys:
            workload = self._workload(key)
            if workload is None:
                continue
            try:
                gone = yield from self._note(workload, node)
            except RequestFailed as error:
                errors.append(str(error))
                continue
            if gone:
                evicted.append(key)
        if errors:
            raise ReconcileError("\n".join(errors))
        return evicted

    def _note(self, workload: Tree, node: str) -> Generator[Any, Any, bool]:
        """Note the node in one workload; whether the workload is evicted instead."""
        names = [each["name"] for each in workload["status"].get("unhealthyNodes") or ()]
        if status.is_evicted(workload):
            return True
        copy = status.working_copy(workload)
        if names and node not in names:
            text = (
                "Workload eviction triggered due to multiple TAS assigned node failures, "
                f"including: {', '.join([*names, node])}"
            )
            eviction = prepare_eviction(copy, "NodeFailures", text, self.clock())
            stored = yield ApplyStatus("Workload", admission_patch(copy), ADMISSION_MANAGER)
            if eviction is not None:
                yield Emit("Workload", stored, *eviction.event)
            return True
        if node not in names:
            copy["status"]["unhealthyNodes"] = [{"name": each} for each in (*names, node)]
            yield ApplyStatus("Workload", admission_patch(copy), ADMISSION_MANAGER)
        return False

    def _recovered(self, node: str, keys: Sequence[str]) -> Steps:
        """Take the node off the failed ones of workloads."""
        errors: list[str] = []
        for key in keys:
            workload = self._workload(key)
            known = [] if workload is None else workload["status"].get("unhealthyNodes") or []
            if workload is None or {"name": node} not in known:
                continue
            copy = status.working_copy(workload)
            copy["status"]["unhealthyNodes"] = [each for each in known if each["name"] != node]
            try:
                yield ApplyStatus("Workload", admission_patch(copy), ADMISSION_MANAGER)
            except RequestFailed as error:
                errors.append(str(error))
        if errors:
            raise ReconcileError("\n".join(errors))

    def _end(self, pods: Sequence[Tree]) -> Steps:
        """Let pods fail that will never start where they were sent."""
        for pod in pods:
            old = pod.get("status") or {}
            condition = {
                "type": "TerminatedByKueue",
                "status": "True",
                "reason": "UnschedulableOnAssignedNode",
                "message": TERMINATED,
                "lastTransitionTime": format_time(self.clock()),
            }
            conditions = [*(old.get("conditions") or ()), condition]
            new = {**pod, "status": {**old, "phase": "Failed", "conditions": conditions}}
            try:
                yield MergePatch("Pod", pod, new, "status")
            except ApiError as error:
                if not is_not_found(error):
                    raise
                continue
            yield Emit("Pod", pod, "Normal", "PodTerminatedByKueue", TERMINATED)


def _ready_condition(node: Tree) -> Tree | None:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Ready"), None)


def _is_ready(node: Tree) -> bool:
    found = _ready_condition(node)
    return found is not None and found.get("status") == "True"


def _runs(workload: Tree) -> bool:
    return not status.is_finished(workload) and not status.is_evicted(workload)


def _assigned_to(workload: Tree, node: str) -> bool:
    admission = (workload.get("status") or {}).get("admission") or {}
    return any(_has_node(each, node) for each in admission.get("podSetAssignments") or ())


def _has_node(assigned: Tree, node: str) -> bool:
    if assigned.get("topologyAssignment") is None:
        return False
    assignment = assignment_of(assigned["topologyAssignment"])
    return ends_at_nodes(assignment.levels) and any(
        each.values[-1] == node and each.count > 0 for each in assignment.domains
    )


def _for_ever(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return tolerated([each for each in tolerations if each.toleration_seconds is None], taint)


def _never_start(pods: Sequence[Tree]) -> list[Tree]:
    """The pods that were let go and are not bound."""
    return [
        pod
        for pod in pods
        if not (pod.get("spec") or {}).get("nodeName")
        and (pod.get("status") or {}).get("phase") == "Pending"
        and not waits_for_domain(pod)
    ]
