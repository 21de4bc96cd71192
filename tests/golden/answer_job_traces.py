"""Kueue: jobs and pods reconciled step by step; nothing else acts but what the steps say."""

from __future__ import annotations

import copy
import json
from typing import Any

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Create,
    Delete,
    Effect,
    MergePatch,
    ReconcileError,
    Update,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import BUILT_IN, Surroundings
from controlplane.kueue.jobs.batch import BatchJob
from controlplane.kueue.jobs.expectations import Expectations
from controlplane.kueue.jobs.pod_jobs import PodJob
from controlplane.kueue.jobs.reconciler import JobController
from controlplane.kueue.names import ADMISSION_MANAGER, RECLAIMABLE_PODS_MANAGER
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_patch import replace_owned
from tests.golden.kueue_server import Server, without_empty
from tests.golden.runner import difference

START = parse_time("2025-03-01T12:00:00Z")


class JobServer(Server):
    """Deletes as a real server does: an object with finalizers is only marked."""

    def __init__(self, world: Any, gates: Gates) -> None:
        super().__init__(world)
        self.now, self.gates = START, gates
        self.expectations = Expectations()
        self.recorded: list[Any] = []
        if "job" in world:
            self.put("Job", world["job"])
        for pod in world.get("pods", ()):
            self.put("Pod", pod)
        self.seen = {**self.flat()}

    def flat(self) -> dict[str, Any]:
        return {
            f"{kind}/{name}": tree
            for kind in ("Job", "Pod", "Workload")
            for (_, name), tree in self.objects.get(kind, {}).items()
        }

    def store(self, kind: str, tree: Any) -> Any:
        """Keep a changed object; one that is being deleted goes with its last finalizer."""
        metadata = tree["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.objects[kind].pop(key, None)
            return tree
        return self.put(kind, tree)

    def remove(self, kind: str, tree: Any) -> None:
        metadata = tree["metadata"]
        current = self.get(kind, metadata.get("namespace", ""), metadata["name"])
        if current is None:
            return
        marked = {**current["metadata"], "deletionTimestamp": format_time(self.now)}
        self.store(kind, {**current, "metadata": marked})

    def carry_out(self, effect: Effect) -> Any:
        if not isinstance(effect, ApplyStatus | Create | Delete | MergePatch | Update):
            return super().carry_out(effect)
        metadata = effect.body["metadata"]
        old = self.get(effect.kind, metadata.get("namespace", ""), metadata["name"])
        write = {"kind": effect.kind, "name": metadata["name"]}
        if isinstance(effect, Delete):
            self.recorded.append({**write, "verb": "delete"})
            self.remove(effect.kind, effect.body)
            return None
        if isinstance(effect, Create):
            made = {
                **metadata,
                "uid": f"uid-{metadata['name']}",
                "creationTimestamp": format_time(self.now),
                "generation": 1,
            }
            new = {**effect.body, "metadata": made}
            self.recorded.append({**write, "verb": "create", "body": shown(new)})
            return self.store(effect.kind, new)
        if isinstance(effect, ApplyStatus):
            new = {**old, "status": applied(old.get("status", {}), effect)}
            if effect.kind != "Pod":
                body = {"fieldManager": effect.manager}
                part = {k: v for k, v in effect.body.get("status", {}).items() if v not in ([], {})}
                if part:
                    body["status"] = part
                self.recorded.append(
                    {**write, "verb": "apply", "subresource": "status", "body": body}
                )
            return self.store(effect.kind, new)
        if effect.subresource:
            write["subresource"] = effect.subresource
        if isinstance(effect, MergePatch):
            difference = merge_patch(plain(effect.old), plain(effect.body)) or {}
            text = json.dumps(difference, sort_keys=True, separators=(",", ":"))
            body = {"type": "application/merge-patch+json", "patch": text}
            self.recorded.append({**write, "verb": "patch", "body": body})
            new = effect.body
        else:
            new = effect.body
            self.recorded.append({**write, "verb": "update", "body": shown(new)})
            if plain(old["spec"]) != plain(new["spec"]):
                generation = old["metadata"].get("generation", 0) + 1
                new = {**new, "metadata": {**new["metadata"], "generation": generation}}
        return self.store(effect.kind, new)


def plain(tree: Any) -> Any:
    """A tree as Go writes it: without empty maps and lists."""
    if isinstance(tree, dict):
        kept = {name: plain(value) for name, value in tree.items()}
        return {
            name: value
            for name, value in kept.items()
            if value not in (None, [], {}) or (name == "metadata" and value == {})
        }
    return tree


def merge_patch(old: Any, new: Any) -> Any:
    """The JSON merge patch from one object to another, None when they agree."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None if old == new else new
    if "metadata" in old or "metadata" in new:
        old, new = {"metadata": {}, **old}, {"metadata": {}, **new}
    patch = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old:
            patch[name] = value
        elif (part := merge_patch(old[name], value)) is not None:
            patch[name] = part
    return patch or None


def applied(old: Any, effect: ApplyStatus) -> Any:
    part = effect.body.get("status", {})
    if effect.manager == ADMISSION_MANAGER:
        return replace_owned(old, part)
    new = {**old, **{name: value for name, value in part.items() if name != "conditions"}}
    if effect.manager == RECLAIMABLE_PODS_MANAGER and "reclaimablePods" not in part:
        new.pop("reclaimablePods", None)
    if part.get("conditions"):
        by_type = {each["type"]: each for each in old.get("conditions", ())}
        by_type |= {each["type"]: each for each in part["conditions"]}
        new["conditions"] = list(by_type.values())
    return new


def shown(tree: Any) -> Any:
    found = without_empty(tree)
    if found["metadata"].get("deletionTimestamp"):
        found["metadata"]["deletionTimestamp"] = "<set>"
    return found


def compare(want: Any, got: Any) -> str | None:
    """The first difference; the order of conditions in a written body is that of a fake client, and left out."""
    return difference(without_order(want), without_order(got))


def without_order(value: Any) -> Any:
    if isinstance(value, dict):
        plain = {name: without_order(part) for name, part in value.items()}
        if isinstance(plain.get("conditions"), list):
            plain["conditions"] = sorted(plain["conditions"], key=lambda each: str(each["type"]))
        return plain
    if isinstance(value, list):
        return [without_order(each) for each in value]
    return value


def answer(case: Any) -> Any:
    gates = Gates(case.get("gates"))
    server = JobServer(case["world"], gates)
    around = Surroundings(
        reader=server,
        gates=gates,
        frameworks={name: BUILT_IN[name] for name in ("batch/job", "pod")},
        manage_without_queue=case.get("manageJobsWithoutQueueName", False),
        namespaces=None,
        default_queue_exists=lambda name: server.get("LocalQueue", name, "default") is not None,
    )
    controller = JobController(
        around, lambda: server.now, waits_for_pods=case.get("waitForPodsReady", False)
    )
    job_name = case["world"].get("job", {}).get("metadata", {}).get("name", "")
    said = []
    for step in case["steps"]:
        if step["op"] in {"reconcile", "reconcilePod"}:
            said.append(reconcile(server, controller, around, step, job_name))
        else:
            act(server, step, job_name)
            said.append({})
    return {"steps": said}


def reconcile(server: JobServer, controller: Any, around: Any, step: Any, job_name: str) -> Any:
    server.recorded, server.events = [], []
    if step["op"] == "reconcile":
        job, key = BatchJob(around, server.now), ("default", job_name)
    else:
        job = PodJob(around, server.now, expectations=server.expectations)
        key = ("group/default" if step.get("text") == "group" else "default", step["name"])
    said: Any = {}
    try:
        done = server.run(controller.reconcile(job, *key))
        if done.requeue_after:
            said["requeueAfterSeconds"] = done.requeue_after / SECOND
    except ReconcileError as error:
        said["error"] = str(error)
    flat = server.flat()
    changed: Any = {
        name: shown(tree)
        for name, tree in flat.items()
        if name not in server.seen or shown(server.seen[name]) != shown(tree)
    }
    changed |= {name: "gone" for name in server.seen if name not in flat}
    server.seen = flat
    if changed:
        said["objects"] = changed
    if server.recorded:
        said["writes"] = pods_sorted(server.recorded)
    if server.events:
        said["events"] = sorted(server.events)
    return said


def pods_sorted(writes: Any) -> Any:
    """Writes in order; those of pods, which follow one another, as the recorded answers sort them."""
    kept: list[Any] = []
    for write in writes:
        kept.append(write)
        first = len(kept)
        while first and kept[first - 1]["kind"] == "Pod" and write["kind"] == "Pod":
            first -= 1
        kept[first:] = (
            sorted(kept[first:], key=lambda each: json.dumps(each, sort_keys=True))
            if write["kind"] == "Pod"
            else kept[first:]
        )
    return kept


def act(server: JobServer, step: Any, job_name: str) -> None:
    """One step that is not a reconcile."""
    name = step.get("name", "")
    if step["op"] == "advance":
        server.now += step["seconds"] * SECOND
        return
    if step["op"] == "podCreate":
        pod = step["pod"]
        server.store("Pod", {**pod, "metadata": {"generation": 1, **pod["metadata"]}})
        return
    kind = "Job" if step["op"].startswith("job") else "Pod"
    if step["op"] in {"admit", "evict", "deactivate", "deleteWorkload"}:
        kind = "Workload"
    tree = server.get(kind, "default", job_name if kind == "Job" else name)
    if tree is None:
        return
    if step["op"] in {"podDelete", "jobDelete", "deleteWorkload"}:
        server.remove(kind, tree)
        return
    changed = ACTIONS[step["op"]](server, copy.deepcopy(tree), step)
    again = step["op"] == "deactivate" and changed["spec"] == tree["spec"]
    if step["op"] in COUNTED and not again:
        generation = tree["metadata"].get("generation", 0) + 1
        changed = {**changed, "metadata": {**changed["metadata"], "generation": generation}}
    server.store(kind, changed)


def admit(server: JobServer, tree: Any, step: Any) -> Any:
    tree = status.working_copy(tree)
    status.set_quota_reservation(tree, step["admission"], server.now)
    tree["status"]["admissionChecks"] = step.get("admissionChecks", [])
    status.sync_admitted(tree, server.now, server.gates)
    return tree


def evict(server: JobServer, tree: Any, step: Any) -> Any:
    tree = status.working_copy(tree)
    new = status.condition(tree, "Evicted", step["reason"], step["message"], server.now)
    status.remove_condition(tree, "Evicted")
    status.set_condition(tree, new)
    return tree


def deactivate(server: JobServer, tree: Any, step: Any) -> Any:
    return {**tree, "spec": {**tree["spec"], "active": False}}


def job_status(server: JobServer, tree: Any, step: Any) -> Any:
    return {**tree, "status": step["status"]}


def job_labels(server: JobServer, tree: Any, step: Any) -> Any:
    return {**tree, "metadata": {**tree["metadata"], "labels": step.get("labels", {})}}


def job_parallelism(server: JobServer, tree: Any, step: Any) -> Any:
    return {**tree, "spec": {**tree["spec"], "parallelism": step["value"]}}


def job_image(server: JobServer, tree: Any, step: Any) -> Any:
    tree["spec"]["template"]["spec"]["containers"][0]["image"] = step["text"]
    return tree


def job_suspend(server: JobServer, tree: Any, step: Any) -> Any:
    return {**tree, "spec": {**tree["spec"], "suspend": step["text"] == "true"}}


def pod_phase(server: JobServer, tree: Any, step: Any) -> Any:
    new = {"phase": step["phase"]}
    if step.get("ready"):
        new["conditions"] = [{"type": "Ready", "status": "True"}]
    return {**tree, "status": new}


def pod_annotations(server: JobServer, tree: Any, step: Any) -> Any:
    annotations = {**tree["metadata"].get("annotations", {}), **step["labels"]}
    return {**tree, "metadata": {**tree["metadata"], "annotations": annotations}}


COUNTED = ("jobParallelism", "jobTemplateImage", "jobSuspend", "deactivate")
ACTIONS = {
    "admit": admit,
    "evict": evict,
    "deactivate": deactivate,
    "jobStatus": job_status,
    "jobLabels": job_labels,
    "jobParallelism": job_parallelism,
    "jobTemplateImage": job_image,
    "jobSuspend": job_suspend,
    "podPhase": pod_phase,
    "podAnnotations": pod_annotations,
}
