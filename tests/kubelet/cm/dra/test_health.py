"""The kubelet's memory of what drivers report of their devices: changes, age, and the file."""

from __future__ import annotations

import json

import pytest

from controlplane.api.times import SECOND
from controlplane.kubelet.cm.dra.health import (
    HEALTHY,
    UNHEALTHY,
    UNKNOWN,
    DeviceHealth,
    HealthCache,
)

DRIVER = "gpu.example.com"


def told(device: str, health: str = HEALTHY, message: str = "", timeout: int = 0) -> DeviceHealth:
    return DeviceHealth("pool", device, health, message, timeout * SECOND)


def health(cache: HealthCache, device: str, at: int) -> str:
    return cache.health(DRIVER, "pool", device, at * SECOND)[0]


@pytest.mark.parametrize("timeout", [0, 60, -5])
def test_a_report_lasts_for_its_time_and_thirty_seconds_by_default(timeout):
    cache = HealthCache()
    cache.update(DRIVER, [told("a", UNHEALTHY, "hot", timeout)], 0)
    last = timeout if timeout > 0 else 30
    assert cache.health(DRIVER, "pool", "a", last * SECOND) == (UNHEALTHY, "hot")
    assert cache.health(DRIVER, "pool", "a", last * SECOND + 1) == (UNKNOWN, "")


def test_devices_are_told_apart_by_driver_and_pool():
    cache = HealthCache()
    cache.update(DRIVER, [told("a")], 0)
    assert cache.health(DRIVER, "other", "a", 0) == (UNKNOWN, "")
    assert cache.health("other", "pool", "a", 0) == (UNKNOWN, "")


def test_a_report_that_says_the_same_changes_nothing_but_its_time():
    cache = HealthCache()
    assert [each.device for each in cache.update(DRIVER, [told("a"), told("b")], 0)] == ["a", "b"]
    assert cache.update(DRIVER, [told("a"), told("b")], 20 * SECOND) == []
    assert health(cache, "a", 45) == HEALTHY
    again = [told("a", HEALTHY, "fine"), told("b", HEALTHY, "", 10)]
    assert [each.device for each in cache.update(DRIVER, again, 21 * SECOND)] == ["a", "b"]


def test_a_device_that_is_left_out_becomes_unknown_once_it_is_stale():
    cache = HealthCache()
    cache.update(DRIVER, [told("a"), told("b")], 0)
    assert cache.update(DRIVER, [told("b")], 30 * SECOND) == []
    (lost,) = cache.update(DRIVER, [told("b")], 31 * SECOND)
    assert (lost.device, lost.health) == ("a", UNKNOWN)
    assert cache.update(DRIVER, [told("b")], 90 * SECOND) == []


def test_a_message_is_cut_to_its_greatest_length():
    cache = HealthCache()
    cache.update(DRIVER, [told("a", UNHEALTHY, "x" * 1024), told("b", UNHEALTHY, "y" * 1025)], 0)
    assert cache.health(DRIVER, "pool", "a", 0)[1] == "x" * 1024
    assert cache.health(DRIVER, "pool", "b", 0)[1] == "y" * 1021 + "..."


def test_the_file_brings_everything_back_and_has_the_fields_of_upstream():
    cache = HealthCache()
    cache.update(DRIVER, [told("a", UNHEALTHY, "hot", 60)], 5 * SECOND)
    text = cache.content().text
    assert json.loads(text)[DRIVER]["Devices"]["pool/a"] == {
        "PoolName": "pool",
        "DeviceName": "a",
        "Health": "Unhealthy",
        "LastUpdated": "1970-01-01T00:00:05Z",
        "HealthCheckTimeout": 60 * SECOND,
        "Message": "hot",
    }
    assert HealthCache.restored(text).drivers == cache.drivers
    cache.clear(DRIVER)
    assert cache.content().text == "{}"


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"d": 1}', '{"d": {"Devices": {"k": {}}}}'])
def test_a_file_that_cannot_be_read_is_an_empty_one(text):
    assert HealthCache.restored(text).drivers == {}
