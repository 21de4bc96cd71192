"""Single pods and groups of pods as jobs. Follows `pkg/controller/jobs/pod/pod_controller.go`.

Upstream patches and deletes the pods of a group in parallel; here they follow one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from attrs import define, field

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.client.errors import ApiError, is_conflict, is_not_found
from controlplane.kubelet.cm.go_text import GoTextError, atoi
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Delete,
    Emit,
    MergePatch,
    ReconcileError,
    Update,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import POD, controller_of
from controlplane.kueue.jobs.expectations import Expectations
from controlplane.kueue.jobs.kinds import Finished, ManagedJob, Steps, Unretryable
from controlplane.kueue.jobs.objects import (
    Kind,
    annotations_of,
    labels_of,
    max_execution_time,
    pod_group_name,
    prebuilt_workload,
    queue_name,
    workload_name,
)
from controlplane.kueue.jobs.pod_sets import (
    MAIN,
    Info,
    PermanentError,
    merge_into,
    pod_set,
    topology_request,
)
from controlplane.kueue.jobs.pods import (
    INDEX_LABEL,
    GroupError,
    deleting,
    group_total_count,
    is_gated,
    is_ready,
    is_runnable,
    is_terminated,
    is_unretriable,
    phase_of,
    pod_suspended,
    role_hash,
    sort_active,
    sort_inactive,
)
from controlplane.kueue.jobs.workloads import (
    WORKLOAD,
    construct,
    first_equivalent,
    is_equivalent,
    new_workload,
    own_prebuilt,
    owned_by,
    with_gated_by,
    with_owner,
)
from controlplane.kueue.names import (
    ADMISSION_GATE,
    GROUP_FAST_ADMISSION,
    GROUP_SERVING,
    GROUP_TOTAL_COUNT,
    IS_GROUP_WORKLOAD,
    MANAGED,
    SUSPENDED_BY_PARENT,
    TOPOLOGY_GATE,
)
from controlplane.kueue.workload.status import EVICTED, WAITING_FOR_REPLACEMENTS, find, is_finished

__all__ = ["GROUP_PREFIX", "PodJob", "pod_key"]

GROUP_PREFIX: Final = "group/"
"""Before the namespace in the key of a group."""
MOST_ROLES: Final = 18
CONFLICT_TRIES: Final = 5
DELETED_REASON: Final = "WorkloadDeleted"
EVICTED_REASON: Final = "WorkloadEvicted"


def pod_key(pod: Tree, gates: Gates) -> tuple[str, str]:
    """Namespace and name under which a pod is reconciled: its own, or those of its group."""
    metadata = pod["metadata"]
    namespace, group = metadata.get("namespace", ""), pod_group_name(pod, gates)
    return (f"{GROUP_PREFIX}{namespace}", group) if group else (namespace, metadata["name"])


@define
class PodJob(ManagedJob):
    """A pod, or a group of pods of which `tree` is the first.

    Attributes:
        expectations: Pods of groups whose end was asked for and has not been seen yet.
        implicit: The framework is only enabled for the sake of another one: pods without a parent are skipped.
    """

    kind: ClassVar[Kind] = POD
    top_level: ClassVar[bool] = True

    expectations: Expectations = field(factory=Expectations)
    implicit: bool = False
    group: str = ""
    pods: list[Tree] = field(factory=list)
    found: bool = False
    absent: int = 0
    settled: bool = True

    # -- reading -----------------------------------------------------------------------------------

    def load(self, namespace: str, name: str) -> bool:
        """Read the pod, or the pods of a group."""
        reader, gates = self.around.reader, self.around.gates
        if not namespace.startswith(GROUP_PREFIX):
            found = reader.get("Pod", namespace, name)
            if found is None:
                self.tree = {"metadata": {"namespace": namespace, "name": name}}
                return True
            self.tree, self.found = found, True
            if pod_group_name(found, gates):
                text = "got a single pod reconcile request for a pod group"
                raise ReconcileError(f"event handler error: {text}")
            return deleting(found)
        namespace = namespace.removeprefix(GROUP_PREFIX)
        self.group = name
        self.settled = self.expectations.satisfied((namespace, name))
        self.pods = self._members(namespace)
        self.found = bool(self.pods)
        if self.pods:
            self.tree = self.pods[0]
        else:
            self.tree = {"metadata": {"namespace": namespace, "name": name}}
        return not self.pods

    def _members(self, namespace: str) -> list[Tree]:
        pods = self.around.reader.list("Pod", namespace)
        return [pod for pod in pods if pod_group_name(pod, self.around.gates) == self.group]

    def _key(self) -> tuple[str, str]:
        return self.namespace, self.group

    def is_skipped(self) -> bool:
        """Return whether the pod is not managed; without one, there are finalizers to remove all the same."""
        if not self.found:
            return False
        by_parent = bool(annotations_of(self.tree).get(SUSPENDED_BY_PARENT))
        return labels_of(self.tree).get(MANAGED) != "true" or (self.implicit and not by_parent)

    def is_suspended(self) -> bool:
        """Return whether a pod is held back or has ended."""
        return any(pod_suspended(pod) for pod in self._all())

    def _all(self) -> list[Tree]:
        return self.pods if self.group else [self.tree]

    def each_object(self) -> list[Tree]:
        """The pods."""
        return self._all()

    def is_active(self) -> bool:
        """Return whether a pod of the group runs; one that is past its grace period does not count."""
        return any(self._runs(pod) for pod in self.pods)

    def _runs(self, pod: Tree) -> bool:
        if phase_of(pod) != "Running":
            return False
        metadata = pod["metadata"]
        deleted = metadata.get("deletionTimestamp")
        if deleted and self.around.gates.enabled("FastQuotaReleaseInPodIntegration"):
            return False
        grace = metadata.get("deletionGracePeriodSeconds")
        return not deleted or grace is None or self.now <= parse_time(deleted) + grace * SECOND

    def _serving(self) -> bool:
        return bool(self.group) and annotations_of(self.tree).get(GROUP_SERVING) == "true"

    def _fast(self) -> bool:
        return annotations_of(self.tree).get(GROUP_FAST_ADMISSION) == "true"

    def finished(self) -> Finished | None:
        """How the pod ended; a group, when all succeeded, or none is active and it cannot be retried."""
        if self._serving():
            return None
        if not self.group:
            if not is_terminated(self.tree):
                return None
            message = (self.tree.get("status") or EMPTY_MAP).get("message", "")
            return message, phase_of(self.tree) == "Succeeded"
        try:
            total = group_total_count(self.tree, self.around.gates)
        except GroupError:
            return None
        succeeded = sum(phase_of(pod) == "Succeeded" for pod in self.pods)
        active = any(not is_terminated(pod) for pod in self.pods)
        unretriable = any(is_unretriable(pod) for pod in self.pods)
        if succeeded == total or (not active and unretriable):
            return f"Pods succeeded: {succeeded}/{total}.", True
        return None

    def pods_ready(self) -> bool:
        """Return whether the pod, or every pod of a whole group, is ready."""
        if not self.group:
            return is_ready(self.tree)
        try:
            total = group_total_count(self.tree, self.around.gates)
        except GroupError:
            return False
        return len(self.pods) >= total and all(is_ready(pod) for pod in self.pods)

    def reclaimable_pods(self) -> list[Tree] | None:
        """Pods of a group that succeeded, by role."""
        counts: dict[str, int] = {}
        if self.group and not self._serving():
            for pod in self.pods:
                if phase_of(pod) == "Succeeded":
                    role = role_hash(pod)
                    counts[role] = counts.get(role, 0) + 1
        return [{"name": role, "count": count} for role, count in counts.items()]

    def queue_is_followed(self) -> bool:
        """Return whether the group does not serve."""
        return not self._serving()

    # -- pod sets ----------------------------------------------------------------------------------

    def pod_sets(self) -> list[Tree]:
        """One pod set for a pod; one for each role of a group, or one for a fast group."""
        if not self.group:
            return [self._pod_set(self.tree, MAIN, 1)]
        if not self._fast():
            return self._roles(self.pods)
        try:
            total = group_total_count(self.tree, self.around.gates)
        except GroupError as error:
            raise ReconcileError(str(error)) from None
        for pod in self.pods:
            if is_runnable(pod):
                return [self._pod_set(pod, role_hash(pod), total)]
        raise ReconcileError("failed to find a runnable pod in the group")

    def _pod_set(self, pod: Tree, name: str, count: int) -> Tree:
        topology = topology_request(annotations_of(pod), self.around.gates, INDEX_LABEL)
        return pod_set(name, {"spec": pod.get("spec") or {}}, count, topology)

    def _roles(self, pods: Sequence[Tree]) -> list[Tree]:
        roles: dict[str, Tree] = {}
        for pod in pods:
            if not is_runnable(pod):
                continue
            role = role_hash(pod)
            if role in roles:
                roles[role]["count"] += 1
            else:
                roles[role] = self._pod_set(pod, role, 1)
        return [roles[role] for role in sorted(roles)]

    # -- the Workload ------------------------------------------------------------------------------

    def _workload_name(self) -> str:
        gates = self.around.gates
        prebuilt = prebuilt_workload(self.tree, gates)
        if prebuilt or self.group:
            return prebuilt or self.group
        return workload_name(POD, self.name, self.uid, gates)

    def child_workloads(self) -> list[Tree]:
        """The Workloads of the pod, or the one with the name of the group."""
        if not self.group:
            return owned_by(self.around.reader, self)
        found = self.around.reader.get(WORKLOAD, self.namespace, self.group)
        if found is None:
            return []
        foreign = not _of_group(found) and controller_of(found) is not None
        if foreign and self.around.gates.enabled("PodIntegrationValidateGroupOwner"):
            return []
        return [found]

    def constructed(self) -> Steps:
        """A Workload of the pod, or of the complete group without its excess pods."""
        if not self.group:
            return construct(self)
        active = [pod for pod in self.pods if is_runnable(pod)]
        yield from self._finalize_pods([pod for pod in self.pods if not is_runnable(pod)])
        total = yield from self._checked_group(active)
        if len(active) > total:
            active = sort_active(active)
            yield from self._remove_excess(active[total:])
            self.pods = active[:total]
        sets = self.pod_sets()
        if len(sets) > MOST_ROLES:
            raise Unretryable(f"pod group can't include more than {MOST_ROLES} roles")
        made = new_workload(self._workload_name(), self.tree, sets)
        metadata = made["metadata"]
        annotations = {**metadata["annotations"], IS_GROUP_WORKLOAD: "true"}
        made = {**made, "metadata": {**metadata, "annotations": annotations}}
        if self.around.gates.enabled("AdmissionGatedBy"):
            made, _ = with_gated_by(made, self.tree)
        for pod in self.pods:
            made = with_owner(made, self, pod)
        return made

    def _checked_group(self, active: Sequence[Tree]) -> Steps:
        """The number of pods of the group.

        Raises:
            ReconcileError: A count cannot be read.
            Unretryable: Pods are missing, or differ in queue or count.
        """
        try:
            total = group_total_count(self.tree, self.around.gates)
        except GroupError as error:
            raise ReconcileError(str(error)) from None
        self._check_index(total)
        if not self._fast() and len(active) < total:
            text = f"'{self.group}' group has fewer runnable pods than expected"
            yield Emit("Pod", self.tree, "Warning", "ErrWorkloadCompose", text)
            raise Unretryable(text)
        queue = queue_name(self.tree)
        for pod in self.pods:
            if phase_of(pod) != "Failed":
                self._check_member(pod, queue, total)
        return total

    def _check_index(self, total: int) -> None:
        text = labels_of(self.tree).get(INDEX_LABEL)
        if text is None:
            return
        number = int(text) if text.isascii() and text.isdigit() else None
        if number is None:
            problem = (
                f'invalid unsigned integer: strconv.ParseUint: parsing "{text}": invalid syntax'
            )
        elif number >= total:
            problem = f"validation error: value should be less than {total}"
        else:
            return
        where = f"{self.namespace}/{self.name}"
        raise ReconcileError(f'incorrect label value "{text}" for Pod "{where}": {problem}')

    def _check_member(self, pod: Tree, queue: str, total: int) -> None:
        name, other = self.name, pod["metadata"]["name"]
        theirs = queue_name(pod)
        if theirs != queue:
            text = f"pods '{name}' and '{other}' has different queue names: {queue}!={theirs}"
            raise Unretryable(text)
        try:
            count = atoi(annotations_of(pod).get(GROUP_TOTAL_COUNT, ""))
        except GoTextError as error:
            text = f"failed to extract '{GROUP_TOTAL_COUNT}' annotation from the pod '{other}'"
            raise ReconcileError(f"{text}: {error}") from None
        if count != total:
            what = f"different '{GROUP_TOTAL_COUNT}' values: {total}!={count}"
            raise Unretryable(f"pods '{name}' and '{other}' has {what}")

    def find_matching(self) -> Steps:
        """The Workload of the pod or of the group; excess and replaced pods go."""
        if not self.group:
            return first_equivalent(self, self.child_workloads())
        workload = self.around.reader.get(WORKLOAD, self.namespace, self.group)
        if workload is None:
            return None, []
        if not _of_group(workload) and self.around.gates.enabled(
            "PodIntegrationValidateGroupOwner"
        ):
            yield from self._refuse_foreign()
        if workload["spec"].get("maximumExecutionTimeSeconds") != max_execution_time(self.tree):
            return None, [workload]
        kept, excess, replaced = self._sift(workload)
        if not kept or not self._fits(workload, self._roles(kept)):
            return None, [workload]
        if not self.settled:
            raise Unretryable("waiting to observe previous operations on pods")
        self.pods = kept
        workload = yield from self.own(workload)
        yield from self._remove_excess(excess)
        yield from self._finalize_pods(replaced)
        return workload, []

    def _refuse_foreign(self) -> Steps:
        text = (
            f'A Workload named "{self.group}" already exists but is not a pod group workload;'
            " this pod group cannot be admitted"
        )
        yield Emit("Pod", self.tree, "Warning", "WorkloadNameConflict", text)
        yield from self._finalize_pods([pod for pod in self.pods if not is_runnable(pod)])
        text = "a workload with the pod group name already exists but was not created by the pod"
        raise Unretryable(f"{text} group framework")

    def _sift(self, workload: Tree) -> tuple[list[Tree], list[Tree], list[Tree]]:
        """Pods to keep, active ones in excess, and inactive ones that were replaced; absent ones are counted."""
        kept: list[Tree] = []
        excess: list[Tree] = []
        replaced: list[Tree] = []
        self.absent = 0
        for of_spec in workload["spec"].get("podSets") or ():
            role, count = of_spec["name"], of_spec.get("count") or 0
            members = [pod for pod in self.pods if role_hash(pod) == role]
            active = [pod for pod in members if is_runnable(pod)]
            inactive = [pod for pod in members if not is_runnable(pod)]
            if self._fast():
                self.absent += 1 if count > 0 and not active else 0
            else:
                self.absent += max(0, count - len(active))
            if len(active) > count:
                active = sort_active(active)
                excess += active[count:]
            kept += active[:count]
            done = min(len(inactive), len(inactive) + len(active) - count)
            if done > 0:
                inactive = sort_inactive(inactive, self.now)
                replaced += inactive[len(inactive) - done :]
                inactive = inactive[: len(inactive) - done]
            kept += inactive
        return kept, excess, replaced

    def _fits(self, workload: Tree, roles: Sequence[Tree]) -> bool:
        """Return whether a Workload has every role, in order, and as many pods of it."""
        if workload["metadata"]["name"] != self._workload_name():
            return False
        finished = is_finished(workload)
        sets = workload["spec"].get("podSets") or []
        if not finished and len(sets) < len(roles):
            return False
        at = -1
        for role in roles:
            at += 1
            while at < len(sets) and sets[at]["name"] != role["name"]:
                at += 1
            if at >= len(sets):
                return False
            if not finished and (sets[at].get("count") or 0) < role["count"]:
                return False
        return True

    def is_equivalent(self, workload: Tree) -> bool:
        """Return whether a prebuilt Workload is that of the pod or the group."""
        if not self.group:
            return is_equivalent(self, workload)
        return self._fits(workload, self.pod_sets())

    def own(self, workload: Tree) -> Steps:
        """Make all pods owners; a single pod becomes the controller."""
        if not self.group:
            return (yield from own_prebuilt(self, workload))
        before = len(workload["metadata"].get("ownerReferences") or ())
        owned = workload
        for pod in self.pods:
            owned = with_owner(owned, self, pod)
        added = len(owned["metadata"].get("ownerReferences") or ()) - before
        if added <= 0:
            return workload
        stored = yield Update(WORKLOAD, owned)
        text = f"Added {added} owner reference(s)"
        yield Emit(WORKLOAD, stored, "Normal", "OwnerReferencesAdded", text)
        return stored

    def custom_conditions(self, workload: Tree) -> list[Tree] | None:
        """WaitingForReplacementPods: True while pods of the group are missing."""
        if not self.group:
            return None
        old = find(workload, WAITING_FOR_REPLACEMENTS)
        if old is None and self.absent <= 0:
            return None
        new: Tree = dict(old or {"type": WAITING_FOR_REPLACEMENTS})
        if self.absent > 0:
            evicted = find(workload, EVICTED)
            if evicted is not None and evicted["status"] == "True":
                new |= {"reason": evicted.get("reason", ""), "message": evicted.get("message", "")}
            elif new.get("status") != "True":
                new |= {"reason": "PodsFailed", "message": "Some Failed pods need replacement"}
            new["status"] = "True"
        elif new.get("status") != "False":
            new |= {"reason": "PodsReady", "message": "No pods need replacement"}
            new["status"] = "False"
        if new == old:
            return None
        if generation := workload["metadata"].get("generation"):
            new["observedGeneration"] = generation
        return [{**new, "lastTransitionTime": format_time(self.now)}]

    # -- start and stop ----------------------------------------------------------------------------

    def run(self, infos: Sequence[Info], message: str) -> Steps:
        """Complete the pods that are held back, and let them go."""
        if not self.group:
            if len(infos) != 1:
                text = f"expecting 1 pod set got {len(infos)}"
                raise PermanentError(f"invalid podset infos: {text}")
            if is_gated(self.tree):
                self.tree = yield from self._start(self.tree, infos[0], message)
            return
        by_role = {info.name: info for info in infos}
        for index, pod in enumerate(self.pods):
            if not is_gated(pod):
                continue
            role = role_hash(pod)
            if role not in by_role:
                text = f"podSetInfo with the name '{role}' is not found"
                raise PermanentError(f"invalid podset infos: {text}")
            self.pods[index] = yield from self._start(pod, by_role[role], message)

    def _start(self, pod: Tree, info: Info, message: str) -> Steps:
        new = merge_into(pod, info, self.around.gates)
        dropped = [ADMISSION_GATE]
        if not any(each["name"] == TOPOLOGY_GATE for each in info.gates):
            dropped.append(TOPOLOGY_GATE)
        gates = new["spec"].get("schedulingGates") or ()
        kept = [each for each in gates if each["name"] not in dropped]
        spec = {name: value for name, value in new["spec"].items() if name != "schedulingGates"}
        if kept:
            spec["schedulingGates"] = kept
        started = yield MergePatch("Pod", pod, {**new, "spec": spec})
        yield Emit("Pod", started, "Normal", "Started", message)
        return started

    def stop(self, infos: Sequence[Info], reason: str, message: str) -> Steps:
        """Delete the pods that run: a pod cannot be held back again."""
        stopped: list[Tree] = []
        for pod in self._all():
            if deleting(pod) or (reason != DELETED_REASON and pod_suspended(pod)):
                continue
            condition = {
                "type": "TerminationTarget",
                "status": "True",
                "lastTransitionTime": format_time(self.now),
                "reason": reason,
                "message": message,
            }
            metadata = {
                name: pod["metadata"][name]
                for name in ("name", "namespace", "uid")
                if name in pod["metadata"]
            }
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            body["status"] = {"conditions": [condition]}
            try:
                yield ApplyStatus("Pod", body, "kueue")
                yield Delete("Pod", pod)
            except ApiError as error:
                if not is_not_found(error):
                    raise
            stopped.append(pod)
        if self.group and reason == DELETED_REASON:
            yield from self.finalize()
        return stopped

    def finalize(self) -> Steps:
        """Remove Kueue's finalizer from the pods."""
        pods = self._members(self.namespace) if self.group else [self.tree]
        for pod in pods:
            yield from self._without_finalizer(pod)

    def _without_finalizer(self, pod: Tree) -> Steps:
        """Remove the finalizer, again after a conflict; return whether it was there."""
        for attempt in range(CONFLICT_TRIES):
            metadata = pod["metadata"]
            finalizers = metadata.get("finalizers") or []
            if MANAGED not in finalizers:
                return False
            kept = [each for each in finalizers if each != MANAGED]
            changed = {**metadata, "finalizers": kept}
            if not kept:
                del changed["finalizers"]
            try:
                yield MergePatch("Pod", pod, {**pod, "metadata": changed})
            except ApiError as error:
                if not is_conflict(error) or attempt == CONFLICT_TRIES - 1:
                    raise
                again = self.around.reader.get("Pod", self.namespace, metadata["name"])
                if again is None:
                    return False
                pod = again
            else:
                return True
        return False

    def _expect(self, pods: Sequence[Tree]) -> None:
        self.expectations.expect(self._key(), [pod["metadata"].get("uid", "") for pod in pods])

    def _remove_excess(self, pods: Sequence[Tree]) -> Steps:
        if not pods:
            return
        self._expect(pods)
        for pod in pods:
            try:
                yield from self._without_finalizer(pod)
                if not deleting(pod):
                    yield Delete("Pod", pod)
                    yield Emit("Pod", pod, "Normal", "ExcessPodDeleted", "Excess pod deleted")
            except ApiError:
                self.expectations.observed(self._key(), pod["metadata"].get("uid", ""))
                raise

    def _finalize_pods(self, pods: Sequence[Tree]) -> Steps:
        if not pods:
            return
        self._expect(pods)
        for pod in pods:
            uid = pod["metadata"].get("uid", "")
            try:
                removed = yield from self._without_finalizer(pod)
            except ApiError:
                self.expectations.observed(self._key(), uid)
                raise
            if not removed:
                self.expectations.observed(self._key(), uid)


def _of_group(workload: Tree) -> bool:
    return annotations_of(workload).get(IS_GROUP_WORKLOAD) == "true"
