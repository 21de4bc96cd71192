"""The controller of NetworkTopologies, and the costs that it finds."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.resources import CONFIG_MAPS
from controlplane.scheduler.community.network_aware import APP_GROUP, NETWORK_TOPOLOGY
from controlplane.scheduler_plugins.network_costs import MEASURED, Place, measured_weights
from controlplane.scheduler_plugins.network_topologies import NetworkTopologyController
from tests.scheduler_plugins.test_network_and_calls import app_group, cluster_of, network, part
from tests.scheduler_plugins.worlds import configured
from tests.test_cluster import SECOND, pods, run

PLACES = (
    Place("a", "west", "w1", "s"),
    Place("b", "west", "w2", "s"),
    Place("c", "east", "e1", "t"),
)


def measured(**costs: int) -> dict[str, str]:
    """Measurements by `origin_destination`."""
    key = "netperf.p90.latency.milliseconds.origin.{}.destination.{}"
    return {key.format(*pair.split("_")): str(cost) for pair, cost in costs.items()}


def costs(places: Any, data: Any, given: Any = ()) -> dict[str, dict[tuple[str, str], int]]:
    weights = measured_weights({"weights": list(given)}, places, data)
    listed = next(each for each in weights if each["name"] == MEASURED)["topologyList"]
    return {
        each["topologyKey"].rpartition("/")[2]: {
            (origin["origin"], cost["destination"]): cost["networkCost"]
            for origin in each["originList"]
            for cost in origin["costList"]
        }
        for each in listed
    }


ALL = measured(a_b=3, b_a=4, a_c=20, c_a=30, b_c=15, c_b=40)


def test_a_cost_is_that_of_the_cheapest_link_between_two_places():
    found = costs(PLACES, ALL)
    assert found["region"] == {("east", "west"): 15, ("west", "east"): 15}
    assert found["zone"] == {("w1", "w2"): 3, ("w2", "w1"): 3}  # of one region only
    assert found["segment"] == {("s", "t"): 15, ("t", "s"): 15}


def test_a_way_over_other_places_may_be_cheaper():
    places = [Place(name, name) for name in "abc"]
    data = measured(a_b=2, b_a=2, b_c=2, c_b=2, a_c=50, c_a=50)
    assert costs(places, data)["region"]["a", "c"] == 4


def test_what_was_not_measured_costs_nothing():
    assert costs(PLACES, {})["region"] == {("east", "west"): 0, ("west", "east"): 0}
    broken = dict.fromkeys(ALL, "fast")
    assert costs(PLACES, broken)["zone"] == {("w1", "w2"): 0, ("w2", "w1"): 0}


def test_weights_of_users_stay_and_give_the_bandwidth_of_links():
    given = network(7)["spec"]["weights"]
    given[0]["topologyList"][0]["originList"][0]["costList"][0]["bandwidthCapacity"] = "10Gi"
    places = [Place("a", "r", "z1"), Place("b", "r", "z2")]
    user, found = measured_weights({"weights": given}, places, measured(a_b=9, b_a=9))
    assert user == given[0]
    zones = next(each for each in found["topologyList"] if each["topologyKey"].endswith("/zone"))
    links = {each["origin"]: each["costList"][0] for each in zones["originList"]}
    assert links["z1"]["bandwidthCapacity"] == "10Gi"
    assert links["z2"]["bandwidthCapacity"] == "1G"


@pytest.mark.parametrize(("latency", "node"), [(50, ""), (1, "node-2")])
def test_a_pod_goes_only_as_far_from_what_it_depends_on_as_was_measured(latency, node):
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "3"}}}

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(SECOND)
        names = {"node-1_node-2": latency, "node-2_node-1": latency}
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "data": measured(**names)}
        meta = {"name": "costs", "namespace": "default"}
        await client.create(CONFIG_MAPS, {**tree, "metadata": meta})
        await ctx.sleep(5 * SECOND)
        await client.create(NETWORK_TOPOLOGY.resource, network(5))
        await client.create(APP_GROUP.resource, app_group(10))
        await ctx.sleep(5 * SECOND)
        where = {"kubernetes.io/hostname": "node-1"}
        await client.create(PODS, part("back", "back", nodeSelector=where, containers=[container]))
        await ctx.sleep(5 * SECOND)
        await client.create(PODS, part("front", "front", containers=[container]))

    plugins = "{multiPoint: {enabled: [{name: NetworkOverhead}]}}"
    config = configured(plugins, {"weightsName": MEASURED}, "NetworkOverhead")
    cluster = cluster_of(user, {"own_controllers": (NetworkTopologyController,), **config})
    run(cluster)
    (found,) = cluster.objects("/registry/networktopology.diktyo.x-k8s.io/networktopologies/")
    assert found.tree["status"]["nodeCount"] == 2
    weights = {each["name"]: each for each in found.tree["spec"]["weights"]}
    zones = weights[MEASURED]["topologyList"][1]["originList"]
    assert [each["costList"][0]["networkCost"] for each in zones] == [latency, latency]
    assert {pod.name: pod.spec.node_name for pod in pods(cluster)} == {
        "back": "node-1",
        "front": node,
    }
