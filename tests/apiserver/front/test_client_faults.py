"""Rules for faults of clients outside: which requests and watches they concern, and malformed ones."""

from __future__ import annotations

import json

import pytest

from controlplane.apiserver.front.client_faults import ClientFaults, Subject, rule_of
from controlplane.apiserver.schema.api_error import ApiError


def faults(*rules):
    made = ClientFaults()
    for rule in rules:
        made.control("POST", json.dumps(rule).encode())
    return made


UPDATE = Subject("update", "pods/status", "default", "web", "kubectl/v1.36")


def test_a_rule_concerns_the_requests_that_its_patterns_meet():
    made = faults(
        {"action": "fail", "code": 409, "verb": "update", "resource": "pods*", "agent": "kubectl*"}
    )
    assert made.refusal(Subject("get", "pods", agent="kubectl/v1.36")) is None
    assert made.refusal(Subject("update", "nodes", agent="kubectl/v1.36")) is None
    assert made.refusal(Subject("update", "pods", agent="helm")) is None
    found = made.refusal(UPDATE)
    assert (found.code, found.reason) == (409, "Conflict")
    assert 'update pods/status "web"' in found.message
    assert made.refusal(UPDATE) is None


def test_after_lets_the_first_pass_and_times_counts_those_that_follow():
    made = faults({"action": "fail", "code": 500, "after": 1, "times": 2})
    assert [made.refusal(UPDATE) is not None for _ in range(4)] == [False, True, True, False]
    for_ever = faults({"action": "fail", "code": 500, "times": 0})
    assert all(for_ever.refusal(UPDATE) for _ in range(4))


@pytest.mark.parametrize(("code", "waits"), [(429, True), (503, True), (409, False), (500, False)])
def test_a_server_that_is_busy_says_how_long_to_wait(code, waits):
    found = faults({"action": "fail", "code": code}).refusal(UPDATE)
    assert ((found.details or {}).get("retryAfterSeconds") == 1) == waits


def test_rules_about_watches_leave_requests_alone():
    made = faults({"action": "cut"}, {"action": "fail", "code": 429, "times": 0})
    watch = Subject("watch", "pods")
    assert made.refusal(watch).code == 429
    assert made.of_events(watch).action == "cut"
    assert made.of_events(watch) is None


def test_rules_are_told_and_taken_away():
    made = faults({"action": "lag", "seconds": 5, "resource": "pods"})
    [told] = made.control("GET", b"")["rules"]
    assert (told["action"], told["seconds"], told["resource"], told["matched"]) == (
        "lag",
        5.0,
        "pods",
        0,
    )
    assert made.control("DELETE", b"") == {"rules": []}
    with pytest.raises(ApiError) as caught:
        made.control("PUT", b"")
    assert caught.value.code == 405


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "expected fail, cut, expire, lag"),
        (b'{"action": "cut", "x": 1}', "'x': expected one of"),
        (b'{"action": "fail"}', "code None: expected one of"),
        (b'{"action": "fail", "code": true}', "code True"),
        (b'{"action": "fail", "code": 418}', "code 418"),
        (b'{"action": "lag"}', "seconds None"),
        (b'{"action": "lag", "seconds": NaN}', "seconds nan"),
        (b'{"action": "cut", "times": -1}', "times -1"),
        (b'{"action": "cut", "after": 1.5}', "after 1.5"),
        (b'{"action": "cut", "agent": ""}', "agent: expected a pattern"),
    ],
)
def test_a_malformed_rule_is_refused_in_one_line(body, said):
    with pytest.raises(ApiError) as caught:
        rule_of(body)
    assert caught.value.code == 400
    assert said in caught.value.message
    assert "\n" not in caught.value.message
