"""Invariants of attached volumes: each breaks when a node shows or loses what it should not, and holds otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.api.csi import unique_name
from controlplane.api.object import Object
from controlplane.scenarios.invariants.attachment import (
    attached_where_reported,
    containers_keep_their_volumes,
)
from controlplane.scenarios.invariants.storage import DRIVER
from tests.scenarios.invariants.stored import StoredRun, made, said

NOW = "2026-01-01T00:00:00Z"
DISK = made("PersistentVolume", "disk", {"csi": {"driver": DRIVER, "volumeHandle": "handle"}})


def node(*shown: str) -> Object:
    status = {"volumesAttached": [{"name": unique_name(DRIVER, each)} for each in shown]}
    return made("Node", "node-1", {}, status)


def attachment(*, attached: bool = True, **metadata: Any) -> Object:
    spec = {"nodeName": "node-1", "source": {"persistentVolumeName": "disk"}}
    return made("VolumeAttachment", "csi-1", spec, {"attached": attached}, **metadata)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ((node("handle"), attachment()), None),
        ((node(), attachment(deletionTimestamp=NOW)), None),
        ((node("of another driver"), attachment()), None),
        (
            (node("handle"), attachment(deletionTimestamp=NOW)),
            "node-1 shows disk as attached, and it is being detached",
        ),
        (
            (node("handle"), attachment(attached=False)),
            "node-1 shows disk as attached, and it is not attached there",
        ),
        ((node("handle"),), "node-1 shows disk as attached, and it is not attached there"),
    ],
)
def test_a_node_that_shows_what_is_not_attached_is_found(stored, told) -> None:
    assert said(attached_where_reported("apiserver"), DISK, *stored) == told


def world(*, mounted: bool, containers: int, stored: bool = True) -> StoredRun:
    """A node on which a volume is, or is not, mounted for pod `uid-1`, which has so many running containers."""
    places = [("node-1", "/pods/uid-1/disk")] if mounted else []
    sandbox = SimpleNamespace(running=lambda: [object()] * containers)
    run = StoredRun(*[made("Pod", "web", uid="uid-1")] if stored else ())
    run.cluster = SimpleNamespace(
        csi_drivers={DRIVER: SimpleNamespace(driver=SimpleNamespace(published={"disk": places}))},
        machines={"node-1": SimpleNamespace(sandboxes={"uid-1": sandbox})},
    )
    return run


@pytest.mark.parametrize(
    ("containers", "stored", "told"),
    [
        (0, True, None),
        (1, False, None),
        (1, True, "disk is no longer mounted for pod uid-1, whose containers run on node-1"),
    ],
)
def test_a_volume_that_goes_under_running_containers_is_found(containers, stored, told) -> None:
    law, before = containers_keep_their_volumes(), world(mounted=True, containers=1)
    assert law.check(before) is None
    after = world(mounted=False, containers=containers, stored=stored)
    after.notes = before.notes
    assert law.check(after) == told
