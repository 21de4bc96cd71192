"""Objects that rest as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.stored import BLOCK, Resting, rest

TREES = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=5,
)


@pytest.mark.slow
@given(st.lists(TREES, max_size=10), st.randoms())
def test_objects_that_rested_are_what_they_were(trees, draw):
    objects = [Object(tree) for tree in trees]
    rest(objects)
    found = list(zip(trees, objects, strict=True))
    draw.shuffle(found)
    for tree, obj in found:
        before = Object(tree).json
        assert type(obj) is Resting
        assert obj.json == before
        assert obj.tree == tree
        assert type(obj) is Object
        assert obj.json == before


def test_what_has_a_view_or_is_long_does_not_rest():
    seen = Object({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}})
    tree = seen.view.tree
    long, short = Object({"data": "x" * KEPT_JSON}), Object({"data": "x"})
    rest([seen, short, long])
    assert seen.tree is tree
    assert type(long) is Object
    assert short.tree == {"data": "x"}
    rest([seen, long])
    assert (type(seen), type(long)) == (Object, Object)


def test_an_object_at_rest_is_viewed_like_any_other():
    obj = Object({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}})
    rest([Object({"metadata": {"name": "b"}}), obj])
    assert obj.view.name == "a"


def test_an_event_at_rest_is_packed_to_a_fraction():
    event = {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "web-x2.17f0", "namespace": "shop"},
        "involvedObject": {
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-x2",
            "apiVersion": "v1",
        },
        "reason": "Scheduled",
        "message": "Successfully assigned shop/web-x2 to node-7",
        "type": "Normal",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": None,
        "lastTimestamp": None,
    }
    obj = Object(event)
    size = len(obj.json)
    rest([obj])
    assert obj._json is not None
    assert len(obj._json) * 3 < size
    assert obj.name == "web-x2.17f0"
    assert type(obj) is Object
    block = [Object({**event, "count": number}) for number in range(BLOCK)]
    rest(block)
    assert block[0]._json is not None
    assert len(block[0]._json) < size
    rest(block)
    assert [each.tree["count"] for each in block] == list(range(BLOCK))
