"""Group snapshots as the releases of external-snapshotter made them."""

from __future__ import annotations

import pytest

from controlplane.controllers.storage.snapshot.names import member_name
from controlplane.scenarios.churns.storage_world import definitions
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.storage import (
    CONTENTS,
    DRIVER,
    GROUP_CONTENTS,
    GROUPS,
    SNAPSHOTS,
)
from controlplane.scenarios.search.loading import from_module

SCENARIO = from_module("controlplane.scenarios.churns.storage_churn")


def taken(release):
    """A group is taken, and its members restored."""
    execution = Execution(plan_of(SCENARIO, part="consistency", fault="none", release=release))
    result = execution.world.run("bare")
    assert result.ok, result.reason
    return execution.cluster


@pytest.mark.parametrize(
    ("release", "version", "members"),
    [
        ("1.32", "v1beta1", "volumeSnapshotHandlePairList"),
        ("1.33", "v1beta1", "volumeSnapshotHandlePairList"),
        ("1.34", "v1beta2", "volumeSnapshotInfoList"),
        ("1.36", "v1", "volumeSnapshotInfoList"),
    ],
)
def test_a_release_speaks_its_version_of_the_api_of_groups(release, version, members):
    cluster = taken(release)
    [group] = cluster.objects(GROUPS)
    [content] = cluster.objects(GROUP_CONTENTS)
    snapshots = {each.name: each for each in cluster.objects(SNAPSHOTS)}
    listed = content.tree["status"][members]
    named_by = content.uid if release == "1.32" else group.uid
    names = [member_name(named_by, each["volumeHandle"]) for each in listed]
    assert sorted(snapshots) == sorted(names)
    for each in snapshots.values():
        [owner] = each.metadata["ownerReferences"]
        assert owner["apiVersion"] == f"groupsnapshot.storage.k8s.io/{version}"
        assert each.tree["status"]["readyToUse"]
    fields = {field for each in listed for field in each}
    assert ("restoreSize" in fields) == (members == "volumeSnapshotInfoList")


def test_before_the_list_told_more_than_handles_the_sidecar_asked_for_each_member():
    asked = {}
    for release in ("1.33", "1.34"):
        cluster = taken(release)
        calls = [each.method for each in cluster.csi_drivers[DRIVER].calls]
        asked[release] = calls.count("ListSnapshots")
        sizes = [each.tree["status"].get("restoreSize") for each in cluster.objects(CONTENTS)]
        assert all(sizes)
    assert asked["1.33"] >= 2
    assert not asked["1.34"]


def test_definitions_serve_what_the_releases_served():
    served = {}
    for version in ("v1beta1", "v1beta2", "v1"):
        for each in definitions(version):
            if each["spec"]["group"].startswith("groupsnapshot"):
                names = {v["name"]: v["storage"] for v in each["spec"]["versions"] if v["served"]}
                served[version] = dict(sorted(names.items()))
    assert served == {
        "v1beta1": {"v1beta1": True},
        "v1beta2": {"v1beta1": False, "v1beta2": True},
        "v1": {"v1": False, "v1beta1": False, "v1beta2": True},
    }


CONTENTS_OF_GROUPS = "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io"


def test_processes_of_v1beta1_work_with_what_the_webhook_converts(monkeypatch):
    from controlplane.scenarios.churns import storage_world as storage

    real = storage.store
    monkeypatch.setattr(storage, "store", lambda _version: real("v1beta2"))
    cluster = taken("1.33")
    [content] = cluster.objects(GROUP_CONTENTS)
    assert content.tree["apiVersion"].endswith("/v1beta2")
    listed = content.tree["status"]["volumeSnapshotInfoList"]
    assert [sorted(each) for each in listed] == [["snapshotHandle", "volumeHandle"]] * 2
    assert len(cluster.objects(SNAPSHOTS)) == 2


def test_without_the_webhook_they_lose_the_members(monkeypatch):
    from controlplane.scenarios.churns import storage_world as storage

    def stored(_version):
        return real("v1")

    real = storage.store
    monkeypatch.setattr(storage, "store", stored)
    execution = Execution(plan_of(SCENARIO, part="group", fault="none", release="1.33"))
    execution.world.run("bare", until_ns=20_000_000_000)
    assert execution.cluster.objects(SNAPSHOTS) == []


@pytest.mark.parametrize(("release", "stored"), [("1.33", "v1beta1"), ("1.34", "v1beta2")])
def test_definitions_in_files_store_what_the_release_speaks(release, stored):
    from pathlib import Path

    from controlplane.scenarios.inputs import reading
    from controlplane.scenarios.manifest_run import as_released

    folder = Path(__file__).parents[2] / "examples" / "group-snapshot"
    found, told = as_released(reading.load([str(folder)]).submissions, release)
    trees = [each.tree for each in found if each.tree["metadata"]["name"] == CONTENTS_OF_GROUPS]
    [storing] = [each["name"] for each in trees[0]["spec"]["versions"] if each["storage"]]
    assert storing == stored
    assert bool(told) == (release == "1.33")
