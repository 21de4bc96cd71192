"""CSIDriver objects that ask for an emulated driver."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.inputs import reading
from controlplane.scenarios.manifest_run import storage_of

DRIVER = """
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata:
  name: disk.example.com
  annotations: {annotations}
spec: {{}}
"""


def read(tmp_path, **annotations):
    notes = {f"emulate.controlplane/csi-{key}": value for key, value in annotations.items()}
    path = tmp_path / "driver.yaml"
    path.write_text(DRIVER.format(annotations=notes))
    return storage_of(reading.load([str(path)]).submissions)


def test_a_driver_is_emulated_if_its_object_asks_for_it(tmp_path):
    assert read(tmp_path) is None
    found = read(tmp_path, driver="hostpath", **{"atomic-groups": "true", "upload-seconds": "0.5"})
    options = found.drivers[0].options
    assert (options.name, options.atomic_groups) == ("disk.example.com", True)
    assert options.upload_ns == 500_000_000
    assert not found.snapshots


def test_its_object_says_how_many_processes_there_are_and_whether_they_know_groups(tmp_path):
    notes = {
        "snapshotters": "2",
        "snapshot-controllers": "3",
        "snapshotter-groups": "false",
        "snapshot-controller-groups": "false",
    }
    found = read(tmp_path, driver="hostpath", **notes)
    assert (found.sidecars, found.controllers) == (2, 3)
    assert not found.drivers[0].groups
    assert not found.controller_groups


def test_its_object_says_how_its_volumes_are_reached(tmp_path):
    found = read(tmp_path, driver="hostpath", topology="true", **{"client-rate": "5/10"})
    assert found.client_rate == (5, 10)
    assert found.attaches
    assert found.drivers[0].options.attaches
    assert found.drivers[0].options.topology


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"driver": "ceph"}, "expected hostpath"),
        ({"driver": "hostpath", "upload-seconds": "soon"}, "expected seconds"),
        ({"driver": "hostpath", "snapshotters": "0"}, "expected 1 or more"),
        ({"driver": "hostpath", "client-rate": "5"}, "expected REQUESTS/BURST"),
        ({"driver": "hostpath", "client-rate": "0/10"}, "expected REQUESTS/BURST"),
    ],
)
def test_what_is_not_understood_is_one_line(tmp_path, annotations, said):
    with pytest.raises(UsageError, match=said) as raised:
        read(tmp_path, **annotations)
    assert "CSIDriver disk.example.com" in str(raised.value)
