"""The eviction manager's decisions: what is met, since when, what the node says, who ranks first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.errors import UsageError
from controlplane.kubelet.config.configuration import Threshold, configuration
from controlplane.kubelet.eviction.manager import EvictionManager
from controlplane.kubelet.eviction.ranking import candidates, over_limit
from controlplane.kubelet.eviction.settings import (
    EvictionSettings,
    EvictionThreshold,
    default_settings,
    settings_of,
)
from controlplane.kubelet.eviction.stats import Observation, PodStats

SECOND = 1_000_000_000
KIND = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
HARD = EvictionThreshold("memory.available", Threshold(parse("100")), 0, Threshold(parse("50")))
SOFT = EvictionThreshold("nodefs.available", Threshold(part=0.5), 30 * SECOND)


def manager(*thresholds: EvictionThreshold, transition_s: int = 60) -> EvictionManager:
    return EvictionManager(EvictionSettings(thresholds, transition_s * SECOND))


def left(memory: int = 1000, disk: int = 1000) -> dict[str, Observation]:
    return {
        "memory.available": Observation(memory, 1000),
        "nodefs.available": Observation(disk, 1000),
    }


def pod(name: str, *, priority: int = 0, container: dict | None = None) -> Pod:
    tree = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"priority": priority, "containers": [{"name": "main", **(container or {})}]},
    }
    return Pod.from_tree(tree)


def asking(**requests: str) -> dict:
    return {"resources": {"requests": {k.replace("_", "-"): v for k, v in requests.items()}}}


def using(amount: int) -> PodStats:
    used = dict.fromkeys(("memory", "ephemeral-storage", "inodes", "pids"), amount)
    return PodStats({"main": used})


def test_a_hard_threshold_counts_at_once_and_until_the_minimum_is_reclaimed() -> None:
    found = manager(HARD)
    assert found.synchronize(left(memory=100), 0) == ()  # not below
    assert found.synchronize(left(memory=99), 10 * SECOND) == (HARD,)
    assert found.synchronize(left(memory=149), 20 * SECOND) == (HARD,)
    assert found.synchronize(left(memory=150), 30 * SECOND) == ()
    assert found.synchronize(left(memory=149), 40 * SECOND) == ()


def test_a_soft_threshold_counts_after_its_grace_period_without_a_break() -> None:
    found = manager(SOFT)
    times = [(0, 499), (20, 499), (25, 500), (30, 499), (59, 499), (60, 499)]
    met = [bool(found.synchronize(left(disk=disk), at * SECOND)) for at, disk in times]
    assert met == [False, False, False, False, False, True]


def test_memory_comes_before_everything_else() -> None:
    disk = EvictionThreshold("nodefs.available", Threshold(part=0.5))
    assert manager(disk, HARD).synchronize(left(0, 0), 0) == (HARD,)


def test_a_condition_stays_for_the_transition_period_and_says_when_it_ends() -> None:
    found = manager(HARD)
    found.synchronize(left(memory=0), 10 * SECOND)
    found.synchronize(left(), 20 * SECOND)
    assert found.conditions == ("MemoryPressure",)
    assert found.due(20 * SECOND) == 70 * SECOND
    found.synchronize(left(), 69 * SECOND)
    assert found.conditions == ("MemoryPressure",)
    found.synchronize(left(), 70 * SECOND)
    assert found.conditions == ()
    assert found.due(70 * SECOND) is None


def test_passes_that_were_left_out_count_as_seen() -> None:
    found = manager(HARD)
    found.synchronize(left(memory=0), 0)
    assert found.due(0) is None
    found.synchronize(left(), 1000 * SECOND)
    assert found.due(1000 * SECOND) == 1050 * SECOND


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(400, 600)), max_size=30))
def test_left_out_passes_change_nothing(seen) -> None:
    """A manager that passes only when something is found says at each tick what one says that always passes."""
    always, lazy = manager(HARD, SOFT), manager(HARD, SOFT)
    for tick, (memory, disk) in enumerate(seen):
        now, observed = tick * 10 * SECOND, left(memory, disk)
        due = lazy.due(max(0, now - 10 * SECOND))
        met = always.synchronize(observed, now)
        if lazy.finds_other(observed) or lazy.must_reclaim or (due is not None and due <= now):
            assert lazy.synchronize(observed, now) == met
        assert sorted(lazy.conditions) == sorted(always.conditions)
        assert lazy.must_reclaim == always.must_reclaim


def test_conditions_refuse_pods_but_critical_ones() -> None:
    found = manager(HARD, SOFT)
    best_effort, burstable = pod("b"), pod("r", container=asking(memory="1"))
    assert found.objection(best_effort) == ""
    found.synchronize(left(memory=0), 0)
    assert found.objection(best_effort) == "The node had condition: [MemoryPressure]. "
    assert found.objection(burstable) == ""
    found.synchronize(left(0, 0), 10 * SECOND)
    both = "The node had condition: [MemoryPressure DiskPressure]. "
    assert found.objection(burstable) == both
    assert found.objection(pod("c", priority=2_000_000_000)) == ""


def test_who_goes_first_for_memory() -> None:
    stats = {
        "below": using(10), "above": using(20), "far": using(30), "low": using(11), "critical": using(99),
    }  # fmt: skip
    small = asking(memory="10")
    pods = [
        pod("below", container=small, priority=-5),
        pod("above", container=small),
        pod("far", container=small),
        pod("critical", priority=2_000_000_000),
        pod("low", container=small, priority=-1),
        pod("starting", priority=7),
    ]
    order = []
    while found := candidates(pods, "memory", lambda each: stats.get(each.uid)):
        order += [each.name for each in found]
        pods = [each for each in pods if each not in found]
    assert order == ["starting", "low", "far", "above", "below"]


def test_no_pod_has_a_request_of_processes() -> None:
    stats = {"many": using(9), "few": using(3), "important": using(99)}
    pods = [pod("few"), pod("many"), pod("important", priority=1)]
    (found,) = candidates(pods, "pids", lambda each: stats.get(each.uid))
    assert found.name == "many"


def test_inodes_are_compared_with_the_request_for_bytes() -> None:
    pods = [pod("asks", container=asking(ephemeral_storage="8")), pod("asks-nothing")]
    stats = {"asks": using(10), "asks-nothing": using(5)}
    (found,) = candidates(pods, "inodes", lambda each: stats.get(each.uid))
    assert found.name == "asks-nothing"


def test_equals_are_all_named() -> None:
    pods = [pod("a"), pod("b"), pod("c", priority=1)]
    found = candidates(pods, "memory", lambda _pod: using(5))
    assert [each.name for each in found] == ["a", "b"]


def test_one_container_above_its_limit_is_enough() -> None:
    tree = {
        "metadata": {"name": "two", "namespace": "default", "uid": "two"},
        "spec": {
            "containers": [
                {"name": name, "resources": {"limits": {"ephemeral-storage": limit}}}
                for name, limit in (("small", "10"), ("large", "100"))
            ]
        },
    }
    used = {"small": {"ephemeral-storage": 11}, "large": {"ephemeral-storage": 50}}
    (found,) = over_limit([Pod.from_tree(tree)], lambda _pod: PodStats(used))
    assert found.message == 'Container small exceeded its local ephemeral storage limit "10". '
    assert found.condition is None


def test_the_configuration_says_it_all() -> None:
    found = settings_of(
        configuration(
            {
                **KIND,
                "evictionHard": {"memory.available": "1Gi"},
                "evictionSoft": {"memory.available": "2Gi", "pid.available": "10%"},
                "evictionSoftGracePeriod": {"memory.available": "1m", "pid.available": "90s"},
                "evictionMinimumReclaim": {"memory.available": "500Mi"},
                "evictionMaxPodGracePeriod": 45,
                "evictionPressureTransitionPeriod": "30s",
                "systemReserved": {"memory": "1Gi"},
                "kubeReserved": {"memory": "1Gi"},
            }
        )
    )
    reclaim = Threshold(parse("500Mi"))
    assert found == EvictionSettings(
        (
            EvictionThreshold("memory.available", Threshold(parse("1Gi")), 0, reclaim),
            EvictionThreshold("memory.available", Threshold(parse("2Gi")), 60 * SECOND, reclaim),
            EvictionThreshold("pid.available", Threshold(part=0.1), 90 * SECOND),
            EvictionThreshold("allocatableMemory.available", Threshold(parse("1Gi")), 0, reclaim),
        ),
        30 * SECOND,
        45,
        2 << 30,
    )


def test_no_configuration_is_the_default_configuration() -> None:
    assert default_settings() == settings_of(configuration())


def test_a_part_is_taken_in_single_precision() -> None:
    """As on a machine whose 52403200Ki of storage leave 48294789041 bytes to pods."""
    capacity = 52403200 << 10
    assert capacity - Threshold(part=0.1).of_whole(capacity) == 48294789041


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"evictionMinimumReclaim": {"x": "1"}}, "unsupported eviction signal x"),
        (
            {"evictionMinimumReclaim": {"memory.available": "-1Mi"}},
            "negative eviction minimum reclaim specified for memory.available",
        ),
        (
            {"evictionMinimumReclaim": {"memory.available": "0%"}},
            "eviction percentage minimum reclaim memory.available must be positive: 0%",
        ),
        (
            {
                "evictionSoft": {"memory.available": "1Gi"},
                "evictionSoftGracePeriod": {"memory.available": "-1s"},
            },
            "invalid eviction grace period specified: -1s, must be a positive value",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(settings, told) -> None:
    with pytest.raises(UsageError) as error:
        configuration({**KIND, **settings})
    assert told in str(error.value)
