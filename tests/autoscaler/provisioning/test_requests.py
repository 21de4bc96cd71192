"""Requests for capacity: classes, conditions, pods."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.provisioning_requests import ATOMIC, CHECK_CAPACITY, condition
from controlplane.api.times import parse_time
from controlplane.autoscaler.provisioning import requests
from controlplane.autoscaler.provisioning.requests import NoPods, pods_of, with_condition

CREATED = "2026-01-01T00:00:00Z"
NOW = parse_time("2026-01-01T00:01:00Z")


def request(kind: str = CHECK_CAPACITY, **parameters: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": "r",
            "namespace": "default",
            "uid": "u",
            "generation": 1,
            "creationTimestamp": CREATED,
        },
        "spec": {
            "provisioningClassName": kind,
            "parameters": parameters,
            "podSets": [
                {"count": 2, "podTemplateRef": {"name": "one"}},
                {"count": 1, "podTemplateRef": {"name": "two"}},
            ],
        },
    }


@pytest.mark.parametrize(
    ("kind", "parameters", "handled"),
    [
        (CHECK_CAPACITY, {}, True),
        (CHECK_CAPACITY, {"processorInstance": "other"}, False),
        (ATOMIC, {}, True),
        ("queued-provisioning.gke.io", {}, False),
    ],
)
def test_two_classes_are_supported(kind, parameters, handled):
    assert requests.supported(request(kind, **parameters)) == handled


def test_a_condition_is_added_then_replaced_and_its_time_always_moves():
    one = with_condition(request(), "Provisioned", "False", "CapacityIsNotFound", "later", 0)
    two = with_condition(one, "Accepted", "True", "Accepted", "yes", 0)
    three = with_condition(two, "Provisioned", "False", "CapacityIsNotFound", "later", NOW)
    kinds = [each["type"] for each in three["status"]["conditions"]]
    assert kinds == ["Provisioned", "Accepted"]
    found = condition(three, "Provisioned")
    assert found is not None
    assert requests.since(found) == NOW
    assert not requests.is_booked(three)
    booked = with_condition(three, "Provisioned", "True", "CapacityIsFound", "yes", NOW)
    assert requests.is_booked(booked)
    over = with_condition(booked, "BookingExpired", "True", "X", "over", NOW)
    assert not requests.is_booked(over)


def test_pods_are_of_their_templates_and_owned_by_the_request():
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    template = {
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    }
    found = pods_of(request(), lambda _namespace, _name: template)
    assert [pod.name for pod in found] == ["r-0-0", "r-0-1", "r-1-0"]
    pod = found[0]
    assert (pod.uid, pod.metadata.labels) == ("default/r-0-0", {"a": "b"})
    assert requests.consumed(pod) == "r"
    assert pod.metadata.owner_references[0].uid == "u"
    assert str(pod.spec.containers[0].resources.requests["cpu"]) == "1"


def test_a_missing_template_is_named():
    def templates(_namespace: str, name: str) -> Any:
        return {"template": {}} if name == "one" else None

    with pytest.raises(NoPods) as error:
        pods_of(request(), templates)
    assert str(error.value) == (
        "missing pod templates, 2 pod templates were referenced, 1 templates were missing: two"
    )
