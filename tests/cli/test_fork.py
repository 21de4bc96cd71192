"""`controlplane fork`: what it prints, leaves and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from controlplane.cli.fork import command as fork
from controlplane.cli.replay import command as replay
from controlplane.cli.run import command as run
from controlplane.errors import UsageError

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: main, image: web}]}
"""


def invoke(command, *arguments):
    return CliRunner().invoke(command, [*map(str, arguments)], standalone_mode=False)


@pytest.fixture
def out(tmp_path):
    (tmp_path / "pod.yaml").write_text(POD.replace("NAME", "web"))
    folder = tmp_path / "out"
    assert invoke(run, tmp_path / "pod.yaml", "--nodes", 1, "--out", folder).return_value == 0
    return folder


def test_a_fork_is_a_run_of_its_own(out, tmp_path):
    (tmp_path / "more.yaml").write_text(POD.replace("NAME", "more"))
    other = tmp_path / "other"
    told = invoke(
        fork,
        out,
        "--at",
        100,
        "--seed",
        3,
        "--strategy",
        "random-walk",
        "--add",
        tmp_path / "more.yaml",
        "--out",
        other,
    )
    assert told.return_value == 0
    assert f"100 steps of {out} repeated" in told.output
    assert f"controlplane logs diff {out} {other}" in told.output
    assert "name: more" in (other / "objects.yaml").read_text()
    again = invoke(replay, other)
    assert again.return_value == 0
    assert "the same as recorded" in again.output


def test_nothing_changed_is_the_same_run(out):
    told = json.loads(invoke(fork, out, "--at", 100, "--format", "json").output)
    assert told["same_trace"]
    assert told["forked_at"] == 100
    assert "both runs are the same" in invoke(fork, out, "--at", 100).output


def test_a_refused_object_is_one_line_and_status_1(out, tmp_path):
    (tmp_path / "bad.yaml").write_text(POD.replace("NAME", "Bad_Name"))
    told = invoke(fork, out, "--add", tmp_path / "bad.yaml")
    assert told.return_value == 1
    (line,) = told.stderr.splitlines()
    assert line.startswith(f"controlplane: {tmp_path}/bad.yaml:2: Pod")
    assert "Invalid value" in line


def test_a_step_that_there_is_not_is_refused(out):
    told = invoke(fork, out, "--at", 10_000_000)
    assert isinstance(told.exception, UsageError)
    assert "step 10000000: the recording has steps 1 to" in str(told.exception)


def test_a_session_over_a_stored_cluster_is_neither_forked_nor_replayed(out, tmp_path):
    from actors.recording import load

    recording = load(Path(out) / "run.rec")
    recording.header["options"]["store"] = "sqlite:store.db"
    recording.save(tmp_path / "stored.rec")
    for command in (fork, replay):
        told = invoke(command, tmp_path / "stored.rec")
        assert isinstance(told.exception, UsageError)
        assert "recorded over a store that held objects before" in str(told.exception)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "line", ["fork X --until {}", "race explore 138324 --seconds {}", "time step {}"]
)
def test_a_number_that_is_none_is_refused_by_every_command(line, number):
    from controlplane.cli.main import cli

    told = invoke(cli, *line.format(number).split())
    assert isinstance(told.exception, click.ClickException), told.output
