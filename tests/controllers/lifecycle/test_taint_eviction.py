from __future__ import annotations

from controlplane.api.constraints import Taint, Toleration
from controlplane.api.times import SECOND
from controlplane.controllers.lifecycle.taint_eviction import (
    Evictions,
    Outcome,
    look_at,
    matching,
    no_execute,
    shortest,
)

TAINT = Taint(key="k", effect="NoExecute")
OTHER = Taint(key="o", effect="NoExecute")


def tolerate(key: str = "k", seconds: int | None = None) -> Toleration:
    return Toleration(key=key, operator="Exists", toleration_seconds=seconds)


def look(evictions: Evictions, *tolerations: Toleration, now: int = 0, taints=(TAINT,)) -> Outcome:
    return look_at(evictions, "default/p", taints, tolerations, now)


def test_only_no_execute_taints_count():
    assert no_execute([Taint(key="a", effect="NoSchedule"), TAINT]) == (TAINT,)


def test_every_taint_has_to_be_tolerated():
    assert matching([TAINT, OTHER], [tolerate("k")]) is None
    assert matching([TAINT, OTHER], [tolerate("k"), tolerate("o")]) is not None


def test_the_shortest_toleration_counts():
    assert shortest([tolerate(seconds=9), tolerate(seconds=3), tolerate()]) == 3 * SECOND
    assert shortest([tolerate()]) is None
    assert shortest([tolerate(seconds=-1)]) == 0


def test_what_is_not_tolerated_is_deleted_at_once():
    evictions = Evictions()
    assert look(evictions) == Outcome(delete_now=True)
    assert evictions.next_due() is None


def test_a_timer_fires_after_the_toleration():
    evictions = Evictions()
    assert look(evictions, tolerate(seconds=3)) == Outcome()
    assert evictions.next_due() == 3 * SECOND
    assert evictions.fire(3 * SECOND - 1) == []
    assert evictions.fire(3 * SECOND) == ["default/p"]
    assert evictions.fire(9 * SECOND) == []
    assert not evictions.cancel("default/p")


def test_another_look_does_not_move_the_timer():
    evictions = Evictions()
    look(evictions, tolerate(seconds=30))
    look(evictions, tolerate(seconds=30), now=20 * SECOND)
    look(evictions, tolerate(seconds=3), now=21 * SECOND)
    assert evictions.next_due() == 30 * SECOND


def test_an_untolerated_taint_overrules_the_timer():
    evictions = Evictions()
    look(evictions, tolerate(seconds=30))
    outcome = look(evictions, tolerate(seconds=30), now=SECOND, taints=(TAINT, OTHER))
    assert outcome == Outcome(cancelled=True, delete_now=True)


def test_tolerating_for_ever_gives_the_deletion_up():
    evictions = Evictions()
    look(evictions, tolerate(seconds=30))
    assert look(evictions, tolerate(), now=SECOND) == Outcome(cancelled=True)
    assert evictions.next_due() is None


def test_after_a_deletion_is_over_the_pod_may_be_scheduled_anew():
    evictions = Evictions()
    look(evictions, tolerate(seconds=0))
    assert look(evictions, tolerate(seconds=0), now=SECOND) == Outcome()
    evictions.finished("default/p")
    assert look(evictions, tolerate(seconds=0), now=SECOND) == Outcome(delete_now=True)
