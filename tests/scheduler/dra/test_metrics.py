"""Waits for binding conditions are counted by profile, driver and outcome."""

from __future__ import annotations

from typing import Any

from controlplane.scheduler.dra.metrics import SUCCESS, TIMEOUT, DRAMetrics


def claim(*results: dict[str, Any]) -> Any:
    return {"status": {"allocation": {"devices": {"results": list(results)}}}}


def test_every_device_observes_the_wait_and_those_with_conditions_are_counted():
    metrics = DRAMetrics()
    waits, plain = {"driver": "a", "bindingConditions": ["ready"]}, {"driver": "b"}
    metrics.waited("p", [claim(waits, waits), claim(plain), {}], SUCCESS, 5)
    metrics.waited("p", [claim(waits)], TIMEOUT, 600)
    assert metrics.allocations == {("p", "a", "success"): 2, ("p", "a", "timeout"): 1}
    seen = {key: (each.count, each.sum) for key, each in metrics.waits.items()}
    assert seen == {
        ("p", "a", "success"): (2, 10),
        ("p", "b", "success"): (1, 5),
        ("p", "a", "timeout"): (1, 600),
    }


def test_series_without_numbers_are_left_out():
    metrics = DRAMetrics()
    assert list(metrics.families()) == []
    metrics.created("failure")
    assert [each.name for each in metrics.families()] == ["scheduler_resourceclaim_creates_total"]
