"""Invariants of StatefulSets in order: each breaks when a pod is out of order, and holds otherwise."""

from __future__ import annotations

from controlplane.scenarios.invariants.statefulsets import (
    ordinals_begin_in_order,
    ordinals_go_one_at_a_time,
)
from tests.scenarios.invariants.stored import StoredRun, made, owned, said

NOW = "2026-01-01T00:00:00Z"
ORDERED = made("StatefulSet", "db", {"podManagementPolicy": "OrderedReady"})
PARALLEL = made("StatefulSet", "db", {"podManagementPolicy": "Parallel"})


def test_an_ordinal_begins_after_its_predecessors_were_ready() -> None:
    law = ordinals_begin_in_order("etcd")
    first, second = owned("StatefulSet", "db", "db-0"), owned("StatefulSet", "db", "db-1")
    assert said(law, ORDERED, first, second) is None
    waiting = owned("StatefulSet", "db", "db-0", "Pending")
    assert said(law, ORDERED, waiting, second) == "default/db-1 is there, and db-0 was never ready"
    assert said(law, PARALLEL, waiting, second) is None


def test_a_predecessor_that_was_made_again_has_to_be_ready_again() -> None:
    law = ordinals_begin_in_order("etcd")
    first, second = owned("StatefulSet", "db", "db-0"), owned("StatefulSet", "db", "db-1")
    again = owned("StatefulSet", "db", "db-0", "Pending", uid="again")
    run = StoredRun()
    assert said(law, ORDERED, first, run=run) is None
    assert said(law, ORDERED, again, run=run) is None
    assert said(law, ORDERED, again, second, run=run) == (
        "default/db-1 is there, and db-0 was never ready"
    )
    forgetful = StoredRun()
    forgetful.world.faults.injected = {"crash", "restart"}
    assert said(law, ORDERED, first, run=forgetful) is None
    assert said(law, ORDERED, again, second, run=forgetful) is None


def test_an_ordinal_without_a_pod_is_not_waited_for_again() -> None:
    law, run = ordinals_begin_in_order("etcd"), StoredRun()
    assert said(law, ORDERED, owned("StatefulSet", "db", "db-0"), run=run) is None
    assert said(law, ORDERED, owned("StatefulSet", "db", "db-1"), run=run) is None


def test_a_pod_that_an_earlier_owner_began_is_adopted_in_any_order() -> None:
    law, run = ordinals_begin_in_order("etcd"), StoredRun()
    former = [owned("StatefulSet", "former", f"db-{at}", "Pending") for at in (0, 1)]
    assert said(law, made("StatefulSet", "former", deletionTimestamp=NOW), *former, run=run) is None
    adopted = owned("StatefulSet", "db", "db-1")
    assert said(law, ORDERED, former[0], adopted, run=run) is None


def test_a_predecessor_that_was_ready_under_an_earlier_owner_counts() -> None:
    law, run = ordinals_begin_in_order("etcd"), StoredRun()
    former = made("StatefulSet", "former", {"podManagementPolicy": "OrderedReady"})
    assert said(law, former, owned("StatefulSet", "former", "db-0"), run=run) is None
    adopted = owned("StatefulSet", "db", "db-0", "Pending")
    assert said(law, ORDERED, adopted, owned("StatefulSet", "db", "db-1"), run=run) is None


def test_two_ordinals_that_go_at_once_are_found() -> None:
    law = ordinals_go_one_at_a_time("etcd")
    pods = [owned("StatefulSet", "db", f"db-{at}", deletionTimestamp=NOW) for at in (0, 1)]
    assert said(law, ORDERED, pods[0], owned("StatefulSet", "db", "db-1")) is None
    assert said(law, ORDERED, *pods) == "StatefulSet default/db deletes db-0 and db-1 at once"
    assert said(law, PARALLEL, *pods) is None
    going = made("StatefulSet", "db", {}, deletionTimestamp=NOW)
    assert said(law, going, *pods) is None
