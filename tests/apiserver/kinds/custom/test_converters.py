"""The conversion webhook of group snapshots' contents: down, up, and what it refuses."""

from __future__ import annotations

import pytest

from controlplane.apiserver.kinds.custom.converters import KEPT, converter_of
from controlplane.apiserver.schema.status import ApiError
from controlplane.scenarios.churns.storage_world import CONVERSION

GROUP = "groupsnapshot.storage.k8s.io"
INFO = {
    "volumeHandle": "a",
    "snapshotHandle": "s",
    "creationTime": 7,
    "readyToUse": True,
    "restoreSize": 9,
}
PAIR = {"volumeHandle": "a", "snapshotHandle": "s"}


def content(version, status=None, **metadata):
    tree = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": "c", **metadata},
        "spec": {"driver": "d"},
    }
    return tree if status is None else {**tree, "status": status}


@pytest.fixture
def convert():
    found = converter_of({"spec": {"conversion": CONVERSION}})
    assert found is not None
    return found


def test_going_down_keeps_the_whole_list_and_going_up_takes_it_back(convert):
    whole = content("v1beta2", {"readyToUse": True, "volumeSnapshotInfoList": [INFO]})
    less = convert(whole, "v1beta1")
    assert less["apiVersion"] == f"{GROUP}/v1beta1"
    assert less["status"] == {"readyToUse": True, "volumeSnapshotHandlePairList": [PAIR]}
    assert KEPT in less["metadata"]["annotations"]
    assert convert(less, "v1beta2") == whole


def test_what_was_written_with_two_fields_has_two_fields(convert):
    less = content("v1beta1", {"volumeSnapshotHandlePairList": [PAIR]})
    assert convert(less, "v1beta2") == content("v1beta2", {"volumeSnapshotInfoList": [PAIR]})


@pytest.mark.parametrize("status", [None, {"readyToUse": False}])
def test_where_there_is_no_list_only_the_version_changes(convert, status):
    notes = {"annotations": {"mine": "kept"}}
    given = content("v1beta2", status, **notes)
    assert convert(given, "v1beta1") == content("v1beta1", status, **notes)
    assert convert(given, "v1beta2") is given


def test_other_versions_are_refused(convert):
    with pytest.raises(ApiError, match="unexpected conversion version v1beta2 to v1"):
        convert(content("v1beta2"), "v1")


@pytest.mark.parametrize(
    "conversion", [None, {"strategy": "None"}, {"strategy": "Webhook", "webhook": {}}]
)
def test_other_definitions_have_no_converter(conversion):
    assert converter_of({"spec": {"conversion": conversion}}) is None
