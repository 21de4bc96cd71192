"""The devices of a cluster and the claims that hold them, for the table that a run ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controlplane.api.resource_claims import allocated_devices, reserved_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from controlplane.api.tree import Tree
    from controlplane.scenarios.engine.run import Run

__all__ = ["COLUMNS", "DeviceRow", "device_rows", "devices_of", "shown"]

COLUMNS: Final = ("NODE", "DRIVER", "POOL", "DEVICE", "CLAIM", "PODS")
MOST_ROWS: Final = 40
UNPUBLISHED: Final = "(not published)"
SLICES: Final = "/registry/resourceslices/"
CLAIMS: Final = "/registry/resourceclaims/"
_Name = tuple[str, str, str]


class DeviceRow(NamedTuple):
    """A device with one claim that holds it; `claim` and `pods` are "" for a free device."""

    node: str
    driver: str
    pool: str
    device: str
    claim: str
    pods: str


def devices_of(run: Run) -> list[DeviceRow]:
    """Return the devices at the end of a run; none where nothing publishes any."""
    slices = [obj.tree for obj in run.objects(SLICES)]
    return device_rows(slices, [obj.tree for obj in run.objects(CLAIMS)]) if slices else []


def device_rows(slices: Sequence[Tree], claims: Iterable[Tree]) -> list[DeviceRow]:
    """Return the devices of the newest generation of each pool by node and name, with the claims that hold them.

    A device of a claim that no slice has any more comes last.
    """
    holders: dict[_Name, list[Tree]] = {}
    for claim in claims:
        for result in allocated_devices(claim):
            holders.setdefault(_name(result), []).append(claim)
    found: list[DeviceRow] = []
    for node, name in sorted(_published(slices)):
        found += _rows(node, name, holders.pop(name, ()))
    for name, left in sorted(holders.items()):
        found += _rows(UNPUBLISHED, name, left)
    return found


def shown(rows: Sequence[DeviceRow]) -> tuple[str, tuple[str, ...], list[DeviceRow]]:
    """Return title, columns and rows of a short table: of many devices the held ones first."""
    held = [row for row in rows if row.claim]
    devices = len({row[1:4] for row in rows})
    title = f"Devices: {len({row[1:4] for row in held})} of {devices} allocated"
    if len(rows) <= MOST_ROWS:
        return title, COLUMNS, list(rows)
    ordered = [*held, *(row for row in rows if not row.claim)]
    rest = DeviceRow(f"and {len(rows) - MOST_ROWS} more", "", "", "", "", "")
    return title, COLUMNS, [*ordered[:MOST_ROWS], rest]


def _name(result: Tree) -> _Name:
    return result.get("driver", ""), result.get("pool", ""), result.get("device", "")


def _published(slices: Sequence[Tree]) -> Iterator[tuple[str, _Name]]:
    """Each device with its node: that of its slice, its own, or "" for devices of several nodes."""
    newest: dict[tuple[str, str], int] = {}
    for tree in slices:
        pool, generation = _pool(tree)
        newest[pool] = max(newest.get(pool, generation), generation)
    for tree in slices:
        pool, generation = _pool(tree)
        if generation == newest[pool]:
            node = tree["spec"].get("nodeName", "")
            for device in tree["spec"].get("devices") or ():
                yield node or device.get("nodeName", ""), (*pool, device["name"])


def _pool(tree: Tree) -> tuple[tuple[str, str], int]:
    spec: Any = tree["spec"]
    return (spec["driver"], spec["pool"]["name"]), spec["pool"].get("generation", 0)


def _rows(node: str, name: _Name, holders: Iterable[Tree]) -> Iterator[DeviceRow]:
    free = True
    for claim in holders:
        free = False
        meta = claim["metadata"]
        users = [_user(each) for each in reserved_for(claim)]
        yield DeviceRow(node, *name, f"{meta['namespace']}/{meta['name']}", ", ".join(users))
    if free:
        yield DeviceRow(node, *name, "", "")


def _user(consumer: Tree) -> str:
    name: str = consumer.get("name", "")
    resource = consumer.get("resource", "")
    return name if resource == "pods" else f"{resource}/{name}"
