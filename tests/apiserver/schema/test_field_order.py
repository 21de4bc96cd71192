"""Fields stand in the order of upstream's types, whatever the order in which they came."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.schema.field_order import _order, _ordered, _plan, in_order
from controlplane.apiserver.schema.types import struct_type

POD = "io.k8s.api.core.v1.Pod"
TREE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "b", "labels": {"x": "1", "a": "2"}},
    "spec": {
        "containers": [
            {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1", "a": "2"}}}
        ],
        "nodeName": "n",
        "volumes": [{"name": "v", "projected": {"sources": [], "defaultMode": 420}}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


def plainly(value, plan):
    """The slow and obvious form of it."""
    if isinstance(value, list):
        return [plainly(item, plan) for item in value]
    if not isinstance(value, dict) or plan is None:
        return value
    if plan.ranks is None:
        keys, parts = sorted(value), dict.fromkeys(value, plan.values)
    else:
        ranks = plan.ranks
        keys, parts = sorted(value, key=lambda key: ranks.get(key, len(ranks))), plan.parts
    return {
        key: plainly(value[key], parts[key]) if parts.get(key) is not None else value[key]
        for key in keys
    }


@st.composite
def shuffled(draw, value):
    if isinstance(value, list):
        return [draw(shuffled(item)) for item in value]
    if not isinstance(value, dict):
        return value
    kept = draw(st.sets(st.sampled_from(sorted(value)))) if value else ()
    keys = draw(st.permutations(sorted(kept)))
    return {key: draw(shuffled(value[key])) for key in keys}


@pytest.mark.slow
@given(tree=shuffled(TREE))
def test_every_order_of_keys_becomes_that_of_upstream(tree):
    plan = _plan(struct_type(POD))
    found = _ordered(tree, plan, None)
    assert json.dumps(found) == json.dumps(plainly(tree, plan))
    assert _ordered(found, plan, None) is found


def test_parts_of_the_old_object_stay_the_same_parts():
    old = in_order(POD, TREE)
    new = in_order(POD, {"status": {"phase": "Failed"}, **old}, old)
    assert list(new) == ["kind", "apiVersion", "metadata", "spec", "status"] or list(new) == [
        key for key in _order()[POD].split(" ") if key in new
    ]
    assert new["spec"] is old["spec"]
    assert new["metadata"] is old["metadata"]
