"""JobSets for Kueue: a kind of job that is not built in.

controlplane run examples/kueue/jobset/definition.yaml examples/kueue/jobset/jobsets.yaml --with kueue \
    --kueue-job examples/kueue/jobset/jobset.py --own-controller examples/kueue/jobset/controller.py

Each replicated job is a pod set of the Workload: all Jobs of a JobSet get their quota together, or none does.
"""

from collections.abc import Callable, Sequence

from controlplane.kueue.jobs import (
    FieldError,
    Finished,
    GenericJob,
    Kind,
    PodSetInfo,
    Tree,
    forbidden,
)

JOB_INDEX = "jobset.sigs.k8s.io/job-index"
POD_INDEX = "batch.kubernetes.io/job-completion-index"


def pods_of_one(replicated: Tree) -> int:
    """The number of pods that one Job of a replicated job runs at a time."""
    spec = replicated["template"]["spec"]
    parallelism = spec.get("parallelism", 1)
    return min(parallelism, spec.get("completions", parallelism))


def with_templates(tree: Tree, change: Callable[[Tree, int], Tree]) -> Tree:
    """The JobSet with each pod template changed, given its number."""
    jobs = []
    for number, each in enumerate(tree["spec"]["replicatedJobs"]):
        job = each["template"]
        spec = {**job["spec"], "template": change(job["spec"]["template"], number)}
        jobs.append({**each, "template": {**job, "spec": spec}})
    return {**tree, "spec": {**tree["spec"], "replicatedJobs": jobs}}


class JobSet(GenericJob):
    """A JobSet, suspended by `spec.suspend`."""

    kind = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet")
    plural = "jobsets"

    @property
    def replicated(self) -> list[Tree]:
        return self.tree["spec"]["replicatedJobs"]

    @property
    def statuses(self) -> list[Tree]:
        return self.tree.get("status", {}).get("replicatedJobsStatus", [])

    def pod_sets(self) -> list[Tree]:
        return [
            self.pod_set(
                each["name"],
                each["template"]["spec"]["template"],
                each["replicas"] * pods_of_one(each),
                index_label=POD_INDEX,
                sub_group=(JOB_INDEX, each["replicas"]),
            )
            for each in self.replicated
        ]

    def started(self, tree: Tree, infos: Sequence[PodSetInfo]) -> Tree:
        running = {**tree, "spec": {**tree["spec"], "suspend": False}}
        return with_templates(running, lambda template, i: self.merged(template, infos[i]))

    def restored(self, tree: Tree, infos: Sequence[PodSetInfo]) -> Tree:
        return with_templates(tree, lambda template, i: self.original(template, infos[i]))

    def is_active(self) -> bool:
        return any(each.get("active") for each in self.statuses)

    def pods_ready(self) -> bool:
        ready = sum(each.get("ready", 0) + each.get("succeeded", 0) for each in self.statuses)
        return ready == sum(each["replicas"] for each in self.replicated)

    def finished(self) -> Finished | None:
        for each in self.tree.get("status", {}).get("conditions", []):
            if each["type"] in ("Completed", "Failed") and each["status"] == "True":
                return each["message"], each["type"] == "Completed"
        return None

    def reclaimable_pods(self) -> list[Tree]:
        succeeded = {each["name"]: each.get("succeeded", 0) for each in self.statuses}
        return [
            {"name": each["name"], "count": succeeded[each["name"]] * pods_of_one(each)}
            for each in self.replicated
            if succeeded.get(each["name"])
        ]

    def validate(self, old: Tree | None) -> Sequence[FieldError]:
        if old is None or self.is_suspended() or old["spec"].get("suspend"):
            return ()
        counts = [
            [each["replicas"] for each in tree["spec"]["replicatedJobs"]]
            for tree in (self.tree, old)
        ]
        text = "replicas cannot change while the JobSet runs"
        return [forbidden("spec.replicatedJobs", text)] if counts[0] != counts[1] else ()
