"""Answers to admission reviews."""

from __future__ import annotations

import base64
import json

from controlplane.kueue.webhooks.review import mutate, validate
from tests.kueue.objects import cluster_queue
from tests.kueue.surroundings import around, job


def request(kind, tree, old=None):
    return {"kind": {"kind": kind}, "object": tree, "oldObject": old, "namespace": "default"}


def patch(response):
    return json.loads(base64.b64decode(response["patch"]))


def test_a_cluster_queue_gets_its_finalizer():
    response = mutate(request("ClusterQueue", cluster_queue("queue", {"default": 4})), around())
    assert response["patchType"] == "JSONPatch"
    assert {each["path"]: each["value"] for each in patch(response)}["/metadata/finalizers"] == [
        "kueue.x-k8s.io/resource-in-use"
    ]


def test_a_job_that_runs_is_suspended():
    response = mutate(request("Job", job(suspend=False)), around())
    assert patch(response) == [{"op": "replace", "path": "/spec/suspend", "value": True}]
    assert mutate(request("Job", job()), around()) == {"allowed": True}
    assert mutate(request("Job", job(queue="", suspend=False)), around()) == {"allowed": True}


def test_refusals_name_the_field():
    wrong = cluster_queue("queue", {"default/cpu": (4, 2)})
    response = validate(request("ClusterQueue", wrong), around())
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert "borrowingLimit" in response["status"]["message"]
    good = cluster_queue("queue", {"default/cpu": (4, 2)}, "cohort")
    assert validate(request("ClusterQueue", good), around()) == {"allowed": True}


def test_the_queue_of_a_running_job_stays():
    running = job(suspend=False)
    response = validate(request("Job", job(queue="other", suspend=False), running), around())
    assert "field is immutable" in response["status"]["message"]
