"""The controller of AppGroups, and the orders that it makes."""

from __future__ import annotations

import pytest
import yaml

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from controlplane.scheduler.community.network_aware import APP_GROUP
from controlplane.scheduler_plugins.app_groups import AppGroupController
from controlplane.scheduler_plugins.ordering import (
    ALGORITHMS,
    CycleError,
    dependencies,
    topology_order,
)
from tests.cli.test_run import controlplane
from tests.scheduler_plugins.test_network_and_calls import app_group, cluster_of, part, workload
from tests.scheduler_plugins.worlds import EXAMPLES
from tests.test_cluster import SECOND, run

DIAMOND = {"front": ["cart", "search"], "cart": ["store"], "search": ["store"], "store": []}


def group(edges, algorithm="KahnSort", selector=lambda name: name):
    """An AppGroup whose workloads depend on each other so."""
    tree = app_group(1)
    del tree["status"]

    def named(name):
        return {**workload(name), "selector": selector(name)}

    tree["spec"] |= {
        "topologySortingAlgorithm": algorithm,
        "workloads": [
            {
                "workload": named(name),
                "dependencies": [{"workload": named(each)} for each in needed],
            }
            for name, needed in edges.items()
        ],
    }
    return tree


def indices(tree):
    order = topology_order(tree, dependencies(tree))
    return {each["workload"]["name"]: each["index"] for each in order}


@pytest.mark.parametrize(
    ("algorithm", "order"),
    [
        ("KahnSort", ["front", "search", "cart", "store"]),
        ("TarjanSort", ["front", "search", "cart", "store"]),
        ("ReverseKahn", ["store", "cart", "search", "front"]),
        ("ReverseTarjan", ["store", "cart", "search", "front"]),
        ("AlternateKahn", ["front", "store", "search", "cart"]),
        ("AlternateTarjan", ["front", "store", "search", "cart"]),
        ("Unknown", ["front", "search", "cart", "store"]),
    ],
)
def test_workloads_are_ordered_by_the_algorithm_that_the_group_names(algorithm, order):
    assert indices(group(DIAMOND, algorithm)) == {name: at for at, name in enumerate(order, 1)}


def test_the_order_is_listed_by_selector_as_the_plugin_searches_it():
    order = topology_order(group(DIAMOND), dependencies(group(DIAMOND)))
    assert [each["workload"]["selector"] for each in order] == ["cart", "front", "search", "store"]


@pytest.mark.parametrize("algorithm", ["KahnSort", "TarjanSort"])
def test_a_circle_is_told_and_leaves_the_order_of_the_spec(algorithm):
    circle = {"b": ["a"], "a": ["b"]}
    with pytest.raises(CycleError, match="cycle"):
        ALGORITHMS[algorithm](circle)
    assert indices(group(circle, algorithm)) == {"b": 1, "a": 2}


def test_names_that_are_no_selectors_leave_the_order_of_the_selectors():
    edges = {"b": ["a"], "a": []}
    assert indices(group(edges)) == {"b": 1, "a": 2}
    assert indices(group(edges, selector=lambda name: f"P-{name}")) == {"a": 1, "b": 2}


def test_a_group_gets_its_order_once_and_counts_running_pods():
    def status():
        (found,) = cluster.objects("/registry/appgroup.diktyo.x-k8s.io/appgroups/")
        return found.tree.get("status")

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(APP_GROUP.resource, group({"front": ["back"], "back": []}))
        await ctx.sleep(5 * SECOND)
        seen.append(status())
        await client.create(PODS, part("one", "front"))
        await ctx.sleep(60 * SECOND)
        seen.append(status())
        await client.delete(PODS, "default", "one")
        await ctx.sleep(60 * SECOND)

    seen: list = []
    cluster = cluster_of(user, {"own_controllers": (AppGroupController,)})
    run(cluster)
    first, second = seen
    order = {each["workload"]["name"]: each["index"] for each in first["topologyOrder"]}
    assert order == {"front": 1, "back": 2}
    assert "runningWorkloads" not in first
    assert second == {**first, "runningWorkloads": 1}
    assert status() == first


@pytest.mark.slow
def test_pods_of_the_example_start_in_the_order_of_their_group(tmp_path):
    def started(*more):
        done = controlplane(
            *("run", EXAMPLES / "app-group.yaml", "--nodes", 0, "--with", "scheduler-plugins"),
            *("--scheduler-config", EXAMPLES / "app-group-config.yaml", "--out", tmp_path / "out"),
            *more,
        )
        assert done.returncode == 0, done.stderr
        objects = yaml.safe_load_all((tmp_path / "out" / "objects.yaml").read_text())
        pods = [each for each in objects if each["kind"] == "Pod"]
        pods.sort(key=lambda pod: pod["status"]["startTime"])
        return [pod["metadata"]["name"] for pod in pods]

    assert started("--appgroup-controller") == ["other", "store", "cart", "front"]
