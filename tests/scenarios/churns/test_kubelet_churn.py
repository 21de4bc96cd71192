"""The default churn for kubelets: clean with every fix on, and it finds bugs that nobody told it of."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.gates import CATALOGUE
from controlplane.kubelet.cm.devicemanager.manager import DeviceManager
from controlplane.scenarios.churns.kubelet_churn import PARTS
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from tests.races.findings import searched

GATES = {number: gate for number, gate in CATALOGUE.items() if gate.component == "kubelet"}
CHURN = loading.from_module(loading.NAMED["kubelet-churn"])


def campaign(off: str = "", **asked: Any) -> Campaign:
    fixed = tuple(f"{n}={gate.strongest}" for n, gate in GATES.items() if n != off)
    return Campaign(plan_of(CHURN, fix=fixed, without_fix=(off,) if off else (), **asked))


@pytest.mark.parametrize(
    "schedules",
    [pytest.param(25, marks=pytest.mark.slow), pytest.param(80, marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("faults", [True, False])
def test_with_every_fix_on_nothing_breaks(faults, schedules) -> None:
    seen = campaign(faults=faults).explore(schedules)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS[1:])
def test_with_static_pods_and_with_devices_nothing_breaks(part) -> None:
    seen = campaign(part=part).explore(25)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.slow
def test_search_finds_a_static_pod_that_never_starts_again() -> None:
    seen = campaign("104847", part="static-pods").explore(80)
    assert "static pods run" in seen.findings[0].result.reason


@pytest.mark.slow
def test_search_finds_that_devices_are_given_away_twice(monkeypatch) -> None:
    def available(manager: DeviceManager, resource: str) -> dict[str, None]:
        return dict.fromkeys(manager.healthy.get(resource, ()))

    monkeypatch.setattr(DeviceManager, "_available", available)
    seen = campaign(part="devices").explore(60)
    assert "has two owners" in seen.findings[0].result.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "faults", "schedules", "known"),
    [
        ("86320", False, 80, 65),
        ("90377", False, 20, 0),
        ("103979", False, 20, 0),
        ("104824", False, 20, 4),
        ("81344", True, 120, 18),
        ("136605", True, 80, 17),
        pytest.param("132851", False, 400, 0, marks=pytest.mark.nightly),
    ],
)
def test_search_finds_what_it_was_not_told_of(gate, faults, schedules, known) -> None:
    seen = searched(campaign(gate, faults=faults), schedules, known)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert seen.findings[0].result.verdict == "violated", seen.findings[0].result.reason
