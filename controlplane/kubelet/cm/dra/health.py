"""The cache of device health that DRA drivers report, and its file. Upstream: pkg/kubelet/cm/dra/healthinfo.go.

A report is valid for the time that it names, 30 seconds by default; then the health of the device is Unknown. Expiry
triggers nothing, as upstream; the next sync of a pod shows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from controlplane.api.times import SECOND, format_nano_time, parse_time

__all__ = ["FILE", "HEALTHY", "TIMEOUT_NS", "UNHEALTHY", "UNKNOWN", "DeviceHealth", "HealthCache"]

FILE: Final = "dra_health_state"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
UNKNOWN: Final = "Unknown"
TIMEOUT_NS: Final = 30 * SECOND
LONGEST_MESSAGE: Final = 1024
_MORE: Final = "..."


@attrs.frozen
class DeviceHealth:
    """The health of a device as its driver says it.

    `timeout_ns` is the time for which it lasts, at most 0 for the default; `updated` is when the kubelet heard of it.
    """

    pool: str
    device: str
    health: str = UNKNOWN
    message: str = ""
    timeout_ns: int = 0
    updated: int = 0

    @property
    def key(self) -> str:
        """The device among those of its driver."""
        return f"{self.pool}/{self.device}"

    def stale(self, now: int) -> bool:
        """Return whether the report is too old."""
        return now - self.updated > (self.timeout_ns or TIMEOUT_NS)

    def says(self) -> tuple[str, str, int]:
        """Return what makes two reports different."""
        return self.health, self.message, self.timeout_ns


def _heard(told: DeviceHealth, now: int) -> DeviceHealth:
    """Return a report as the kubelet keeps it: with its time, a timeout, and a message that is not too long."""
    text = told.message.encode()
    message = told.message
    if len(text) > LONGEST_MESSAGE:
        message = text[: LONGEST_MESSAGE - len(_MORE)].decode(errors="ignore") + _MORE
    timeout = told.timeout_ns if told.timeout_ns > 0 else TIMEOUT_NS
    return attrs.evolve(told, message=message, timeout_ns=timeout, updated=now)


class HealthCache:
    """By driver and device the last report. A change makes new maps, which a file may hold on to."""

    def __init__(self) -> None:
        self.drivers: Mapping[str, Mapping[str, DeviceHealth]] = {}

    @classmethod
    def restored(cls, text: str | None) -> HealthCache:
        """Return the cache of a file; an empty one if there is none, or if it cannot be read."""
        found = cls()
        try:
            tree = {} if text is None else json.loads(text)
            found.drivers = {
                driver: {key: _read(each) for key, each in (state["Devices"] or {}).items()}
                for driver, state in tree.items()
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            found.drivers = {}
        return found

    def health(self, driver: str, pool: str, device: str, now: int) -> tuple[str, str]:
        """Return health and message of a device; Unknown if it was not heard of for too long."""
        found = self.drivers.get(driver, {}).get(f"{pool}/{device}")
        if found is None or found.stale(now):
            return UNKNOWN, ""
        return found.health, found.message

    def update(self, driver: str, told: Sequence[DeviceHealth], now: int) -> list[DeviceHealth]:
        """Take in a driver's report; return what differs. A device left out keeps its health until it is stale."""
        known = dict(self.drivers.get(driver, {}))
        changed = []
        reported: dict[str, None] = {}
        for each in told:
            heard = _heard(each, now)
            before = known.get(heard.key)
            reported[heard.key] = None
            if before is None or before.says() != heard.says():
                changed.append(heard)
            known[heard.key] = heard
        for key, each in known.items():
            if key not in reported and each.health != UNKNOWN and each.stale(now):
                lost = attrs.evolve(each, health=UNKNOWN, message="", updated=now)
                known[key] = lost
                changed.append(lost)
        self.drivers = {**self.drivers, driver: known}
        return changed

    def next_stale(self, driver: str, now: int) -> int | None:
        """Return when the next of a driver's devices becomes stale, None if none does."""
        ends = [
            each.updated + each.timeout_ns + 1
            for each in self.drivers.get(driver, {}).values()
            if each.health != UNKNOWN and not each.stale(now)
        ]
        return min(ends, default=None)

    def stale(self, driver: str, now: int) -> list[DeviceHealth]:
        """Return the devices of a driver that are stale."""
        return [each for each in self.drivers.get(driver, {}).values() if each.stale(now)]

    def clear(self, driver: str) -> None:
        """Forget a driver: its stream has ended."""
        self.drivers = {name: each for name, each in self.drivers.items() if name != driver}

    def content(self) -> HealthState:
        """Return what the file has to hold."""
        return HealthState(self.drivers)


@attrs.frozen(eq=False)
class HealthState:
    """The content of the file."""

    drivers: Mapping[str, Mapping[str, DeviceHealth]]

    @property
    def text(self) -> str:
        """The file, with the keys of maps in order as Go writes them."""
        tree = {
            driver: {"Devices": {key: _written(each) for key, each in sorted(devices.items())}}
            for driver, devices in sorted(self.drivers.items())
        }
        return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _written(each: DeviceHealth) -> dict[str, Any]:
    return {
        "PoolName": each.pool,
        "DeviceName": each.device,
        "Health": each.health,
        "LastUpdated": format_nano_time(each.updated),
        "HealthCheckTimeout": each.timeout_ns,
        "Message": each.message,
    }


def _read(tree: dict[str, Any]) -> DeviceHealth:
    return DeviceHealth(
        tree["PoolName"],
        tree["DeviceName"],
        tree["Health"],
        tree.get("Message", ""),
        tree.get("HealthCheckTimeout", 0),
        parse_time(tree["LastUpdated"]),
    )
