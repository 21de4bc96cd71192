"""Applying a Scale, and what resets the managed fields."""

from __future__ import annotations

from typing import Any

from tests.apiserver.world import MERGE, World, deployment

APPLY = "application/apply-patch+yaml"
APPS = {"group": "apps"}


def scale(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": replicas},
    }


def applied(world: World, replicas: int, **query: str) -> Any:
    return world.do(
        "patch",
        "deployments",
        "a",
        scale(replicas),
        media=APPLY,
        sub="scale",
        fieldManager="m",
        **query,
        **APPS,
    )


def tracked() -> World:
    world = World(track_fields=True)
    assert world.create("deployments", deployment("a"), **APPS).code == 201
    return world


def test_an_applied_scale_conflicts_with_the_owner_of_the_replicas() -> None:
    world = tracked()
    refused = applied(world, 3)
    assert refused.code == 409
    assert refused.tree["details"]["causes"][0]["field"] == ".spec.replicas"
    assert "using autoscaling/v1" in refused.tree["message"]


def test_a_forced_scale_takes_the_replicas_over() -> None:
    world = tracked()
    assert applied(world, 3, force="true").tree["spec"] == {"replicas": 3}
    fields = world.get("deployments", "a", **APPS).tree["metadata"]["managedFields"]
    own = [item for item in fields if item.get("subresource") == "scale"]
    assert [(item["manager"], item["operation"], item["fieldsV1"]) for item in own] == [
        ("m", "Apply", {"f:spec": {"f:replicas": {}}})
    ]
    others = [item for item in fields if item.get("subresource") != "scale"]
    assert all("f:replicas" not in item["fieldsV1"].get("f:spec", {}) for item in others)


def test_an_equal_scale_shares_the_replicas() -> None:
    assert applied(tracked(), 1).code == 200


def test_an_empty_list_resets_the_managed_fields() -> None:
    world = tracked()
    body = {"metadata": {"managedFields": []}}
    answer = world.patch("deployments", "a", body, MERGE, **APPS)
    assert "managedFields" not in answer.tree["metadata"]
