"""The examples run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "actors"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ping_pong.py", "quiescent after 11 steps"),
        ("lost_update.py", "same trace: True"),
    ],
)
def test_an_example_of_the_runtime_runs(name, expected):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in done.stdout


def test_a_group_snapshot_gets_ready_and_its_objects_are_printed_as_upstream_shows_them():
    folder = ROOT / "examples" / "group-snapshot"
    program = "from controlplane.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    head = (
        "NAMESPACE NAME READYTOUSE VOLUMEGROUPSNAPSHOTCLASS VOLUMEGROUPSNAPSHOTCONTENT "
        "CREATIONTIME AGE"
    )
    assert head in lines
    ready = "demo-namespace snapshot-daily-20241217 true csi-groupsnapclass groupsnapcontent-"
    assert any(line.startswith(ready) for line in lines)
    assert {"VolumeSnapshot: 2", "VolumeSnapshotContent: 2"} <= set(lines)
    assert any(line.startswith("demo-namespace/database Running yes") for line in lines)
