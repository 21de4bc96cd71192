"""A StatefulSet of very many replicas costs a turn only the pods that the turn comes to."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.client.calls import Call
from controlplane.controllers.workloads.statefulset import controller as controller_module
from controlplane.controllers.workloads.statefulset.controller import AT_ONCE, StatefulSetController
from controlplane.controllers.workloads.statefulset.replicas import Replicas
from controlplane.decisions import Together
from tests.controllers.builders import pod
from tests.golden.controller_world import START, World

LABELS = {"app": "web"}


def made(replicas: int, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "w", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "s",
            "selector": {"matchLabels": LABELS},
            "template": template,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            **spec,
        },
    }


@pytest.fixture
def built(monkeypatch):
    """The ordinals of the pods that were made."""
    ordinals: list[int] = []
    make = controller_module.new_pod

    def counting(found, template, ordinal, revision):
        ordinals.append(ordinal)
        return make(found, template, ordinal, revision)

    monkeypatch.setattr(controller_module, "new_pod", counting)
    return ordinals


def controller(tree: dict[str, Any]) -> tuple[World, StatefulSetController]:
    world = World({"StatefulSet": [tree], "Pod": [], "ControllerRevision": []}, (), START, None)
    found = StatefulSetController(world, world.caches)
    world.fill()
    return world, found


def alone(call):
    return (yield call)


@pytest.mark.parametrize("replicas", [1_000_000, 2**31 - 1])
def test_in_order_only_the_next_pod_is_made(built, replicas):
    world, found = controller(made(replicas))
    assert world.attempt(found.sync("default/w")) is None
    assert built == [0]


@pytest.mark.parametrize("replicas", [1_000_000, 2**31 - 1])
def test_in_parallel_pods_are_made_in_order_as_batches_come_to_them(built, replicas):
    world, found = controller(made(replicas, podManagementPolicy="Parallel"))
    turn = found.sync("default/w")
    sizes: list[int] = []
    effect = next(turn)
    while sum(sizes) < 5_000:
        if isinstance(effect, Together):
            sizes.append(len(effect.parts))
            effect = turn.send([None] * sizes[-1])
        elif isinstance(effect, Call):
            effect = turn.send(world.run(alone(effect)))
        else:
            effect = turn.send(None)
    turn.close()
    assert sizes[:12] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512]
    assert max(sizes) == AT_ONCE
    assert built == list(range(sum(sizes) + AT_ONCE))


def test_replicas_are_those_that_exist_and_new_ones_once():
    known = {5: pod("w-5"), 7: pod("w-7")}
    asked: list[int] = []

    def make(ordinal):
        asked.append(ordinal)
        return pod(f"w-{ordinal}")

    replicas = Replicas(4, 5, known, make)
    assert [each.name for each in replicas] == ["w-4", "w-5", "w-6", "w-7", "w-8"]
    assert [each.name for each in replicas.backwards(2)] == ["w-8", "w-7", "w-6"]
    assert asked == [4, 6, 8]
    assert ([each.name for each in replicas.existing], replicas.missing) == (["w-5", "w-7"], 3)
    with pytest.raises(IndexError):
        replicas[5]
