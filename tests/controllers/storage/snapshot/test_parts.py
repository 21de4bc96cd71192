"""Small decisions about snapshots: stores, templates, statuses, metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.storage.snapshot import metrics
from controlplane.controllers.storage.snapshot.objects import SNAPSHOT
from controlplane.controllers.storage.snapshot.parameters import expand
from controlplane.controllers.storage.snapshot.status import binary_size, copied
from controlplane.controllers.storage.snapshot.store import PrivateStore


def tree(version):
    metadata = {"name": "c", "resourceVersion": version} if version else {"name": "c"}
    return {"metadata": metadata}


def test_only_strictly_older_states_are_refused():
    store = PrivateStore()
    assert store.put(tree("5"))
    assert store.put(tree("5"))
    assert not store.put(tree("4"))
    assert store.put(tree("10"))


def test_a_state_without_a_version_makes_all_later_ones_look_old():
    store = PrivateStore()
    assert store.put(tree(""))
    assert not store.put(tree("7"))


@given(st.text(alphabet="ab{}$1-", max_size=12))
def test_text_without_a_dollar_stays_and_expanding_never_fails(text):
    plain = text.replace("$", "")
    assert expand(plain, lambda _: "x") == plain
    expand(text, lambda name: f"<{name}>")


@given(st.integers(min_value=0, max_value=2**62))
def test_a_size_is_the_same_number_in_its_largest_whole_unit(count):
    from controlplane.api.quantity import Quantity

    assert Quantity.parse(binary_size(count)).value() == count


def test_times_are_copied_once_and_readiness_always():
    status = {SNAPSHOT.bound_field: "c", "creationTime": "then", "readyToUse": True}
    told = {SNAPSHOT.bound_field: "other", "creationTime": "now", "readyToUse": False}
    assert copied(SNAPSHOT, status, told) == {**status, "readyToUse": False}
    assert copied(SNAPSHOT, status, {**told, "readyToUse": True}) is None


def test_an_error_goes_when_the_content_has_none():
    status = {SNAPSHOT.bound_field: "c", "readyToUse": False, "error": {"message": "x"}}
    told = {SNAPSHOT.bound_field: "c", "readyToUse": False}
    assert copied(SNAPSHOT, status, told) == told


@pytest.mark.parametrize(
    ("delete", "left"), [(metrics.DELETE, 0), (metrics.DELETE_GROUP, 1)], ids=["single", "group"]
)
def test_a_deletion_cancels_the_creation_of_single_snapshots_only(delete, left):
    counted = metrics.Metrics()
    create = metrics.CREATE if delete == metrics.DELETE else metrics.CREATE_GROUP
    counted.begin(create, "u", "d", metrics.DYNAMIC, 1)
    counted.begin(delete, "u", "unknown", metrics.DYNAMIC, 5)
    counted.succeed(delete, "u", "d", 9)
    assert counted.in_flight == left
    assert counted.durations[metrics.Series("d", delete, metrics.DYNAMIC, metrics.SUCCESS)] == [4]
