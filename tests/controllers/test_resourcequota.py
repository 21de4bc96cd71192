"""Quotas in a world: what is used is known, and given back."""

from __future__ import annotations

from controlplane.client.errors import ApiError
from controlplane.client.resources import CONFIG_MAPS, PODS, RESOURCE_QUOTAS
from tests.controllers.worlds import Small, workload


def pod(name: str):
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}
    return workload(PODS, "Pod", name, {"containers": [container]})


def test_a_quota_fills_up_refuses_and_is_given_back():
    async def another(client, _ctx):
        try:
            await client.create(*pod("three"))
        except ApiError as error:
            answers.append(error.message)
        else:
            answers.append("made")

    async def release(client, _ctx):
        await client.delete(PODS, "default", "one", grace_period_seconds=0)

    answers: list[str] = []
    hard = {"requests.cpu": "1", "pods": "5", "count/configmaps": "10"}
    quota = workload(RESOURCE_QUOTAS, "ResourceQuota", "small", {"hard": hard})
    config = workload(CONFIG_MAPS, "ConfigMap", "one", {})
    del config[1]["spec"]
    steps = (config, quota, 5, pod("one"), pod("two"), 5, another, release, 5, another)
    small = Small(("resourcequota",), *steps).run()
    assert answers[0].endswith(
        "exceeded quota: small, requested: requests.cpu=500m, used: requests.cpu=1, "
        "limited: requests.cpu=1"
    )
    assert answers[1] == "made"
    used = small.one("resourcequotas").tree["status"]["used"]
    assert used == {"count/configmaps": "1", "pods": "2", "requests.cpu": "1"}
