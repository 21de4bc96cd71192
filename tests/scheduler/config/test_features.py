"""Feature gates by release, and asking for others."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scheduler.config.features import defaults, of_release, parse, unknown


@pytest.mark.parametrize(
    ("release", "hints", "pop_from_backoff", "asynchronous"),
    [
        ("1.27", False, False, False),
        ("1.31", False, False, False),
        ("1.32", True, False, False),
        ("1.33", True, True, True),
        ("1.36", True, True, True),
    ],
)
def test_a_release_has_the_gates_it_had(release, hints, pop_from_backoff, asynchronous):
    had = of_release(release)
    assert had["SchedulerQueueingHints"] is hints
    assert had["SchedulerPopFromBackoffQ"] is pop_from_backoff
    assert had["SchedulerAsyncPreemption"] is asynchronous


def test_a_gate_needs_the_one_that_it_builds_on():
    with pytest.raises(UsageError, match="GangScheduling=true needs GenericWorkload=true"):
        parse(["GangScheduling=true"])
    with pytest.raises(UsageError, match="WorkloadAwarePreemption=true needs GangScheduling=true"):
        parse(["GenericWorkload=true,WorkloadAwarePreemption=true"])
    assert parse(["GangScheduling=true,GenericWorkload=true"])["GangScheduling"]


def test_gates_are_asked_for_as_upstream_asks_for_them():
    asked = (
        "SchedulerQueueingHints=false,OpportunisticBatching=true",
        "NodeDeclaredFeatures=false",
    )
    assert parse(asked) == {
        "SchedulerQueueingHints": False,
        "OpportunisticBatching": True,
        "NodeDeclaredFeatures": False,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SchedulerQueueingHints", "expected NAME=true or NAME=false"),
        ("SchedulerQueueingHints=yes", "expected NAME=true or NAME=false"),
        ("", "expected NAME=true or NAME=false"),
        ("StorageCapacityScoring=true", "feature gate StorageCapacityScoring=true is not emulated"),
        ("NoSuchGate=false", "no feature gate 'NoSuchGate'"),
        ("GangSchedulin=true", r"no feature gate 'GangSchedulin'; did you mean GangScheduling"),
    ],
)
def test_what_cannot_be_had_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse([text])


def test_asking_for_what_is_so_anyway_is_fine():
    assert not unknown(defaults())


@pytest.mark.parametrize(
    ("release", "devices", "shared"),
    [("1.33", False, False), ("1.34", True, False), ("1.36", True, True)],
)
def test_devices_are_allocated_as_the_release_did(release, devices, shared):
    had = of_release(release)
    assert had["DynamicResourceAllocation"] is devices
    assert had["DRAConsumableCapacity"] is shared
