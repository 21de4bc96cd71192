"""Limit ranges and quotas at admission, one by one."""

from __future__ import annotations

from typing import Any

from tests.apiserver.world import World, pod


def limit_range(name: str, *limits: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name},
        "spec": {"limits": list(limits)},
    }


def test_the_first_broken_limit_range_answers() -> None:
    world = World()
    world.create("limitranges", limit_range("a", {"type": "Pod", "max": {"cpu": "1"}}))
    world.create("limitranges", limit_range("b", {"type": "Container", "min": {"memory": "1Gi"}}))
    refused = world.create("pods", pod("a"))
    assert refused.code == 403
    assert refused.tree["message"] == (
        'pods "a" is forbidden: maximum cpu usage per Pod is 1.  No limit is specified'
    )


def test_limits_of_one_range_are_told_in_their_order() -> None:
    world = World()
    ratio = {"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}}
    limits = {"type": "Pod", "max": {"cpu": "1"}}, ratio
    world.create("limitranges", limit_range("a", *limits))
    assert world.create("pods", pod("a")).tree["message"] == (
        'pods "a" is forbidden: [maximum cpu usage per Pod is 1.  No limit is specified, '
        "cpu max limit to request ratio per Container is 4, but no request is specified or request is 0]"
    )


def test_a_refused_object_without_a_name_is_told_by_its_prefix() -> None:
    world = World()
    world.create("limitranges", limit_range("a", {"type": "Pod", "max": {"cpu": "1"}}))
    body = pod("a")
    body = {**body, "metadata": {"generateName": "b-"}}
    assert world.create("pods", body).tree["message"].startswith('pods "b-')


def test_a_quota_without_a_status_counts_nothing() -> None:
    world = World()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"memory": "1Gi", "limits.memory": "1"}},
    }
    made = world.create("resourcequotas", quota)
    assert made.code == 201
    assert made.warnings == ["ResourceQuota memory (1Gi) should be less than limits.memory (1)"]
    assert world.create("pods", pod("a")).code == 201
