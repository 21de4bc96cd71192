"""Config maps and secrets that say they are immutable."""

from __future__ import annotations

import pytest

from tests.apiserver.world import World


@pytest.mark.parametrize(
    ("resource", "kind", "part"),
    [("configmaps", "ConfigMap", "binaryData"), ("secrets", "Secret", "data")],
)
def test_a_map_without_entries_is_not_the_same_as_none_until_it_is_stored(resource, kind, part):
    world = World()
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "immutable": True}
    assert world.create(resource, {**body, part: {}}).code == 201
    assert world.do("update", resource, "x", body).code == 200
    refused = world.do("update", resource, "x", {**body, part: {}})
    assert refused.code == 422
    assert [each["field"] for each in refused.tree["details"]["causes"]] == [part]
