"""Which fields a write changed."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.requests.changed_fields import MOST, changed_fields

TREES = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "type", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ({"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}, ["spec.replicas"]),
        ({"spec": {}}, {"spec": {"paused": True}}, ["spec.paused"]),
        (
            {"c": [{"type": "Ready", "status": "False"}, {"type": "Other"}]},
            {"c": [{"type": "Other"}, {"type": "Ready", "status": "True"}]},
            ["c[Ready].status"],
        ),
        ({"l": [1, 2]}, {"l": [1, 3]}, ["l"]),
        ({"l": [{"name": "a"}, {"name": "a"}]}, {"l": [{"name": "a"}]}, ["l"]),
        (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
            ["metadata.finalizers[-a]", "metadata.finalizers[+c]"],
        ),
        ({"metadata": {}}, {"metadata": {"finalizers": ["a"]}}, ["metadata.finalizers[+a]"]),
        (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
            ["metadata.finalizers"],
        ),
        ({"metadata": {"resourceVersion": "1"}}, {"metadata": {"resourceVersion": "2"}}, []),
    ],
)
def test_paths_are_those_of_the_values_that_differ(old, new, paths):
    assert changed_fields(old, new) == paths


@given(TREES, TREES)
def test_what_is_equal_has_no_paths_and_no_path_is_told_twice(old, new):
    assert changed_fields({"x": old}, {"x": copy.deepcopy(old)}) == []
    found = changed_fields({"x": old}, {"x": new})
    assert len(found) == len(set(found)) <= MOST
