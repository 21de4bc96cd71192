"""The short way of a strategic merge patch answers as the long one, or not at all."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.requests.patching import plain_merge as module
from controlplane.apiserver.requests.patching.plain_merge import KEPT, UnusualError, plain_merge
from controlplane.apiserver.requests.patching.strategic import PatchError, strategic_patch
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.apiserver.schema.types import struct_type
from controlplane.sharing.alike import alike, alike_list
from tests.apiserver.world import STRATEGIC, World, pod

POD = struct_type(builtin_resources().get("", "v1", "pods").type_name)
TYPES = ("Initialized", "Ready", "PodScheduled", "Mine")
TEXTS = st.sampled_from(("", "a", "b"))


def conditions() -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries(
        {"type": st.sampled_from(TYPES), "status": st.sampled_from(("True", "False"))},
        optional={
            "reason": TEXTS,
            "lastProbeTime": st.none(),
            "observedGeneration": st.integers(0, 2),
        },
    )
    return st.lists(one, max_size=4, unique_by=lambda each: each["type"])


STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": TEXTS | st.none(),
        "conditions": conditions(),
        "podIPs": st.lists(st.fixed_dictionaries({"ip": TEXTS}), max_size=2),
        "containerStatuses": st.lists(
            st.fixed_dictionaries({"name": TEXTS}, optional={"ready": st.booleans() | st.none()}),
            max_size=2,
        ),
        "resources": st.fixed_dictionaries({}, optional={"requests": st.just({"cpu": "1"})}),
    },
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"uid": TEXTS, "labels": st.dictionaries(TEXTS, TEXTS, max_size=2)}
        ),
        "status": STATUSES,
    },
)


@st.composite
def patches(draw):
    """A patch, most often with lists in an order that fits."""
    patch = draw(OBJECTS)
    status = patch.get("status", {})
    for name, key in (("conditions", "type"), ("podIPs", "ip")):
        if name in status and draw(st.booleans()):
            more = draw(st.lists(st.sampled_from(TYPES), max_size=2))
            named = dict.fromkeys([each[key] for each in status[name]] + more)
            status[f"$setElementOrder/{name}"] = [{key: value} for value in named]
    if "conditions" in status and draw(st.booleans()):
        status["conditions"].append({"$patch": "delete", "type": draw(st.sampled_from(TYPES))})
    if draw(st.integers(0, 5)) == 0:
        odd = draw(st.sampled_from(("$patch", "$retainKeys", "weight", "startTime")))
        status[odd] = draw(st.sampled_from(("replace", ["phase"], 1.5, 1 << 70, None, 3)))
    return patch


def text(value: Any) -> str:
    return json.dumps(value)


@given(OBJECTS, patches())
def test_what_is_merged_plainly_is_what_a_strategic_patch_gives_in_the_same_order(original, patch):
    old, given_patch = text(original), text(patch)
    try:
        found = plain_merge(original, patch, POD)
    except UnusualError:
        return
    assert text(found) == text(strategic_patch(original, copy.deepcopy(patch), POD))
    assert (text(original), text(patch)) == (old, given_patch)  # nothing was used up


@pytest.mark.slow
@given(OBJECTS, patches())
def test_what_a_strategic_patch_refuses_is_unusual(original, patch):
    try:
        strategic_patch(original, copy.deepcopy(patch), POD)
    except PatchError:
        with pytest.raises(UnusualError):
            plain_merge(original, patch, POD)


def shared(*each: str) -> list[dict[str, Any]]:
    return alike_list([alike({"type": kind, "status": "True"}) for kind in each])


def ordered(theirs: list[dict[str, Any]], order: list[dict[str, Any]]) -> dict[str, Any]:
    return {"status": {"$setElementOrder/conditions": order, "conditions": theirs}}


def test_lists_that_objects_share_are_merged_once_and_the_outcome_is_shared():
    old, theirs, order = shared("PodScheduled"), shared("Ready"), shared("Ready", "PodScheduled")
    one, other = (
        plain_merge({"status": {"phase": phase, "conditions": old}}, ordered(theirs, order), POD)
        for phase in ("Pending", "Running")
    )
    assert [each["type"] for each in one["status"]["conditions"]] == ["Ready", "PodScheduled"]
    assert one["status"]["conditions"] is other["status"]["conditions"]
    assert (one["status"]["phase"], other["status"]["phase"]) == ("Pending", "Running")


def test_lists_of_one_object_alone_are_not_remembered_nor_ever_too_many():
    module._merged.known.clear()
    own = [{"type": "Ready", "status": "True"}]
    plain_merge({"status": {"conditions": own}}, ordered(shared("Ready"), shared("Ready")), POD)
    assert not module._merged.known
    for number in range(2 * KEPT):
        theirs, order = shared(str(number)), shared(str(number), "Ready")
        plain_merge({"status": {"conditions": shared("Ready")}}, ordered(theirs, order), POD)
        assert len(module._merged.known) <= KEPT


def test_maps_that_a_patch_leaves_as_they_are_stay_the_same_object():
    original = {"metadata": {"uid": "u", "name": "a"}, "status": {"phase": "Pending"}}
    found = plain_merge(original, {"metadata": {"uid": "u"}, "status": {"phase": "Running"}}, POD)
    assert found["metadata"] is original["metadata"]
    assert plain_merge(original, {"metadata": {"uid": "u"}}, POD) is original


def test_pods_that_are_told_the_same_conditions_store_one_list_of_them():
    world = World()
    old, theirs, order = [], shared("Ready"), shared("Ready", "PodScheduled")
    for name in ("a", "b"):
        world.create("pods", pod(name))
        first = {"status": {"conditions": shared("PodScheduled")}}
        for patch in (first, ordered(theirs, order)):
            world.patch("pods", name, patch, STRATEGIC, sub="status")
        old.append(world.get("pods", name).tree["status"]["conditions"])
    assert [each["type"] for each in old[0]] == ["Ready", "PodScheduled"]
    assert old[0] is old[1]


def test_a_plain_patch_that_is_not_of_the_type_is_refused_in_the_words_of_the_long_way():
    world = World()
    world.create("pods", pod("a"))
    patch = {"status": {"phase": 3}}
    answer = world.patch("pods", "a", patch, STRATEGIC, sub="status")
    assert answer.code == 422
    assert "cannot convert int64 to v1.PodPhase" in answer.message
    assert "map[status:map[phase:3]]" in answer.message
