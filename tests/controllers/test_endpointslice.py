"""EndpointSlices in a world: they follow the pods of a service, and are not packed from stale caches."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.service import Service
from controlplane.client.resources import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    SERVICES,
)
from controlplane.controllers.common.effects import Retry
from controlplane.controllers.network.endpointslice import controller as controller_module
from controlplane.controllers.network.endpointslice import endpoints, packing
from controlplane.controllers.network.endpointslice.controller import EndpointSliceController
from controlplane.controllers.network.endpointslice.topology import TopologyCache
from controlplane.controllers.network.endpointslice.tracker import SliceTracker
from controlplane.decisions import Point
from tests.controllers.worlds import Small, template, workload
from tests.golden.controller_world import World

LABELS = {"app": "web"}
SERVICE = workload(SERVICES, "Service", "web", {"selector": LABELS, "ports": [{"port": 80}]})


def deployment(replicas: int) -> Any:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": template(LABELS),
    }
    return workload(DEPLOYMENTS, "Deployment", "web", spec)


def addresses(small: Small) -> list[str]:
    slices = small.objects("endpointslices")
    return sorted(
        address
        for obj in slices
        for each in obj.tree["endpoints"]
        if each["conditions"]["ready"]
        for address in each["addresses"]
    )


def test_slices_hold_the_addresses_of_the_pods_that_are_ready():
    small = Small(("endpointslice",), SERVICE, deployment(3)).run()
    wanted = sorted(obj.view.status.pod_ip for obj in small.objects("pods"))
    assert len(wanted) == 3
    assert addresses(small) == wanted
    (found,) = small.objects("endpointslices")
    assert found.tree["metadata"]["labels"][packing.SERVICE_NAME] == "web"
    assert found.tree["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]


def test_slices_follow_when_pods_go():
    async def scale(client, _ctx):
        patch = {"spec": {"replicas": 1}}
        await client.patch(DEPLOYMENTS, "default", "web", patch)

    small = Small(("endpointslice",), SERVICE, deployment(3), 30, scale).run()
    (pod,) = [obj.view for obj in small.objects("pods")]
    assert addresses(small) == [pod.status.pod_ip]


def test_a_service_without_pods_has_a_slice_without_endpoints():
    small = Small(("endpointslice",), SERVICE).run()
    (found,) = small.objects("endpointslices")
    assert not found.tree.get("endpoints")


def test_a_slice_that_a_client_deleted_comes_back():
    async def delete(client, _ctx):
        (found,) = (await client.list(ENDPOINT_SLICES, "default")).items
        await client.delete(ENDPOINT_SLICES, "default", found.name)

    small = Small(("endpointslice",), SERVICE, deployment(2), 30, delete).run()
    assert len(addresses(small)) == 2


def service(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "web",
            "namespace": "ns",
            "uid": "u",
            "creationTimestamp": "2026-03-01T11:00:00Z",
        },
        "spec": {"selector": LABELS, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], **spec},
    }


def test_a_sync_over_a_cache_that_lags_behind_its_own_writes_is_refused():
    world = World({"Service": [service()]})
    controller = EndpointSliceController(world, world.caches)
    world.fill()
    world.run(controller.sync("ns/web"))
    assert [each["verb"] for each in world.requests] == ["create"]
    with pytest.raises(Retry, match="EndpointSlice informer cache is out of date"):
        world.run(controller.sync("ns/web"))
    assert len(world.requests) == 1


def slice_tree(uid: str, generation: int) -> dict[str, Any]:
    labels = {packing.SERVICE_NAME: "web", packing.MANAGED_BY: packing.MANAGER}
    return {"metadata": {"namespace": "ns", "uid": uid, "generation": generation, "labels": labels}}


def test_the_tracker_knows_old_missing_and_deleted_slices():
    tracker = SliceTracker()
    assert not tracker.stale("ns/web", [])
    tracker.written(slice_tree("a", 2))
    assert tracker.stale("ns/web", [])
    assert tracker.stale("ns/web", [slice_tree("a", 1)])
    assert not tracker.stale("ns/web", [slice_tree("a", 2), slice_tree("b", 1)])
    assert not tracker.is_news(slice_tree("a", 2))
    assert tracker.is_news(slice_tree("a", 3))
    tracker.expect_deletion(slice_tree("a", 2))
    assert tracker.stale("ns/web", [slice_tree("a", 2)])
    assert not tracker.stale("ns/web", [])
    assert tracker.deleted(slice_tree("a", 2))


def node(name: str, zone: str, cpu: str) -> Node:
    return Node.from_tree(
        {
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {
                "allocatable": {"cpu": cpu},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def endpoint(number: int, zone: str) -> dict[str, Any]:
    return {"addresses": [f"10.0.0.{number}"], "conditions": {"ready": True}, "zone": zone}


def test_zones_get_endpoints_by_their_share_of_cpu():
    cache = TopologyCache()
    cache.set_nodes([node("n1", "za", "2"), node("n2", "zb", "2")])
    made = packing.new_slice(Service.from_tree(service()), "IPv4", ())
    made["endpoints"] = [endpoint(number, "za") for number in range(4)]
    plan = packing.Plan(create=[made])
    (report,) = cache.add_hints("ns/web", "IPv4", plan, [])
    assert report.reason == "TopologyAwareHintsEnabled"
    zones = [each["hints"]["forZones"][0]["name"] for each in made["endpoints"]]
    assert sorted(zones) == ["za", "za", "zb", "zb"]
    cache.set_nodes([node("n1", "za", "14"), node("n2", "zb", "2")])
    assert cache.overloaded() == ["ns/web"]


def test_too_few_endpoints_get_no_hints():
    cache = TopologyCache()
    cache.set_nodes([node("n1", "za", "2"), node("n2", "zb", "2")])
    made = packing.new_slice(Service.from_tree(service()), "IPv4", ())
    made["endpoints"] = [endpoint(1, "za")]
    (report,) = cache.add_hints("ns/web", "IPv4", packing.Plan(create=[made]), [])
    assert report.message == (
        "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"
    )
    assert "hints" not in made["endpoints"][0]


def test_named_ports_are_those_of_the_first_container_that_names_them():
    containers = [
        {"name": "a", "ports": [{"name": "web", "containerPort": 1, "protocol": "TCP"}]},
        {"name": "b", "ports": [{"name": "web", "containerPort": 2, "protocol": "TCP"},
                                {"name": "web", "containerPort": 3, "protocol": "UDP"}]},
    ]  # fmt: skip
    side = {"name": "s", "restartPolicy": "Always",
            "ports": [{"name": "side", "containerPort": 4, "protocol": "TCP"}]}  # fmt: skip
    init = {"name": "i", "ports": [{"name": "init", "containerPort": 5, "protocol": "TCP"}]}
    pod = Pod.from_tree(
        {
            "metadata": {"name": "p"},
            "spec": {"containers": containers, "initContainers": [side, init]},
        }
    )

    def number(target: Any, protocol: str = "TCP") -> int | None:
        tree = service(ports=[{"port": 80, "targetPort": target, "protocol": protocol}])
        return endpoints.find_port(pod, Service.from_tree(tree).spec.ports[0])

    assert [number("web"), number("web", "UDP"), number("side"), number("init")] == [1, 3, 4, None]
    assert [number(7), number("none")] == [7, None]


def test_others_come_between_pods_of_very_many_ports(monkeypatch):
    monkeypatch.setattr(controller_module, "SLICE", 10)
    ports = [{"name": f"p{n}", "port": n + 1} for n in range(9)]
    pods = [
        {"metadata": {"name": f"p{n}", "namespace": "default", "uid": f"p{n}", "labels": LABELS},
         "spec": {"containers": [{"name": "c"}]}, "status": {
             "podIP": f"10.0.0.{n}", "podIPs": [{"ip": f"10.0.0.{n}"}], "phase": "Running"}}
        for n in range(4)
    ]  # fmt: skip
    tree = service(ports=ports, publishNotReadyAddresses=True)
    tree["metadata"]["namespace"] = "default"
    world = World({"Service": [tree], "Pod": pods, "EndpointSlice": [], "Node": []}, (), 0, None)
    found = EndpointSliceController(world, world.caches)
    world.fill()
    turn = found.sync(f"default/{tree['metadata']['name']}")
    points = []
    effect = next(turn)
    while isinstance(effect, Point):
        points.append(effect.name)
        effect = turn.send(None)
    turn.close()
    assert points == ["endpointslice.slice"] * 4
