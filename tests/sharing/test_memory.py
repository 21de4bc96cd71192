"""Remembering by identity asks once per object and never answers for another one."""

from __future__ import annotations

import pytest

from actors import Context, EventLog
from controlplane.api.tree import is_ready
from controlplane.client.loops.clientset import DEPLOYMENTS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from controlplane.sharing.memory import KEPT, Memory, by_identity, memories, turned_off


def test_the_same_object_is_asked_about_once():
    asked = []
    twice = by_identity(lambda value: asked.append(value) or len(asked))
    one, equal = [1], [1]
    assert [twice(one), twice(one), twice(equal), twice(one)] == [1, 1, 2, 1]


def test_objects_that_come_and_go_are_never_mistaken_for_each_other():
    text = by_identity(lambda value: value["n"])
    assert [text({"n": n}) for n in range(4 * KEPT)] == list(range(4 * KEPT))


def test_a_full_memory_is_emptied_before_it_takes_more():
    memory: Memory[int, str] = Memory("a test", 2)
    for number in range(3):
        assert memory.keep(number, str(number)) == str(number)
    assert memory.known == {2: "2"}


def test_what_is_turned_off_forgets_and_remembers_nothing():
    first: Memory[int, str] = Memory("first test", 2)
    second: Memory[int, str] = Memory("second test", 2)
    first.keep(1, "one"), second.keep(1, "one")
    with turned_off("first test"):
        assert first.known == {}
        assert first.keep(2, "two") == "two"
        assert (first.known, second.known) == ({}, {1: "one"})
        with turned_off():
            assert Memory("made meanwhile").keep(1, "one") == "one"
            assert second.keep(2, "two") == "two"
            assert (first.known, second.known) == ({}, {})
        assert first.keep(2, "two") == "two"
        assert first.known == {}
    first.keep(3, "three")
    assert first.known == {3: "three"}
    assert {"first test", "second test"} <= set(memories())


CHURNS = (
    "churn",
    "kubelet-churn",
    "controller-churn",
    "storage-churn",
    "dra-churn",
    "gang-churn",
    "kueue-churn",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHURNS)
def test_a_world_goes_the_same_way_without_any_memory(name):
    """A memory that could be observed is a function that is not pure, or a key that says too little."""
    campaign = Campaign(plan_of(loading.from_module(loading.NAMED[name])), "random-walk")
    for seed in range(3):
        with_memories = campaign.under(seed).result
        with turned_off():
            assert campaign.under(seed).result == with_memories


async def forty_replicas(ctx: Context) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "one"}]},
    }
    spec = {"replicas": 40, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    await Client(ctx).create(DEPLOYMENTS, tree, "default")


def rolled_out() -> Cluster:
    nodes = [node_tree(f"node-{number}") for number in range(4)]
    made = Cluster(ClusterConfig(nodes=nodes), log=EventLog())
    made.user("user", forty_replicas)
    return made


def test_many_pods_of_one_template_become_ready_in_the_same_way_without_any_memory():
    one = rolled_out()
    before = one.world.run()
    assert sum(is_ready(obj.tree) for obj in one.objects("/registry/pods/")) == 40
    with turned_off():
        other = rolled_out()
        assert other.world.run() == before
    assert other.dump() == one.dump()
