"""Endpoints in a world: one object per service with a selector."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.client.resources import DEPLOYMENTS, ENDPOINTS, SERVICES
from controlplane.controllers.network.endpoints import subsets
from controlplane.controllers.network.endpoints.controller import (
    MANAGED_BY,
    MANAGER,
    OVER_CAPACITY,
    EndpointsController,
)
from controlplane.controllers.network.endpoints.subsets import CAPACITY, Entry
from tests.controllers.worlds import Small, template, workload
from tests.golden.controller_world import World

LABELS = {"app": "web"}
SPEC = {"selector": LABELS, "ports": [{"name": "http", "port": 80}]}
SERVICE = workload(SERVICES, "Service", "web", SPEC)


def deployment(replicas: int, **more: Any) -> Any:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": template(LABELS, **more),
    }
    return workload(DEPLOYMENTS, "Deployment", "web", spec)


def endpoints(small: Small) -> dict[str, Any]:
    return {obj.name: obj.tree for obj in small.objects("services/endpoints")}


def test_endpoints_have_the_addresses_of_ready_pods_and_go_with_their_service():
    async def delete(client, _ctx):
        await client.delete(SERVICES, "default", "gone")

    gone = workload(SERVICES, "Service", "gone", SPEC)
    small = Small(("endpoint",), SERVICE, gone, deployment(2), 30, delete).run()
    found = endpoints(small)
    assert "gone" not in found
    (subset,) = found["web"]["subsets"]
    assert [each["ip"] for each in subset["addresses"]] == sorted(
        obj.view.status.pod_ip for obj in small.objects("pods")
    )
    assert subset["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]
    assert found["web"]["metadata"]["labels"] == {MANAGED_BY: MANAGER}


def test_what_a_client_deleted_comes_back():
    async def delete(client, _ctx):
        await client.delete(ENDPOINTS, "default", "web")

    small = Small(("endpoint",), SERVICE, deployment(1), 30, delete).run()
    assert len(endpoints(small)["web"]["subsets"]) == 1


def pod(number: int, *, ready: bool = True) -> dict[str, Any]:
    ip = f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
    name = f"p{number:04}"
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": LABELS},
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def written(pods: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    service = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "labels": {"team": "x"}},
        "spec": {"selector": LABELS, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], **spec},
    }
    world = World({"Service": [service], "Pod": pods})
    controller = EndpointsController(world, world.caches)
    world.fill()
    world.run(controller.sync("ns/web"))
    (request,) = world.requests
    assert (request["verb"], request["resource"]) == ("create", "endpoints")
    found: dict[str, Any] = request["object"]
    return found


PORTS = [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]


def test_more_than_a_thousand_addresses_are_cut_off_those_not_ready_first():
    pods = [pod(number, ready=number < 990) for number in range(1100)]
    found = written(pods, ports=PORTS)
    (subset,) = found["subsets"]
    assert (len(subset["addresses"]), len(subset["notReadyAddresses"])) == (990, 10)
    assert found["metadata"]["annotations"][OVER_CAPACITY] == "truncated"
    (subset,) = written([pod(number) for number in range(1100)], ports=PORTS)["subsets"]
    assert len(subset["addresses"]) == CAPACITY


def test_a_headless_service_needs_no_ports():
    found = written([pod(1), pod(2, ready=False)], clusterIP="None")
    (subset,) = found["subsets"]
    assert "ports" not in subset
    assert [each["ip"] for each in subset["addresses"]] == ["10.0.0.2"]
    assert [each["ip"] for each in subset["notReadyAddresses"]] == ["10.0.0.3"]
    assert found["metadata"]["labels"] == {
        "team": "x",
        MANAGED_BY: MANAGER,
        "service.kubernetes.io/headless": "",
    }


ENTRIES = st.lists(
    st.builds(
        Entry,
        st.integers(1, 4).map(lambda n: {"ip": f"10.0.0.{n}", "targetRef": {"uid": f"u{n}"}}),
        st.integers(1, 3).map(lambda n: {"port": n, "protocol": "TCP"}),
        st.booleans(),
    )
)


@given(ENTRIES)
def test_subsets_hold_every_address_with_every_port_once(entries):
    wanted = {}
    for address, port, ready in entries:
        key = address["ip"], port["port"]
        wanted[key] = wanted.get(key, True) and ready
    found = [
        (address["ip"], port["port"], name == "addresses")
        for subset in subsets.pack(entries)
        for name in ("addresses", "notReadyAddresses")
        for address in subset.get(name, ())
        for port in subset["ports"]
    ]
    assert sorted(found) == sorted((*key, ready) for key, ready in wanted.items())
    assert subsets.pack(reversed(entries)) == subsets.pack(entries)
