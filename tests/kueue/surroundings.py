"""A small store of objects, and the surroundings of jobs in it."""

from __future__ import annotations

from typing import Any

from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import BUILT_IN, Surroundings
from tests.golden.answer_job_traces import JobServer

FRAMEWORKS = ("batch/job", "pod", "deployment", "statefulset")


def store(**objects: Any) -> JobServer:
    """A store with namespace `default` and objects by kind."""
    made = JobServer({"namespaces": [{"metadata": {"name": "default"}}]}, Gates())
    for kind, trees in objects.items():
        for tree in trees:
            made.put(kind, tree)
    return made


def around(
    server: JobServer | None = None, *, default_queue: bool = False, **gates: bool
) -> Surroundings:
    """Surroundings with all frameworks."""
    return Surroundings(
        server or store(),
        Gates(gates),
        {name: BUILT_IN[name] for name in FRAMEWORKS},
        manage_without_queue=False,
        namespaces=None,
        default_queue_exists=lambda _: default_queue,
    )


class Quiet:
    """Surroundings of a queue manager that do nothing."""

    def __getattr__(self, name):
        return lambda *_: None


def template(cpu: str = "1") -> Any:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}


def job(name: str = "work", queue: str = "user", parallelism: int = 3, **fields: Any) -> Any:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": named(name, queue),
        "spec": {"parallelism": parallelism, "suspend": True, "template": template(), **fields},
    }


def stateful_set(name: str = "db", queue: str = "user", replicas: int = 2) -> Any:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": named(name, queue),
        "spec": {"replicas": replicas, "template": template()},
    }


def deployment(name: str = "web", queue: str = "user", replicas: int = 2) -> Any:
    return {**stateful_set(name, queue, replicas), "kind": "Deployment"}


def named(name: str, queue: str) -> Any:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
