"""The files of cgroup v2 in an emulated container: the resources that its runtime applied.

Upstream: pkg/kubelet/cm/helpers_linux.go (`MilliCPUToShares`, `MilliCPUToQuota`), and runc's conversion of shares to
a weight.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.quantity import Quantity, QuantityError, parse
from controlplane.api.tree import Tree

__all__ = ["MOUNTED", "PLACE", "files_of"]

PLACE: Final = "/sys/fs/cgroup"
MOUNTED: Final = f"cgroup on {PLACE} type cgroup2 (ro,nosuid,nodev,noexec,relatime)"
"""The line of `mount -t cgroup2`."""
_PERIOD: Final = 100_000
_MIN_QUOTA: Final = 1_000
_MIN_SHARES: Final = 2
_MAX_SHARES: Final = 262_144
_MIN_WEIGHT: Final = 1
_WEIGHTS: Final = 9_999


def files_of(container: Tree, status: Tree | None) -> dict[str, bytes]:
    """Return the files by path.

    Args:
        container: the container of the spec.
        status: the container's status, whose resources are those that were applied; None before its start.
    """
    applied = (status or {}).get("resources") or container.get("resources") or {}
    limits, requests = applied.get("limits") or {}, applied.get("requests") or {}
    limit, memory = _read(limits.get("cpu")), _read(limits.get("memory"))
    request = _read(requests.get("cpu")) or limit
    return {
        f"{PLACE}/cpu.max": _line(f"{_quota(limit)} {_PERIOD}"),
        f"{PLACE}/cpu.weight": _line(str(_weight(0 if request is None else request.milli_value()))),
        f"{PLACE}/memory.max": _line(str(memory.value()) if memory is not None else "max"),
    }


def _line(text: str) -> bytes:
    return f"{text}\n".encode()


def _read(text: str | None) -> Quantity | None:
    """Return an amount that is there and not zero."""
    if text is None:
        return None
    try:
        found = parse(str(text))
    except QuantityError:
        return None
    return found if found.milli_value() else None


def _quota(limit: Quantity | None) -> str:
    if limit is None:
        return "max"
    return str(max(_MIN_QUOTA, limit.milli_value() * _PERIOD // 1000))


def _weight(milli: int) -> int:
    shares = min(_MAX_SHARES, max(_MIN_SHARES, milli * 1024 // 1000))
    return _MIN_WEIGHT + (shares - _MIN_SHARES) * _WEIGHTS // (_MAX_SHARES - _MIN_SHARES)
