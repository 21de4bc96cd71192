"""Kueue: defaults of its objects; defaults and validation of batch/Jobs and pods."""

from __future__ import annotations

from typing import Any

from controlplane.api.labels import Requirement, Selector
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import BUILT_IN, AncestorError, Surroundings
from controlplane.kueue.webhooks.batch_jobs import validate_job
from controlplane.kueue.webhooks.defaults import (
    default_job,
    default_pod,
    default_workload,
    with_in_use,
)
from controlplane.kueue.webhooks.plain_pods import pod_warnings, validate_pod
from tests.golden.answer_webhook_validation import without_address
from tests.golden.kueue_server import Server

NOWHERE = Selector((Requirement("nowhere", "Exists"),))


def around_of(case: Any, server: Server) -> Surroundings:
    return Surroundings(
        reader=server,
        gates=Gates(case.get("gates")),
        frameworks={name: BUILT_IN[name] for name in ("batch/job", "pod")},
        manage_without_queue=case.get("manageJobsWithoutQueueName", False),
        namespaces=None if case.get("managedNamespaces", "all") == "all" else NOWHERE,
        default_queue_exists=lambda name: server.get("LocalQueue", name, "default") is not None,
    )


def answer(case: Any) -> Any:
    gates = Gates(case.get("gates"))
    new, old, kind = case["object"], case.get("oldObject"), case["kind"]
    if kind in {"ClusterQueue", "ResourceFlavor"}:
        return {"object": with_in_use(new)}
    if kind == "Workload":
        return {"object": default_workload(new, gates)}
    around = around_of(case, Server(case["world"]))
    default, validate = {
        "Job": (default_job, validate_job),
        "Pod": (default_pod, validate_pod),
    }[kind]
    if old is not None:
        return {"updateErrors": shown(validate(new, old, around))}
    said: Any = {}
    try:
        new = default(new, around)
    except AncestorError as error:
        said["defaultError"] = str(error)
    said |= {"object": new, "createErrors": shown(validate(new, None, around))}
    if kind == "Pod" and (warnings := pod_warnings(new, None, around)):
        said["warnings"] = warnings
    return said


def shown(errors: Any) -> Any:
    return sorted(without_address(str(error)) for error in errors)
