"""How fast an autoscaler follows."""

from __future__ import annotations

import pytest

from controlplane.api.autoscaling import (
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
)
from controlplane.api.times import SECOND
from controlplane.controllers.autoscaling.podautoscaler.rules import (
    DOWN_LIMIT,
    DOWN_STABILIZED,
    READY,
    TOO_FEW,
    TOO_MANY,
    UP_LIMIT,
    UP_STABILIZED,
    WITHIN,
    Bounds,
    Memory,
    Stamped,
    normalize,
    normalize_with_rules,
    store_event,
)

NOW = 1000 * SECOND


def ago(value: int, seconds: int) -> Stamped:
    return Stamped(value, NOW - seconds * SECOND)


def rules(window: int, *policies: tuple[str, int, int], select: str = "Max") -> HPAScalingRules:
    given = tuple(HPAScalingPolicy(period, kind, value) for kind, value, period in policies)
    return HPAScalingRules(given, select, window)


@pytest.mark.parametrize(
    ("bounds", "replicas", "limit"),
    [
        (Bounds(3, 5, 1, 10), 5, WITHIN),
        (Bounds(3, 50, 1, 10), 10, TOO_MANY),
        (Bounds(3, 1, 2, 10), 2, TOO_FEW),
        (Bounds(1, 50, 1, 100), 8, UP_LIMIT),
    ],
)
def test_without_rules_there_are_the_bounds_and_a_factor(bounds, replicas, limit):
    found = normalize(Memory(), bounds, NOW)
    assert (found.replicas, found.limit) == (replicas, limit)
    assert found.limited == (limit is not WITHIN)
    assert found.able == READY


def test_without_rules_what_was_asked_for_within_five_minutes_still_counts():
    memory = Memory([ago(6, 299), ago(9, 301)])
    found = normalize(memory, Bounds(9, 2, 1, 10), NOW)
    assert (found.replicas, found.able) == (6, DOWN_STABILIZED)
    assert memory.recommendations == [ago(6, 299), ago(2, 0)]


def test_rules_up_wait_for_the_lowest_of_their_window():
    behavior = HorizontalPodAutoscalerBehavior(scale_up=rules(60, ("Pods", 100, 15)))
    memory = Memory([ago(4, 30), ago(3, 90)])
    found = normalize_with_rules(memory, behavior, Bounds(3, 8, 1, 10), NOW)
    assert (found.replicas, found.able) == (4, UP_STABILIZED)


def test_rules_down_wait_for_the_highest_of_their_window():
    behavior = HorizontalPodAutoscalerBehavior(scale_down=rules(60, ("Pods", 100, 15)))
    memory = Memory([ago(7, 30), ago(9, 90)])
    found = normalize_with_rules(memory, behavior, Bounds(9, 2, 1, 10), NOW)
    assert (found.replicas, found.able) == (7, DOWN_STABILIZED)


@pytest.mark.parametrize(("select", "replicas"), [("Max", 8), ("Min", 6), ("Disabled", 4)])
def test_policies_up_count_what_was_added_already(select, replicas):
    up = rules(0, ("Pods", 4, 60), ("Percent", 100, 60), select=select)
    behavior = HorizontalPodAutoscalerBehavior(scale_up=up)
    memory = Memory(ups=[ago(0, 90)])
    if select == "Min":
        memory.ups.append(ago(1, 30))
    found = normalize_with_rules(memory, behavior, Bounds(4, 50, 1, 100), NOW)
    assert (found.replicas, found.limit) == (replicas, UP_LIMIT)


def test_policies_down_limit_the_loss():
    behavior = HorizontalPodAutoscalerBehavior(scale_down=rules(0, ("Pods", 2, 60)))
    memory = Memory(downs=[ago(1, 30)])
    found = normalize_with_rules(memory, behavior, Bounds(8, 1, 1, 10), NOW)
    assert (found.replicas, found.limit) == (7, DOWN_LIMIT)


def test_changes_are_remembered_where_there_are_rules_in_the_place_of_old_ones():
    memory = Memory()
    store_event(memory, None, 1, 3, NOW)
    assert memory == Memory()
    up = rules(0, ("Pods", 4, 60))
    behavior = HorizontalPodAutoscalerBehavior(scale_up=up)
    memory.ups += [ago(1, 61), ago(2, 20)]
    store_event(memory, behavior, 1, 3, NOW)
    assert memory.ups == [ago(2, 0), ago(2, 20)]
    store_event(memory, behavior, 3, 2, NOW)
    assert memory.downs == [ago(1, 0)]
