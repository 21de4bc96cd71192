"""The emulated driver: idempotency, error codes, groups, and what volumes hold."""

from __future__ import annotations

from itertools import count

import pytest

from controlplane.controllers.storage.csi.hostpath import DriverOptions, HostpathDriver, Volume
from controlplane.controllers.storage.csi.messages import CsiRequest
from controlplane.decisions import at_once


class Driver:
    def __init__(self, **options):
        self.disk = HostpathDriver(DriverOptions(**options))
        for name in ("a", "b"):
            self.disk.volumes[name] = Volume(name, name, 100)
        self.ids = (f"id-{number}" for number in count(1))
        self.between = lambda: None
        self.now = 5

    def __call__(self, method, **fields):
        steps = self.disk.handle(CsiRequest(method, fields), self.now, lambda: next(self.ids))
        return at_once(steps, lambda _point: self.between())


def taken(reply):
    return reply.response["snapshot"]["snapshot_id"]


def test_a_snapshot_asked_for_twice_is_made_once():
    driver = Driver()
    first = driver("CreateSnapshot", name="s", source_volume_id="a")
    assert taken(driver("CreateSnapshot", name="s", source_volume_id="a")) == taken(first)
    assert len(driver.disk.snapshots) == 1
    other = driver("CreateSnapshot", name="s", source_volume_id="b")
    assert other.code == "AlreadyExists"


@pytest.mark.parametrize(
    ("method", "fields", "code"),
    [
        ("CreateSnapshot", {"name": "s", "source_volume_id": "gone"}, "NotFound"),
        ("CreateSnapshot", {"source_volume_id": "a"}, "InvalidArgument"),
        ("DeleteSnapshot", {"snapshot_id": "gone"}, "OK"),
        ("ListSnapshots", {"snapshot_id": "gone"}, "OK"),
        ("DeleteVolumeGroupSnapshot", {"group_snapshot_id": "gone"}, "OK"),
        ("GetVolumeGroupSnapshot", {"group_snapshot_id": "gone"}, "NotFound"),
        ("Unheard", {}, "Unimplemented"),
    ],
)
def test_codes_are_those_of_the_specification(method, fields, code):
    assert Driver()(method, **fields).code == code


def test_a_driver_without_the_group_service_says_so():
    reply = Driver(groups=False)("CreateVolumeGroupSnapshot", name="g", source_volume_ids=["a"])
    assert (reply.code, reply.message) == (
        "Unimplemented",
        "unknown service csi.v1.GroupController",
    )


def test_a_member_is_not_deleted_by_itself():
    driver = Driver()
    answer = driver("CreateVolumeGroupSnapshot", name="g", source_volume_ids=["a", "b"]).response
    member = answer["group_snapshot"]["snapshots"][0]["snapshot_id"]
    assert driver("DeleteSnapshot", snapshot_id=member).code == "InvalidArgument"
    driver(
        "DeleteVolumeGroupSnapshot", group_snapshot_id=answer["group_snapshot"]["group_snapshot_id"]
    )
    assert not driver.disk.snapshots


@pytest.mark.parametrize(("keeps", "left"), [(True, 1), (False, 0)])
def test_a_group_that_fails_half_way_may_leave_what_was_cut(keeps, left):
    driver = Driver(keeps_partial_groups=keeps)
    reply = driver("CreateVolumeGroupSnapshot", name="g", source_volume_ids=["a", "gone"])
    assert reply.code == "NotFound"
    assert len(driver.disk.snapshots) == left


@pytest.mark.parametrize(("atomic", "seen"), [(True, ()), (False, ("late",))])
def test_a_write_between_two_copies_is_seen_only_if_volumes_are_cut_one_after_the_other(
    atomic, seen
):
    driver = Driver(atomic_groups=atomic)
    driver.between = lambda: driver.disk.write("b", "late")
    driver("CreateVolumeGroupSnapshot", name="g", source_volume_ids=["a", "b"])
    cut = {each.volume: each.writes for each in driver.disk.snapshots.values()}
    assert cut == {"a": (), "b": seen}


def test_a_restored_volume_holds_what_was_cut():
    driver = Driver()
    driver.disk.write("a", 1)
    source = taken(driver("CreateSnapshot", name="s", source_volume_id="a"))
    driver.disk.write("a", 2)
    content = {"snapshot": {"snapshot_id": source}}
    size = {"required_bytes": 100}
    made = driver("CreateVolume", name="v", capacity_range=size, volume_content_source=content)
    assert driver.disk.volumes[made.response["volume"]["volume_id"]].writes == (1,)
    small = {"required_bytes": 99}
    refused = driver("CreateVolume", name="w", capacity_range=small, volume_content_source=content)
    assert refused.code == "InvalidArgument"


def test_a_snapshot_is_ready_once_it_is_uploaded():
    driver = Driver(upload_ns=10)
    first = driver("CreateSnapshot", name="s", source_volume_id="a")
    assert first.response["snapshot"]["ready_to_use"] is False
    driver.now += 10
    again = driver("CreateSnapshot", name="s", source_volume_id="a")
    assert again.response["snapshot"]["ready_to_use"] is True


def test_files_of_a_volume_are_kept_by_its_snapshots_and_restored_from_them():
    driver = Driver()
    driver.disk.put_file("a", "f", b"old")
    driver.disk.put_file("a", "gone", b"x")
    driver.disk.put_file("a", "gone", None)
    driver.disk.put_file("unknown", "f", b"x")
    content = {
        "snapshot": {"snapshot_id": taken(driver("CreateSnapshot", name="s", source_volume_id="a"))}
    }
    driver.disk.put_file("a", "f", b"new")
    size = {"required_bytes": 100}
    made = driver("CreateVolume", name="r", capacity_range=size, volume_content_source=content)
    restored = made.response["volume"]["volume_id"]
    assert driver.disk.files_of(restored) == {"f": b"old"}
    assert driver.disk.files_of("a") == {"f": b"new"}
    assert len(driver.disk.volumes["a"].writes) == 1
    assert driver.disk.files_of("unknown") == {}
