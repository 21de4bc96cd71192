"""What the event log and the audit log tell of a request."""

from __future__ import annotations

import pytest

from controlplane.api.request import ADMIN, Request
from controlplane.apiserver.requests.request_events import About, audited, place_of, uri_of, written
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.apiserver.schema.status import ApiError


def info_of(group, version, resource):
    found = builtin_resources().get(group, version, resource)
    if found is None:
        raise ApiError(404, "NotFound", "no such resource")
    return found


def about(verb, resource, name="", body=None, subresource="", group="", version="v1"):
    return About.of(
        Request(
            verb, group, version, resource, "shop", name, subresource, body=body, user_agent="a"
        )
    )


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        (about("update", "pods", "p"), "Pod/shop/p"),
        (about("create", "pods", "p", subresource="binding"), "Pod/shop/p"),
        (about("create", "pods", body={"metadata": {"name": "p"}}), "Pod/shop/p"),
        (about("create", "pods", body={"metadata": {"generateName": "p-"}}), "Pod/shop/p-*"),
        (about("deletecollection", "pods"), "Pod/shop/*"),
        (about("update", "widgets", "w"), "widgets/shop/w"),
    ],
)
def test_an_object_has_one_name_whatever_was_asked_of_it(asked, place):
    assert place_of(asked, info_of, None) == place


def test_the_uid_is_of_the_answer_else_the_one_that_the_client_meant():
    bind = about("create", "pods", "p", {"metadata": {"uid": "u1"}}, "binding")
    assert written(bind, info_of, {"kind": "Status"}, 201, "")[1] == "u1"
    delete = about("delete", "pods", "p", {"preconditions": {"uid": "u2", "resourceVersion": "7"}})
    gone = {"kind": "Status", "details": {"uid": "u3"}}
    assert written(delete, info_of, gone, 200, "")[1] == "u3"
    _, uid, data = written(delete, info_of, {"kind": "Status"}, 409, "Conflict")
    assert uid == "u2"
    assert data == {
        "verb": "delete pods",
        "code": 409,
        "by": "a",
        "reason": "Conflict",
        "based_on": 7,
    }


@pytest.mark.parametrize("version", ["", "x", "٣", "9" * 30, 4])
def test_a_version_that_is_no_number_is_nothing_to_be_based_on(version):
    update = about("update", "pods", "p", {"metadata": {"resourceVersion": version}})
    assert "based_on" not in written(update, info_of, None, 400, "BadRequest")[2]


def test_the_uri_is_what_a_client_would_have_asked():
    scale = about("patch", "deployments", "web", subresource="scale", group="apps")
    path = "/apis/apps/v1/namespaces/shop/deployments/web/scale"
    assert uri_of(scale, {"fieldManager": "k s"}) == f"{path}?fieldManager=k+s"
    kept = audited(scale, ADMIN, path, 200, 5, {"k": "v"})
    assert (kept["group"], kept["subresource"], kept["annotations"]) == (
        "apps",
        "scale",
        {"k": "v"},
    )


@pytest.mark.parametrize(
    ("held", "state"),
    [
        ({}, None),
        ({"QuotaReserved": False}, "pending (Because): text"),
        ({"QuotaReserved": True}, "quota reserved in queue"),
        ({"QuotaReserved": True, "Admitted": True}, "admitted in queue"),
        (
            {"QuotaReserved": True, "Admitted": True, "Evicted": True},
            "evicted (Because): text",
        ),
        ({"QuotaReserved": True, "Evicted": True, "Finished": True}, "finished (Because)"),
    ],
)
def test_a_workload_of_kueue_says_how_far_it_is(held, state):
    conditions = [
        {"type": name, "status": str(value), "reason": "Because", "message": "text"}
        for name, value in held.items()
    ]
    tree = {"status": {"conditions": conditions, "admission": {"clusterQueue": "queue"}}}
    asked = about(
        "patch", "workloads", "w", subresource="status", group="kueue.x-k8s.io", version="v1beta2"
    )
    assert written(asked, info_of, tree, 200, "")[2].get("state") == state


def test_a_workload_of_kueue_says_which_checks_it_waits_for():
    checks = [
        {"name": "a", "state": "Ready", "message": "there"},
        {"name": "b", "state": "Pending", "message": ""},
        {"name": "c", "state": "Retry", "message": "no nodes"},
    ]
    reserved = {"type": "QuotaReserved", "status": "True"}
    status = {
        "conditions": [reserved],
        "admission": {"clusterQueue": "queue"},
        "admissionChecks": checks,
    }
    asked = about("patch", "workloads", "w", group="kueue.x-k8s.io", version="v1beta2")
    state = written(asked, info_of, {"status": status}, 200, "")[2]["state"]
    assert state == "quota reserved in queue, check b is Pending, check c is Retry (no nodes)"
    admitted = {"type": "Admitted", "status": "True"}
    status = {**status, "conditions": [reserved, admitted]}
    assert written(asked, info_of, {"status": status}, 200, "")[2]["state"] == "admitted in queue"


def test_a_workload_of_kueue_says_what_it_uses_and_for_which_object():
    assigned = {
        "name": "main",
        "count": 4,
        "flavors": {"cpu": "spot", "memory": "spot", "gpu": "a100"},
        "resourceUsage": {"cpu": "4", "memory": "1Gi", "gpu": "2"},
    }
    admitted = {"type": "Admitted", "status": "True", "reason": "Admitted", "message": ""}
    owner = {"kind": "Job", "name": "train", "controller": True}
    tree = {
        "metadata": {"namespace": "default", "ownerReferences": [owner]},
        "status": {
            "conditions": [admitted],
            "admission": {"clusterQueue": "queue", "podSetAssignments": [assigned]},
        },
    }
    asked = about("patch", "workloads", "w", group="kueue.x-k8s.io", version="v1beta2")
    data = written(asked, info_of, tree, 200, "")[2]
    assert data["state"] == (
        "admitted in queue: 4 pods of main use cpu 4, memory 1Gi of spot; gpu 2 of a100"
    )
    assert data["owner"] == "Job/default/train"


@pytest.mark.parametrize(("suspend", "state"), [(True, "suspended"), (False, None), (None, None)])
def test_a_suspended_job_says_so(suspend, state):
    asked = about("patch", "jobs", "j", group="batch", version="v1")
    tree = {"spec": {} if suspend is None else {"suspend": suspend}}
    assert written(asked, info_of, tree, 200, "")[2].get("state") == state
