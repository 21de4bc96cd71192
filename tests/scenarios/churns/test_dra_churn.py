"""The churn of devices: it holds, reaches what it is about, and its invariants notice what is taken away."""

from __future__ import annotations

import pytest

from controlplane.api.quantity import parse
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler.dra import counters
from controlplane.scheduler.dra.tracker import AllocatedDevices, ClaimTracker

CHURN = loading.from_module(loading.NAMED["dra-churn"])


def broken(seeds: int, **options: int) -> str:
    """The reason for which the first of these runs broke, "" if none did."""
    campaign = Campaign(plan_of(CHURN, **options))
    for seed in range(seeds):
        result = campaign.under(seed).result
        if not result.ok:
            return str(result.reason)
    return ""


@pytest.mark.slow
def test_nothing_breaks_and_all_kinds_of_devices_are_allocated():
    campaign = Campaign(plan_of(CHURN, operations=30))
    reached: dict[str, None] = {}
    for seed in range(15):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        reached.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    assert set(reached) == {each.name for each in CHURN.sometimes}


def test_a_scheduler_that_forgets_allocations_in_flight_gives_a_device_twice(monkeypatch):
    monkeypatch.setattr(ClaimTracker, "signal", lambda *_args: None)
    assert "no device is given twice" in broken(40, operations=30)


def test_a_scheduler_that_does_not_hear_of_free_devices_is_noticed(monkeypatch):
    notice = AllocatedDevices.notice

    def deaf(self, old, new):
        if new is not None and (new.tree.get("status") or {}).get("allocation"):
            notice(self, old, new)

    monkeypatch.setattr(AllocatedDevices, "notice", deaf)
    assert "which devices are free" in broken(40, operations=30)


def test_a_scheduler_that_does_not_count_overdraws_counters(monkeypatch):
    monkeypatch.setattr(counters, "_value", lambda _counter: parse("0"))
    assert "no counter of a pool is overdrawn" in broken(40, operations=30)


@pytest.mark.nightly
def test_nothing_breaks_for_long():
    assert broken(600, operations=40) == ""
