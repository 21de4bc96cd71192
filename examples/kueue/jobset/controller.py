"""A small controller of JobSets: makes their Jobs, and counts how far they are.

The Jobs of a suspended JobSet are suspended; when it goes on, they get its pod templates, which Kueue has completed.
"""

from controlplane.controllers import (
    Controller,
    Handlers,
    Resource,
    Work,
    calls,
    controller_index,
    controller_keys,
    controller_reference,
)

JOBSETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")
JOBS = Resource("batch", "v1", "jobs")
PREFIX = "jobset.sigs.k8s.io"


def ended(job, how):
    """Return whether a Job has the condition Complete or Failed."""
    conditions = job.get("status", {}).get("conditions", [])
    return any(each["type"] == how and each["status"] == "True" for each in conditions)


def wanted_jobs(jobset):
    """The Jobs of a JobSet by name, without their owner."""
    found = {}
    for replicated in jobset["spec"]["replicatedJobs"]:
        for number in range(replicated["replicas"]):
            labels = {
                f"{PREFIX}/jobset-name": jobset["metadata"]["name"],
                f"{PREFIX}/replicatedjob-name": replicated["name"],
                f"{PREFIX}/job-index": str(number),
            }
            template = replicated["template"]["spec"]["template"]
            metadata = template.get("metadata", {})
            labelled = {**metadata, "labels": {**metadata.get("labels", {}), **labels}}
            name = f"{jobset['metadata']['name']}-{replicated['name']}-{number}"
            spec = {
                **replicated["template"]["spec"],
                "suspend": jobset["spec"].get("suspend", False),
                "template": {**template, "metadata": labelled},
            }
            found[name] = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
            }
    return found


def counted(jobset, jobs):
    """The status of each replicated job."""
    rows = []
    for replicated in jobset["spec"]["replicatedJobs"]:
        label = f"{PREFIX}/replicatedjob-name"
        mine = [each for each in jobs if each["metadata"]["labels"][label] == replicated["name"]]
        row = {"name": replicated["name"], "active": 0, "ready": 0, "succeeded": 0, "failed": 0}
        for job in mine:
            status = job.get("status", {})
            row["succeeded"] += ended(job, "Complete")
            row["failed"] += ended(job, "Failed")
            row["active"] += bool(status.get("active"))
            pods = min(
                job["spec"]["parallelism"],
                job["spec"].get("completions", job["spec"]["parallelism"]),
            )
            running = not ended(job, "Complete") and not ended(job, "Failed")
            row["ready"] += running and status.get("ready", 0) + status.get("succeeded", 0) >= pods
        rows.append(row)
    return rows


def conditions(rows, wanted):
    """Completed when all Jobs are, Failed when one is."""
    if any(row["failed"] for row in rows):
        return [
            {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "jobset failed"}
        ]
    if sum(row["succeeded"] for row in rows) == wanted:
        text = "jobset completed successfully"
        return [
            {"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": text}
        ]
    return []


class JobSetController(Controller):
    name = "jobset-controller"

    def __init__(self, host, caches):
        super().__init__(host, caches)
        self.queue = host.queue("jobsets")
        self.jobsets = caches.of(JOBSETS)
        self.jobs = caches.of(JOBS, controller=controller_index)

    def handlers(self):
        return {
            JOBSETS: Handlers(
                lambda new: self.queue.add(new.key),
                lambda _old, new: self.queue.add(new.key),
                lambda old, _unknown: self.queue.add(old.key),
            ),
            JOBS: Handlers(
                self.job_changed,
                lambda _old, new: self.job_changed(new),
                lambda old, _unknown: self.job_changed(old),
            ),
        }

    def job_changed(self, job):
        for owner in job.metadata.get("ownerReferences", []):
            if owner["kind"] == "JobSet":
                self.queue.add(f"{job.namespace}/{owner['name']}")

    def work(self):
        return (Work("jobsets", self.sync),)

    def sync(self, key):
        jobset = self.jobsets.get(key)
        if jobset is None or jobset.metadata.get("deletionTimestamp"):
            return
        tree = jobset.tree
        over = bool(tree.get("status", {}).get("conditions"))
        own = self.jobs.by_index("controller", controller_keys(jobset.view)[0])
        there = {each.name: each.tree for each in own}
        wanted = wanted_jobs(tree)
        if over:
            for job in there.values():
                if not ended(job, "Complete") and not ended(job, "Failed"):
                    yield from calls.delete(
                        JOBS, jobset.namespace, job["metadata"]["name"],
                        calls.delete_options(propagation_policy="Background"),
                    )  # fmt: skip
            return
        for name, job in wanted.items():
            if name not in there:
                job["metadata"]["ownerReferences"] = [controller_reference(jobset.view)]
                yield from calls.create(JOBS, jobset.namespace, job)
            elif job["spec"]["suspend"] != there[name]["spec"].get("suspend", False):
                spec = {"suspend": job["spec"]["suspend"]}
                if not spec["suspend"]:
                    spec["template"] = started_template(there[name], job)
                yield from calls.patch(
                    JOBS,
                    jobset.namespace,
                    name,
                    {"spec": spec},
                    kind="application/merge-patch+json",
                )
        rows = counted(tree, list(there.values()))
        status = {"replicatedJobsStatus": rows, "conditions": conditions(rows, len(wanted))}
        if status != {"conditions": [], **tree.get("status", {})}:
            yield from calls.update(JOBSETS, {**tree, "status": status}, "status")


def started_template(job, wanted):
    """The parts of a pod template that change at a start; labels of the Job's controller stay."""
    now, new = job["spec"]["template"], wanted["spec"]["template"]
    spec = {
        name: new["spec"].get(name) for name in ("nodeSelector", "tolerations", "schedulingGates")
    }
    metadata = {
        name: {**now.get("metadata", {}).get(name, {}), **new["metadata"].get(name, {})}
        for name in ("labels", "annotations")
    }
    return {"metadata": metadata, "spec": spec}
