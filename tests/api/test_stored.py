"""Objects that rest as bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.stored import Stored, rest

TREES = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)  # fmt: skip


@given(TREES)
def test_an_object_that_rested_is_what_it_was(tree):
    obj, before = Object(tree), Object(tree).json
    rest(obj)
    assert type(obj) is Stored
    assert obj.json == before
    assert obj.tree == tree
    assert type(obj) is Object
    assert obj.json == before


def test_what_has_a_view_or_is_long_does_not_rest():
    seen = Object({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}})
    tree = seen.view.tree
    rest(seen)
    assert seen.tree is tree
    long = Object({"data": "x" * KEPT_JSON})
    rest(long)
    assert type(long) is Object
