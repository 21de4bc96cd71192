"""What an update of a status leaves alone, beside the spec."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import World

FLOW = {"group": "flowcontrol.apiserver.k8s.io", "namespace": ""}
POD = {"containers": [{"name": "c", "image": "i"}]}


def conditions(**extra: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"new": "1"}},
        "status": {"conditions": [{"type": "A", **extra}]},
    }


FLOW_SCHEMA = {"priorityLevelConfiguration": {"name": "p"}}
LEVEL = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
CLAIM = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
LOCAL = {"group": "a.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}


@pytest.mark.parametrize(
    ("resource", "name", "spec", "where", "change"),
    [
        ("flowschemas", "a", FLOW_SCHEMA, FLOW, conditions(status="True")),
        ("prioritylevelconfigurations", "a", LEVEL, FLOW, conditions(status="True")),
        (
            "servicecidrs",
            "a",
            {"cidrs": ["10.9.0.0/24"]},
            {"group": "networking.k8s.io", "namespace": ""},
            conditions(status="True"),
        ),
        (
            "apiservices",
            "v1.a.io",
            LOCAL,
            {"group": "apiregistration.k8s.io", "namespace": ""},
            conditions(status="True"),
        ),
        (
            "resourceclaims",
            "a",
            CLAIM,
            {"group": "resource.k8s.io"},
            {"metadata": {"labels": {"new": "1"}}, "status": {}},
        ),
    ],
)
def test_metadata_stays(
    resource: str, name: str, spec: Any, where: dict[str, str], change: Any
) -> None:
    world = World()
    body = {"metadata": {"name": name, "labels": {"old": "1"}}, "spec": spec}
    assert world.create(resource, body, **where).code == 201
    answer = world.patch(resource, name, change, sub="status", **where)
    assert answer.code == 200
    assert answer.tree["metadata"]["labels"] == {"old": "1"}


def test_a_daemon_set_keeps_the_count_of_its_template() -> None:
    world = World()
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD},
        },
    }
    world.create("daemonsets", body, group="apps")
    key = "deprecated.daemonset.template.generation"
    change = {"metadata": {"annotations": {key: "7", "mine": "1"}}}
    made = world.patch("daemonsets", "d", change, group="apps", sub="status")
    assert made.tree["metadata"]["annotations"] == {key: "1", "mine": "1"}


def test_the_status_of_a_range_of_services_is_written_through_its_endpoint_alone() -> None:
    world, where = World(), {"group": "networking.k8s.io", "namespace": ""}
    status = {
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "R",
                "message": "",
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            }
        ]
    }
    body = {"metadata": {"name": "a"}, "spec": {"cidrs": ["10.9.0.0/24"]}, "status": status}
    assert world.create("servicecidrs", body, **where).tree["status"] == {}
    made = world.patch("servicecidrs", "a", {"status": status}, sub="status", **where)
    assert made.tree["status"] == status
    made = world.patch("servicecidrs", "a", {"status": {"conditions": None}}, **where)
    assert made.tree["status"] == status


def test_an_api_service_is_replaced_by_version_only() -> None:
    world, where = World(), {"group": "apiregistration.k8s.io", "namespace": ""}
    body = {"metadata": {"name": "v1.a.io"}, "spec": LOCAL}
    world.create("apiservices", body, **where)
    assert world.do("update", "apiservices", "v1.a.io", body, **where).code == 422


RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "x"}


def test_devices_that_are_given_back_report_no_more() -> None:
    world, where = World(), {"group": "resource.k8s.io"}
    world.create("resourceclaims", {"metadata": {"name": "a"}, "spec": CLAIM}, **where)
    device = {"driver": "d", "pool": "p", "device": "x"}
    given = {"status": {"allocation": {"devices": {"results": [RESULT]}}, "devices": [device]}}
    made = world.patch("resourceclaims", "a", given, sub="status", **where)
    assert made.tree["status"]["devices"] == [{**device, "conditions": None}]
    made = world.patch(
        "resourceclaims", "a", {"status": {"allocation": None}}, sub="status", **where
    )
    assert made.tree["status"] == {}


def test_what_is_dropped_of_a_slice_counts_as_a_change() -> None:
    world, where = World(), {"group": "resource.k8s.io", "namespace": ""}
    spec = {
        "driver": "d",
        "nodeName": "n",
        "devices": [{"name": "x"}],
        "pool": {"name": "p", "resourceSliceCount": 1},
    }
    world.create("resourceslices", {"metadata": {"name": "a"}, "spec": spec}, **where)
    change = {"spec": {"devices": [{"name": "x", "nodeAllocatableResourceMappings": {"cpu": {}}}]}}
    made = world.patch("resourceslices", "a", change, **where)
    assert made.code == 200
    assert made.tree["spec"]["devices"] == [{"name": "x"}]
    assert made.tree["metadata"]["generation"] == 2


def test_topology_that_is_dropped_of_an_endpoint_slice_counts_as_a_change() -> None:
    world, where = World(), {"group": "discovery.k8s.io"}
    endpoint = {"addresses": ["10.1.0.1"]}
    body = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [endpoint]}
    world.create("endpointslices", body, **where)
    change = {"endpoints": [{**endpoint, "deprecatedTopology": {"a": "b"}}]}
    made = world.patch("endpointslices", "a", change, **where)
    assert "deprecatedTopology" not in made.tree["endpoints"][0]
    assert made.tree["metadata"]["generation"] == 2
