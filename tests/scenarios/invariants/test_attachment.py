"""Invariants of attached volumes: each breaks when a node shows or loses what it should not, and holds otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.api.csi import unique_name
from controlplane.api.object import Object
from controlplane.controllers.loops.csi_driver import SeenCall
from controlplane.scenarios.invariants.attachment import (
    attached_where_reported,
    attachments_outlast_what_is_attached,
    containers_keep_their_volumes,
    deleted_when_detached,
    mounted_where_attached,
)
from controlplane.scenarios.invariants.storage import (
    DRIVER,
    contents_stay_for_their_snapshots,
    one_call_at_a_time,
)
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


def driver(run: StoredRun, *, attached: bool, staged: bool = False) -> None:
    """A driver that has the volume attached to, and staged on, the node, or not."""
    nodes = {"node-1": None}
    options = SimpleNamespace(attaches=True)
    disk = SimpleNamespace(
        options=options,
        attached={"handle": nodes if attached else {}},
        staged={"handle": nodes if staged else {}},
        published={},
    )
    run.cluster = SimpleNamespace(csi_drivers={DRIVER: SimpleNamespace(driver=disk)})


@pytest.mark.parametrize(
    ("attached", "told"),
    [(True, "csi-1 is gone, and handle is attached to node-1"), (False, None)],
)
def test_an_attachment_that_goes_before_the_detach_is_found(attached, told) -> None:
    law, run = attachments_outlast_what_is_attached("apiserver"), StoredRun()
    driver(run, attached=True)
    going = attachment(deletionTimestamp=NOW)
    assert said(law, DISK, going, run=run) is None
    driver(run, attached=attached)
    assert said(law, DISK, run=run) == told


def test_an_attachment_that_says_what_is_not_so_is_found() -> None:
    law, run = attachments_outlast_what_is_attached("apiserver"), StoredRun()
    driver(run, attached=False)
    assert said(law, DISK, attachment(attached=False), run=run) is None
    assert said(law, DISK, attachment(deletionTimestamp=NOW), run=run) is None
    told = "csi-1 says that handle is attached, and it is not"
    assert said(law, DISK, attachment(), run=run) == told


@pytest.mark.parametrize(
    ("staged", "told"),
    [(True, "handle is staged on node-1, but not attached there"), (False, None)],
)
def test_a_volume_that_is_detached_while_it_is_staged_is_found(staged, told) -> None:
    run = StoredRun()
    driver(run, attached=False, staged=staged)
    assert mounted_where_attached().check(run) == told


def called(method: str, node: str = "", *, ended: int = 0, **fields: str) -> SeenCall:
    return SeenCall(method, fields, 1, 1, node, ended)


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        (
            [
                called("NodeStageVolume", "n", volume_id="v"),
                called("NodeUnstageVolume", "n", volume_id="v"),
            ],
            "NodeUnstageVolume of v while NodeStageVolume of it is in flight",
        ),
        ([called("NodeStageVolume", each, volume_id="v") for each in ("n", "other")], None),
        ([called("NodeStageVolume", "n", volume_id="v", ended=2)] * 2, None),
        (
            [called("NodePublishVolume", "n", volume_id="v", target_path=each) for each in "ab"],
            None,
        ),
        (
            [called("CreateSnapshot", name="s")] * 2,
            "CreateSnapshot of s while CreateSnapshot of it is in flight",
        ),
    ],
)
def test_two_calls_about_one_thing_at_once_are_found(calls, told) -> None:
    run = StoredRun()
    run.cluster = SimpleNamespace(csi_drivers={DRIVER: SimpleNamespace(calls=calls)})
    assert one_call_at_a_time().check(run) == told
    run.world.faults.injected.add("crash")
    assert one_call_at_a_time().check(run) is None


@pytest.mark.parametrize(
    ("held", "there", "told"),
    [
        (True, False, "vol is deleted, and a node has it"),
        (True, True, None),
        (False, False, None),
    ],
)
def test_a_volume_that_is_deleted_while_a_node_has_it_is_found(held, there, told) -> None:
    run = StoredRun()
    attached = {"vol": {"node-1": None} if held else {}}
    disk = SimpleNamespace(attached=attached, published={}, volumes={"vol": 1} if there else {})
    run.cluster = SimpleNamespace(csi_drivers={DRIVER: SimpleNamespace(driver=disk)})
    assert deleted_when_detached().check(run) == told


@pytest.mark.parametrize(
    ("going", "told"),
    [
        ({}, "content content is being deleted, and its snapshot default/snap is not"),
        ({"deletionTimestamp": NOW}, None),
        ({"uid": "another"}, None),
    ],
)
def test_a_content_that_is_deleted_under_its_snapshot_is_found(going, told) -> None:
    reference = {"volumeSnapshotRef": {"name": "snap", "uid": "snap"}}
    content = made("VolumeSnapshotContent", "content", reference, deletionTimestamp=NOW)
    law = contents_stay_for_their_snapshots("apiserver")
    assert said(law, content, made("VolumeSnapshot", "snap", **going)) == told
