"""The record file of kube-scheduler-simulator of a recorded run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.api.times import SECOND
from controlplane.cli.logs import export
from controlplane.errors import UsageError
from controlplane.scenarios.engine.allowed_code import NO_CODE
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.inputs.reading import load
from controlplane.scenarios.search.loading import from_module
from controlplane.scenarios.search.simulator_record import record_lines

LATER = "emulate.controlplane/submit-seconds"


def pod(name: str, **notes: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "annotations": notes}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"kind": "List", "items": [pod("a"), pod("b", **{LATER: "7.5"})]}))
    run = Execution(
        plan_of(from_module("controlplane.scenarios.manifest_run"), files=(str(given),), nodes=1)
    )
    run.execute("bare")
    run.save(tmp_path / "out")
    return tmp_path / "out" / "run.rec"


def test_a_run_leaves_its_changes_at_their_times(recording: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in record_lines(recording, NO_CODE)]
    first = [(each["resource"]["kind"], each["resource"]["metadata"]["name"]) for each in lines[:6]]
    assert first == [
        ("Namespace", "default"),
        ("Namespace", "kube-node-lease"),
        ("Namespace", "kube-public"),
        ("Namespace", "kube-system"),
        ("PriorityClass", "system-cluster-critical"),
        ("PriorityClass", "system-node-critical"),
    ]
    made = {
        each["resource"]["metadata"]["name"]: each["time"]
        for each in lines
        if each["event"] == "Add" and each["resource"]["kind"] == "Pod"
    }
    assert made == {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01T00:00:07.5Z"}
    for each in lines:
        stamp = each["resource"]["metadata"].get("creationTimestamp")
        assert each["event"] != "Add" or stamp[:19] == each["time"][:19]
    bound = [
        each["resource"]["spec"]["nodeName"]
        for each in lines
        if each["event"] == "Update" and each["resource"]["spec"].get("nodeName")
    ]
    assert bound[0] == "node-1"

    file = tmp_path / "again.jsonl"
    file.write_text("".join(record_lines(recording, NO_CODE)))
    found = load([file])
    assert [each["metadata"]["name"] for each in found.nodes] == ["node-1"]
    pods = [each for each in found.submissions if each.tree["kind"] == "Pod"]
    times = [each.at_ns for each in pods if each.verb == "create"]
    assert times == [0, 7 * SECOND + SECOND // 2]


def test_the_command_writes_the_record_of_a_folder(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    place = str(recording.parent)
    asked = [place, "--format", "simulator", "-o", str(file)]
    assert CliRunner().invoke(export, asked, standalone_mode=False).exit_code == 0
    assert file.read_text() == "".join(record_lines(recording, NO_CODE))


def test_a_run_without_a_recording_is_refused(recording: Path) -> None:
    recording.unlink()
    asked = [str(recording.parent), "--format", "simulator"]
    with pytest.raises(UsageError, match="no recording"):
        CliRunner().invoke(export, asked, standalone_mode=False, catch_exceptions=False)
