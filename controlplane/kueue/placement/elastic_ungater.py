"""Let the pods of an elastic job go, as many as its active slice has quota for.

Pods of all slices of a job count, whichever slice they were made for. Follows `pkg/controller/elasticjobs`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.client.errors import RequestFailed
from controlplane.decisions import Together
from controlplane.kueue.controllers.effects import Done, MergePatch, Reader, ReconcileError
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import controller_of
from controlplane.kueue.jobs.expectations import Expectations
from controlplane.kueue.jobs.objects import Kind, is_elastic
from controlplane.kueue.jobs.slices import counts_of, latest_active, owned_slices
from controlplane.kueue.names import ELASTIC_JOB, POD_SET
from controlplane.kueue.placement.pods import (
    SLICE_NAME,
    annotations_of,
    is_over,
    pods_of,
    slice_name,
)
from controlplane.kueue.workload import status

if TYPE_CHECKING:
    from controlplane.api.tree import Tree

__all__ = ["ElasticUngater"]

_COPIED: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "autoscaling.x-k8s.io/provisioning-class-name",
)
"""Annotations of admission checks that a pod gets when it is let go."""


@frozen
class ElasticUngater:
    """Reconciles Workloads of elastic jobs.

    Args:
        reader: Informer caches.
        gates: Feature gates.
        expectations: Pods that were let go and have not been seen so yet, by the name of the first slice.
    """

    reader: Reader
    gates: Gates
    expectations: Expectations = field(factory=Expectations)

    # -- events ------------------------------------------------------------------------------------

    def workload_changed(self, workload: Tree) -> str | None:
        """The key of the active slice of an admitted slice's job, None if there is none."""
        return self._key(workload) if self._may_run(workload) else None

    def pod_changed(self, old: Tree | None, new: Tree | None) -> str | None:
        """The key of the active slice of a pod's job, None if the pod belongs to no elastic job."""
        pod = new or old or {}
        name = annotations_of(pod).get(SLICE_NAME)
        if name is None:
            return None
        namespace = pod["metadata"].get("namespace", "")
        if new is None or not _is_held(pod):
            self.expectations.observed((namespace, name), pod["metadata"].get("uid", ""))
        first = self.reader.get("Workload", namespace, name)
        return self._key(first if first is not None else pod)

    def _key(self, owned: Tree) -> str | None:
        active = self._active(owned)
        return None if active is None else status.key_of(active)

    def _active(self, owned: Tree) -> Tree | None:
        """The active slice of the job that controls an object, if it is admitted."""
        owner = controller_of(owned)
        if owner is None:
            return None
        group, _, version = owner["apiVersion"].rpartition("/")
        namespace = owned["metadata"].get("namespace", "")
        kind = Kind(group, version, owner["kind"])
        found = latest_active(owned_slices(self.reader, kind, namespace, owner["name"]))
        return found if found is not None and status.is_admitted(found) else None

    def _may_run(self, workload: Tree) -> bool:
        return (
            is_elastic(workload, self.gates)
            and not status.is_finished(workload)
            and status.is_admitted(workload)
        )

    # -- reconcile ---------------------------------------------------------------------------------

    def reconcile(self, key: str) -> Generator[Any, Any, Done]:
        """Let pods of the job of one Workload go."""
        namespace, name = key.split("/", 1)
        active = self.reader.get("Workload", namespace, name)
        if active is None:
            return Done()
        if not self._may_run(active) or status.is_evicted(active):
            other = self._active(active)
            if other is None or status.key_of(other) == key:
                return Done()
            active = other
        chain = (namespace, slice_name(active))
        if not self.expectations.satisfied(chain):
            raise ReconcileError("pending elastic ungate operations")
        pods = self._pods(active)
        if pods:
            self.expectations.expect(chain, [pod["metadata"].get("uid", "") for pod in pods])
            parts = [self._let_go(chain, pod, active) for pod in pods]
            results = yield Together("kueue.ungate", parts)
            failed = next((each for each in results if each is not None), None)
            if failed is not None:
                raise ReconcileError(failed)
        return Done()

    def _pods(self, active: Tree) -> list[Tree]:
        """The held pods for which the slice has quota, by name."""
        granted = counts_of(active["spec"]["podSets"])
        held: dict[str, list[Tree]] = {}
        running: dict[str, int] = {}
        for pod in pods_of(self.reader, active):
            if is_over(pod):
                continue
            pod_set = (pod["metadata"].get("labels") or {}).get(POD_SET, "")
            if not _is_held(pod):
                running[pod_set] = running.get(pod_set, 0) + 1
            elif _fits(pod, *_updates(active, pod_set)):
                held.setdefault(pod_set, []).append(pod)
        found: list[Tree] = []
        for pod_set, pods in held.items():
            room = granted.get(pod_set, 0) - running.get(pod_set, 0)
            found += sorted(pods, key=lambda each: each["metadata"]["name"])[: max(room, 0)]
        return found

    def _let_go(
        self, chain: tuple[str, str], pod: Tree, active: Tree
    ) -> Generator[Any, Any, str | None]:
        """Take the gate off a pod; the text of an error, None on success."""
        pod_set = (pod["metadata"].get("labels") or {}).get(POD_SET, "")
        annotations, selector = _updates(active, pod_set)
        metadata, spec = pod["metadata"], pod["spec"]
        gates = [each for each in spec["schedulingGates"] if each["name"] != ELASTIC_JOB]
        new = {**spec, "schedulingGates": gates}
        if not gates:
            del new["schedulingGates"]
        if selector:
            new["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
        if annotations:
            metadata = {**metadata, "annotations": {**annotations, **annotations_of(pod)}}
        try:
            yield MergePatch("Pod", pod, {**pod, "metadata": metadata, "spec": new})
        except RequestFailed as error:
            self.expectations.observed(chain, pod["metadata"].get("uid", ""))
            return str(error)
        return None


def _is_held(pod: Tree) -> bool:
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(each.get("name") == ELASTIC_JOB for each in gates)


def _updates(workload: Tree, pod_set: str) -> tuple[dict[str, str], dict[str, str]]:
    """Annotations and node selector that admission checks have for pods of a pod set."""
    annotations: dict[str, str] = {}
    selector: dict[str, str] = {}
    for check in status.status_of(workload).get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") != pod_set:
                continue
            found = update.get("annotations") or {}
            new = {name: found[name] for name in _COPIED if name in found}
            _join(annotations, new, pod_set)
            _join(selector, update.get("nodeSelector") or {}, pod_set)
    return annotations, selector


def _join(all_found: dict[str, str], new: dict[str, str], pod_set: str) -> None:
    for name, value in new.items():
        if all_found.setdefault(name, value) != value:
            raise ReconcileError(f'conflicting "{name}" updates for PodSet "{pod_set}"')


def _fits(pod: Tree, annotations: dict[str, str], selector: dict[str, str]) -> bool:
    """Return whether a pod was not given other values for an earlier admission."""
    had = annotations_of(pod)
    nodes = (pod.get("spec") or {}).get("nodeSelector") or {}
    return all(had.get(name, value) == value for name, value in annotations.items()) and all(
        nodes.get(name, value) == value for name, value in selector.items()
    )
