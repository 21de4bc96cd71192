"""Jobs as gangs: the Workload and the PodGroup of a Job whose pods are to run all at once.

Upstream: pkg/controller/job/job_scheduling_manager.go (feature gate WorkloadWithJob). Objects of others, or more of
them than expected, leave the Job to be scheduled pod by pod.

Point: `job.group` before the groups are looked at again, or for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.fnv import fnv1a_32
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists
from controlplane.client.resources import POD_GROUPS, Resource
from controlplane.controllers.common.controller import NORMAL
from controlplane.controllers.common.effects import Reconcile
from controlplane.controllers.common.ownership import controller_of, controller_reference
from controlplane.controllers.common.template_hash import dump, safe_encode
from controlplane.controllers.workloads.job import pods as jobpods
from controlplane.decisions import Point, Sleep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.batch import Job
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PodGroup, Workload
    from controlplane.api.tree import Tree
    from controlplane.api.view import View
    from controlplane.controllers.common.controller import Caches, Host

GROUP: Final = "scheduling.k8s.io"
WORKLOADS: Final[Resource[Workload]] = Resource(GROUP, "v1alpha2", "workloads")
LONGEST_NAME: Final = 253
TRIES: Final = 5
PAUSE_NS: Final = 10_000_000
"""Between tries to create what exists already, as far as the server knows (retry.DefaultRetry)."""


@frozen
class GroupOfJob:
    """The PodGroup that the pods of a Job name."""

    name: str
    uid: str


def is_candidate(job: Job) -> bool:
    """Return whether all pods of the Job are to run at once: indexed, as many at a time as in all."""
    spec = job.spec
    return (
        spec.parallelism is not None
        and spec.parallelism > 1
        and jobpods.is_indexed(job)
        and spec.completions == spec.parallelism
        and spec.template.spec.scheduling_group is None
    )


def workload_name(job: Job) -> str:
    """The Job's name, cut to leave room, and a hash of its uid."""
    ending = safe_encode(str(fnv1a_32(dump("types.UID", job.uid).encode())))
    return f"{job.name[: LONGEST_NAME - len(ending) - 1]}-{ending}"


def pod_group_name(workload: str, template: str) -> str:
    """Both names, each cut to its share if they are too long, and a hash of both."""
    ending = safe_encode(str(fnv1a_32((workload + template).encode())))
    room = LONGEST_NAME - len(ending) - 2
    one, other = workload, template
    if len(one) + len(other) > room:
        half = room // 2
        if len(one) <= half:
            other = other[: room - len(one)]
        elif len(other) <= half:
            one = one[: room - len(other)]
        else:
            one, other = one[: room - half], other[:half]
    return f"{one}-{other}-{ending}"


def joined(pod: Tree, group: GroupOfJob) -> Tree:
    """The pod as a member of the group, which owns it besides the Job."""
    metadata = pod["metadata"]
    owner = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "name": group.name,
        "uid": group.uid,
    }
    owners = [*(metadata.get("ownerReferences") or ()), owner]
    spec = {**pod["spec"], "schedulingGroup": {"podGroupName": group.name}}
    return {**pod, "metadata": {**metadata, "ownerReferences": owners}, "spec": spec}


def _job_of(obj: Object[Workload]) -> tuple[str, ...]:
    """Index workloads by the Job that they stand for."""
    reference = obj.view.spec.controller_ref
    if reference is None or (reference.api_group, reference.kind) != ("batch", "Job"):
        return ()
    return (f"{obj.namespace}/{reference.name}",) if reference.name else ()


def _workload_of(obj: Object[PodGroup]) -> tuple[str, ...]:
    """Index groups by the workload that they were made from."""
    template = obj.view.spec.pod_group_template_ref
    name = "" if template is None or template.workload is None else template.workload.workload_name
    return (f"{obj.namespace}/{name}",) if name else ()


def _is_controlled_by(view: View, job: Job) -> bool:
    reference = controller_of(view)
    return reference is not None and reference.uid == job.uid


def is_new(job: Job, pods: Sequence[Pod]) -> bool:
    """Return whether the Job has never started, as far as can be told."""
    status = job.status
    return not (
        pods
        or status.start_time is not None
        or status.succeeded
        or status.failed
        or any(each.type == "Suspended" for each in status.conditions)
    )


class JobScheduling:
    """Finds or makes the Workload and the PodGroup of a Job."""

    def __init__(self, host: Host, caches: Caches) -> None:
        self._host = host
        self._workloads = caches.of(WORKLOADS, job=_job_of)
        self._groups = caches.of(POD_GROUPS, workload=_workload_of)

    def ensure(self, job: Job, pods: Sequence[Pod]) -> Reconcile[GroupOfJob | None]:
        """The Job's group; None if its pods are scheduled one by one."""
        workload = yield from self._retried(lambda: self._workload(job, pods))
        if workload is None:
            return None
        group = yield from self._retried(lambda: self._group(job, workload))
        return None if group is None else GroupOfJob(group.name, group.uid)

    def _retried(self, attempt: Callable[[], Reconcile[Any]]) -> Reconcile[Any]:
        """Look again where what is to be created exists already: it may only be unheard of. Raises ApiError."""
        for left in reversed(range(TRIES)):
            yield Point("job.group")
            try:
                return (yield from attempt())
            except ApiError as error:
                if not left or not is_already_exists(error):
                    raise
                yield Sleep(PAUSE_NS, point="job.group")
        return None

    def _workload(self, job: Job, pods: Sequence[Pod]) -> Reconcile[Object[Workload] | None]:
        found = list(self._workloads.by_index("job", job.key))
        if not found:
            return (yield from self._make_workload(job)) if is_new(job, pods) else None
        if len(found) > 1 or not _is_controlled_by(found[0].view, job):
            return None
        return found[0] if len(found[0].view.spec.pod_group_templates) == 1 else None

    def _group(self, job: Job, workload: Object[Workload]) -> Reconcile[Object[PodGroup] | None]:
        found = list(self._groups.by_index("workload", workload.key))
        if not found:
            return (yield from self._make_group(job, workload))
        if len(found) > 1 or not _is_controlled_by(found[0].view, job):
            return None
        return found[0]

    def _make_workload(self, job: Job) -> Reconcile[Object[Workload]]:
        policy = {"gang": {"minCount": job.spec.parallelism}}
        template = {"name": f"{job.name}-pgt-0", "schedulingPolicy": policy}
        reference = {"apiGroup": "batch", "kind": "Job", "name": job.name}
        tree: Tree = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {
                "name": workload_name(job),
                "namespace": job.namespace,
                "ownerReferences": [controller_reference(job)],
            },
            "spec": {"controllerRef": reference, "podGroupTemplates": [template]},
        }
        made = yield from calls.create(WORKLOADS, job.namespace, tree)
        message = f"Created Workload {made.name} for Job {job.name}"
        self._host.event(job, NORMAL, "WorkloadCreated", message)
        return made

    def _make_group(self, job: Job, workload: Object[Workload]) -> Reconcile[Object[PodGroup]]:
        template = workload.tree["spec"]["podGroupTemplates"][0]
        owner = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "name": workload.name,
            "uid": workload.uid,
        }
        reference = {"workloadName": workload.name, "podGroupTemplateName": template["name"]}
        tree: Tree = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {
                "name": pod_group_name(workload.name, template["name"]),
                "namespace": job.namespace,
                "ownerReferences": [controller_reference(job), owner],
            },
            "spec": {
                "podGroupTemplateRef": {"workload": reference},
                "schedulingPolicy": template["schedulingPolicy"],
            },
        }
        return (yield from calls.create(POD_GROUPS, job.namespace, tree))
