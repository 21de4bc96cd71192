"""The garbage collector in a world: cascades in their three forms."""

from __future__ import annotations

import pytest

from actors import RandomWalk
from controlplane.client.resources import DEPLOYMENTS
from tests.controllers.worlds import Small, template, workload

LABELS = {"app": "web"}


def deployment():
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template(LABELS)}
    return workload(DEPLOYMENTS, "Deployment", "web", spec)


def left_after(policy: str, strategy=None) -> tuple[int, int, int]:
    """How many Deployments, ReplicaSets and pods are left after a deletion."""

    async def delete(client, _ctx):
        await client.delete(DEPLOYMENTS, "default", "web", propagation_policy=policy)

    small = Small(("garbage-collector",), deployment(), 20, delete, strategy=strategy).run()
    prefixes = ("deployments", "replicasets", "pods")
    return tuple(len(small.objects(prefix)) for prefix in prefixes)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_what_a_deployment_owns_goes_with_it(policy):
    assert left_after(policy) == (0, 0, 0)


def test_orphans_stay():
    assert left_after("Orphan") == (0, 1, 2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_nothing_is_left_whoever_goes_first(policy, seed):
    assert left_after(policy, RandomWalk(seed)) == (0, 0, 0)
