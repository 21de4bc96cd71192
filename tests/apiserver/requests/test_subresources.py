"""Scales, connections and posted subresources, as far as all kinds have them alike."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.requests.subresources import has_table
from controlplane.apiserver.schema.resources import builtin_resources
from tests.apiserver.world import MERGE, STRATEGIC, World, deployment, pod

APPS = {"group": "apps"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def scaling() -> World:
    world = World(track_fields=True)
    assert world.create("deployments", deployment("a"), **APPS).code == 201
    return world


def scale(world: World, body: Any, *, media: str = MERGE, verb: str = "patch", **query: str) -> Any:
    return world.do(verb, "deployments", "a", body, media=media, sub="scale", **query, **APPS)


def test_a_scale_keeps_to_its_namespace() -> None:
    body = {"metadata": {"name": "a", "namespace": "other"}}
    for verb, media in (("patch", MERGE), ("patch", STRATEGIC), ("update", "application/json")):
        refused = scale(scaling(), body, media=media, verb=verb)
        assert refused.code == 400
        assert "namespace" in refused.tree["message"]


def test_a_replaced_scale_is_judged_before_its_object_is_looked_for() -> None:
    body = {"metadata": {"name": "b"}, "spec": {"replicas": 1}}
    refused = World().do("update", "deployments", "a", body, sub="scale", **APPS)
    assert refused.code == 400


def test_unknown_fields_of_a_scale_are_told() -> None:
    body = {"spec": {"replicas": 1, "x": 1}}
    refused = scale(scaling(), body, fieldValidation="Strict")
    assert refused.code == 422
    assert 'strict decoding error: unknown field "spec.x"' in refused.tree["message"]
    assert scale(scaling(), body, fieldValidation="Warn").warnings == ['unknown field "spec.x"']


def test_a_strategic_patch_cannot_change_the_kind() -> None:
    assert scale(scaling(), {"kind": "Pod", "apiVersion": "v1"}, media=STRATEGIC).code == 200
    refused = scale(scaling(), {"kind": "Pod", "apiVersion": "v1"})
    assert "converting (v1.Pod) to (autoscaling.Scale)" in refused.tree["message"]
    world = scaling()
    assert world.patch("deployments", "a", {"kind": "X"}, STRATEGIC, **APPS).code == 200


def test_a_patched_scale_has_the_managers_of_its_replicas() -> None:
    world = scaling()
    assert scale(world, {"spec": {"replicas": 5}}).code == 200
    refused = scale(world, {"spec": {"replicas": "x"}})
    assert '\\"f:replicas\\"' in refused.tree["details"]["causes"][0]["message"]


@pytest.mark.parametrize(
    ("resource", "subresource", "found"),
    [
        ("deployments", "scale", True),
        ("deployments", "status", True),
        ("certificatesigningrequests", "approval", False),
        ("resourceclaims", "status", False),
        ("pods", "resize", False),
        ("pods", "", True),
        ("tokenreviews", "", False),
    ],
)
def test_some_storages_know_no_table(resource: str, subresource: str, found: bool) -> None:
    info = next(each for each in builtin_resources() if each.resource == resource)
    assert has_table(info, subresource) is found


def test_connections_have_no_dry_run() -> None:
    for resource, sub in (("nodes", "proxy"), ("pods", "exec"), ("services", "proxy")):
        namespace = "" if resource == "nodes" else "default"
        refused = World().do("get", resource, "a", sub=sub, namespace=namespace, dryRun="")
        assert (refused.code, refused.tree["message"]) == (400, "dryRun is not supported")


def test_repeated_owners_of_a_posted_subresource_are_told() -> None:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"ownerReferences": [OWNER, OWNER]},
        "spec": {},
    }
    found = World().do("create", "serviceaccounts", "nope", body, sub="token")
    assert found.code == 404
    assert found.warnings and "duplicate UID(s) observed: u" in found.warnings[0]


def test_ephemeral_containers_leave_only_some_metadata_as_they_were() -> None:
    world = World()
    world.create("pods", pod("a"))
    body = {"metadata": {"labels": {"a": "b"}, "deletionGracePeriodSeconds": 3}}
    refused = world.do("patch", "pods", "a", body, media=MERGE, sub="ephemeralcontainers")
    causes = refused.tree["details"]["causes"]
    assert {each["field"] for each in causes} == {"metadata.deletionGracePeriodSeconds"}
    del body["metadata"]["deletionGracePeriodSeconds"]
    kept = world.do("patch", "pods", "a", body, media=MERGE, sub="ephemeralcontainers")
    assert "labels" not in kept.tree["metadata"]
