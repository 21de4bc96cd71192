"""Forms of managed fields and differences of specs are remembered; what is remembered is what would be computed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.requests.managed import fieldsets
from controlplane.apiserver.requests.managed.fieldsets import compare, from_fields_v1, to_fields_v1
from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.types import struct_type

ELEMENTS = st.sampled_from(["f:spec", "f:a", 'k:{"name":"x"}', 'v:"b"', "f:status", "f:zone"])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=5).map(tuple), max_size=8)
POD = struct_type("io.k8s.api.core.v1.Pod")


@pytest.fixture(autouse=True)
def nothing_remembered():
    forget()


def forget():
    fieldsets._NESTED.known.clear()
    fieldsets._PATHS._known.clear()
    fieldsets._SPECS._known.clear()


def spent(call, *arguments):
    """What a call answers, and how many steps it took."""
    budget = work.Budget()
    work.on(budget)
    try:
        found = call(*arguments)
    finally:
        work.on(work.FREE)
    return found, work.LIMIT - budget.left


@given(paths=PATHS)
def test_a_remembered_form_costs_the_same_steps_and_says_the_same(paths):
    forget()
    form, steps = spent(to_fields_v1, paths)
    assert spent(to_fields_v1, paths) == (form, steps)
    assert to_fields_v1(frozenset(paths)) is form  # objects of one shape share it

    again = json.loads(json.dumps(form))
    remembered = spent(from_fields_v1, form)
    forget()
    assert remembered == spent(from_fields_v1, again) == (paths, remembered[1])
    assert spent(from_fields_v1, again) == remembered


def test_long_forms_are_not_remembered():
    paths = frozenset(("f:data", f"f:key-{number}") for number in range(10_000))
    form = to_fields_v1(paths)
    assert from_fields_v1(form) == paths
    assert not fieldsets._NESTED.known
    assert not fieldsets._PATHS._known


def test_pods_of_one_spec_differ_from_nothing_in_the_same_way():
    spec = {"containers": [{"name": "main", "image": "app:1"}], "nodeName": "n"}
    empty = {"metadata": {}, "spec": {"containers": None}}

    def pod(name, spec):
        return {"metadata": {"name": name}, "spec": spec}

    first, steps = spent(compare, empty, pod("a", spec), POD)
    second, same = spent(compare, empty, pod("b", spec), POD)
    forget()
    plain, as_well = spent(compare, empty, pod("b", json.loads(json.dumps(spec))), POD)
    assert first == second == plain
    assert steps == same == as_well
    assert ("f:spec", "f:containers", 'k:{"name":"main"}', "f:image") in first.added
    other = compare({**empty, "spec": {"nodeName": "n"}}, pod("c", spec), POD)
    assert ("f:spec", "f:nodeName") not in other.taken()


def paths_between(old, new):
    found = compare(
        *({"spec": {"containers": [{"name": "c", "ports": each}]}} for each in (old, new)), POD
    )
    start = ("f:spec", "f:containers", 'k:{"name":"c"}', "f:ports")
    return tuple(
        sorted(path[len(start) :] for path in paths if path[: len(start)] == start)
        for paths in (found.added, found.modified, found.removed)
    )


PORT = {"containerPort": 80, "protocol": "TCP"}
PORT_KEY = 'k:{"containerPort":80,"protocol":"TCP"}'
NAMED = {**PORT, "name": "web"}
PARTS = [(PORT_KEY,), *((PORT_KEY, f"f:{name}") for name in ("containerPort", "name", "protocol"))]


def test_items_that_share_a_key_are_owned_as_a_whole():
    twice = [NAMED, PORT]
    assert paths_between([], [NAMED]) == (PARTS, [], [])
    assert paths_between([NAMED], twice) == ([(PORT_KEY,)], [], PARTS[1:])
    assert paths_between(twice, [PORT, NAMED]) == ([], [(PORT_KEY,)], [])
    assert paths_between(twice, twice) == ([], [], [])
    assert paths_between(twice, [NAMED]) == (PARTS[1:], [], [(PORT_KEY,)])
    spec = {"spec": {"containers": [{"name": "c", "ports": twice}]}}
    below = [path for path in fieldsets.paths_of(spec, POD) if PORT_KEY in path]
    assert below == [("f:spec", "f:containers", 'k:{"name":"c"}', "f:ports", PORT_KEY)]


def test_a_null_of_a_new_item_is_owned():
    node = struct_type("io.k8s.api.storage.v1.CSINode")
    item = {"name": "d.io", "nodeID": "n", "topologyKeys": None}
    found = compare({"spec": {"drivers": []}}, {"spec": {"drivers": [item]}}, node)
    assert ("f:spec", "f:drivers", 'k:{"name":"d.io"}', "f:topologyKeys") in found.added


def test_keys_of_items_are_shown_as_upstream_prints_values():
    for key, text in (
        ('{"a":{"b":1}}', "[a=b=1]"),
        ('{"a":[1,"x"]}', '[a=[1,"x"]]'),
        ('{"a":null}', "[a=null]"),
    ):
        assert fieldsets.shown((f"k:{key}",)) == text
