"""The inside of a container as clients see it that enter it later."""

from __future__ import annotations

from controlplane.api.container_inside import inside_of, services_at_start

SERVICES = [
    {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "creationTimestamp": f"2026-01-01T00:00:{at}Z",
        },
        "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 80}]},
    }
    for name, at in (("before", "09"), ("same", "10"), ("after", "11"))
]


def pod(**state):
    status = {"containerStatuses": [{"name": "c", "state": state}]}
    meta = {"name": "p", "namespace": "ns", "uid": "u"}
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}]}, "status": status}


def test_services_that_came_after_the_start_of_a_container_are_not_in_its_environment():
    running = pod(running={"startedAt": "2026-01-01T00:00:10Z"})
    found = services_at_start(running, "c", SERVICES)
    assert [each["metadata"]["name"] for each in found] == ["before", "same"]
    env = inside_of(running, "c", lambda *_: None, services=found).env
    assert env["BEFORE_SERVICE_HOST"] == "10.0.0.9"
    assert "AFTER_SERVICE_HOST" not in env


def test_a_container_that_does_not_run_has_those_of_now():
    assert services_at_start(pod(waiting={}), "c", SERVICES) == SERVICES
