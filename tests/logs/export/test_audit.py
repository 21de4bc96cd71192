"""Audit lines are events of audit.k8s.io/v1."""

from __future__ import annotations

import json
import re
import uuid

import pytest

from controlplane.logs.export import audit
from tests.logs.made import Made, event

REQUIRED = {"kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user"}
KNOWN = REQUIRED | {
    "sourceIPs",
    "userAgent",
    "objectRef",
    "responseStatus",
    "requestReceivedTimestamp",
    "stageTimestamp",
    "annotations",
}
VERBS = {
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
}
MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def events_of(log) -> list[dict]:
    return [json.loads(text) for text in audit.lines(log)]


def check(found: list[dict]) -> None:
    for each in found:
        assert REQUIRED <= set(each) <= KNOWN
        assert (each["kind"], each["apiVersion"]) == ("Event", "audit.k8s.io/v1")
        assert each["level"] == "Metadata"
        assert each["stage"] in ("ResponseStarted", "ResponseComplete")
        assert each["verb"] in VERBS
        assert each["requestURI"].startswith(("/api/v1/", "/apis/"))
        assert each["user"]["username"]
        for key in ("requestReceivedTimestamp", "stageTimestamp"):
            assert MICRO.fullmatch(each[key])
        assert each["requestReceivedTimestamp"] <= each["stageTimestamp"]
        assert all(isinstance(value, str) for value in each["annotations"].values())
        status = each["responseStatus"]
        assert 100 <= status["code"] < 600
        assert ("reason" in status) == ("status" in status) == (status["code"] >= 400)
        assert all(each["objectRef"].values())
    ids = [(str(uuid.UUID(each["auditID"])), each["stage"]) for each in found]
    assert len(set(ids)) == len(ids)


def test_a_real_run_has_one_event_for_each_request(run_log, run_lines):
    found = events_of(run_log)
    check(found)
    requests = [
        line.data["message"]
        for line in run_lines
        if line.event == "message" and line.actor == "apiserver"
    ]
    told = [
        f"{e['verb']} {'/'.join(e['objectRef'][k] for k in ('resource', 'subresource') if k in e['objectRef'])}"
        for e in found
        if e["verb"] != "watch" or e["stage"] == "ResponseStarted"
    ]
    assert sorted(told) == sorted(requests)  # one may be answered before another that came first


def test_a_watch_is_told_when_it_begins_and_when_it_ends_all_else_when_it_is_answered(run_log):
    found = events_of(run_log)
    stages = {(each["verb"] == "watch", each["stage"]) for each in found}
    assert stages == {
        (True, "ResponseStarted"),
        (True, "ResponseComplete"),
        (False, "ResponseComplete"),
    }
    begun = {e["auditID"]: e for e in found if e["stage"] == "ResponseStarted"}
    ended = [e for e in found if e["verb"] == "watch" and e["stage"] == "ResponseComplete"]
    for each in ended:
        same = begun[each["auditID"]]
        assert each["requestURI"] == same["requestURI"]
        assert each["requestReceivedTimestamp"] == same["requestReceivedTimestamp"]
        assert each["stageTimestamp"] >= same["stageTimestamp"]


def test_objects_that_were_sent_are_named_with_uid_and_version(run_log):
    """As upstream: of what a create or an update sends, and of nothing else."""
    found = events_of(run_log)
    updates = [e["objectRef"] for e in found if e["verb"] == "update"]
    assert any(uuid.UUID(ref["uid"]) and ref["resourceVersion"] for ref in updates if "uid" in ref)
    assert all("name" in e["objectRef"] for e in found if e["verb"] == "create")
    for each in found:
        if each["verb"] in ("get", "list", "watch", "patch", "delete"):
            assert not {"uid", "resourceVersion"} & each["objectRef"].keys()


def test_refusals_have_the_reason_that_the_client_was_told(run_log):
    reasons = [
        (e["verb"], e["objectRef"]["resource"], e["responseStatus"]["reason"])
        for e in events_of(run_log)
        if e["responseStatus"]["code"] == 409
    ]
    assert ("create", "pods", "AlreadyExists") in reasons
    assert ("update", "configmaps", "Conflict") in reasons


@pytest.mark.parametrize(
    ("code", "reason"),
    [(404, "NotFound"), (409, "Conflict"), (422, "Invalid"), (429, "TooManyRequests")],
)
def test_without_a_write_the_reason_is_the_usual_one(code, reason):
    asked = event(
        3,
        "apiserver.audited",
        "Pod/d/p",
        actor="apiserver",
        level="trace",
        t=2.5,
        verb="get",
        uri="/api/v1/namespaces/d/pods/p",
        user="u",
        groups=["g"],
        agent="a",
        version="v1",
        resource="pods",
        code=code,
        began_ns=1_000_001_999,
    )
    (found,) = events_of(Made((asked,)))
    check([found])
    assert found["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "code": code,
    }
    assert found["requestReceivedTimestamp"] == "2026-01-01T00:00:01.000001Z"
    assert found["stageTimestamp"] == "2026-01-01T00:00:02.500000Z"
