"""`controlplane check`: what it prints, leaves and answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.cli.main import _run
from tests.scenarios.check.worlds import budget, deployment, nodes

BROKEN = nodes("a", "a") + deployment() + budget("minAvailable: 2")
SOUND = nodes("a", "a", "a") + deployment() + budget("maxUnavailable: 1")


@pytest.fixture
def ask(monkeypatch, capsys, tmp_path):
    def asking(text, *arguments):
        path = tmp_path / "files.yaml"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["controlplane", "check", str(path), *arguments])
        return _run(), *capsys.readouterr()

    return asking


@pytest.mark.slow
def test_a_finding_is_told_and_ends_with_status_1(ask):
    status, told, _ = ask(BROKEN, "--only", "drain:node-1", "--schedules", "1")
    assert status == 1
    lines = told.splitlines()
    assert lines[0] == (
        "a drain that never ends: PodDisruptionBudget/default/web, Deployment/default/web"
    )
    assert lines[1].startswith("  after node-1 is drained (at 3 min): pod default/web-")
    assert "1 finding in 2 tries of 1 event" in lines[-1]


@pytest.mark.slow
def test_a_sound_configuration_ends_with_status_0(ask):
    status, told, _ = ask(SOUND, "--only", "drain", "--schedules", "1")
    assert status == 0
    assert told.startswith("no finding in ")


@pytest.mark.slow
def test_json_has_what_is_told(ask):
    status, told, _ = ask(BROKEN, "--only", "drain:node-1", "--schedules", "1", "--format", "json")
    tree = json.loads(told)
    assert status == 1
    (finding,) = tree["findings"]
    assert finding["verdict"] == "blocked-drain"
    assert finding["objects"][0] == "PodDisruptionBudget/default/web"
    assert finding["events"] == ["drain:node-1"]
    assert tree["tries"] == 2
    assert tree["problems"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("github", ",line=1,title=a drain that never ends::violated: a drain that never ends: Pod"),
        pytest.param(
            "junit",
            '<testcase classname="check" name="a drain that never ends" file=',
            marks=pytest.mark.slow,
        ),
        pytest.param("sarif", '"ruleId": "a drain that never ends"', marks=pytest.mark.slow),
    ],
)
def test_ci_systems_are_told(ask, form, told):
    status, text, _ = ask(BROKEN, "--only", "drain:node-1", "--schedules", "1", "--format", form)
    assert status == 1
    assert told in text


def test_the_events_can_be_listed(ask):
    status, told, _ = ask(SOUND, "--list-events", "--format", "json")
    assert status == 0
    assert {"event": "drain:node-1", "says": "node-1 is drained"} in json.loads(told)


def test_an_unknown_event_is_answered_with_the_nearest(ask):
    status, _, told = ask(SOUND, "--only", "drian")
    assert status == 2
    assert told == (
        "controlplane: --only: no event 'drian' for this configuration; did you mean drain?\n"
    )


@pytest.mark.slow
def test_a_finding_replays(ask, monkeypatch, capsys, tmp_path):
    out = tmp_path / "out"
    ask(BROKEN, "--only", "drain:node-1", "--schedules", "1", "--out", str(out))
    folder = out / "1-blocked-drain"
    assert (folder / "log.jsonl").exists()
    monkeypatch.setattr(sys, "argv", ["controlplane", "replay", str(folder)])
    status = _run()
    told = capsys.readouterr().out
    assert status == 1
    assert "a drain that never ends after node-1 is drained" in told
    assert "the same as recorded" in told


@pytest.mark.slow
def test_several_processes_find_the_same(ask):
    told = []
    for jobs in ("1", "2"):
        _, text, _ = ask(BROKEN, "--only", "drain", "--format", "json", "--jobs", jobs)
        tree = json.loads(text)
        del tree["wall_s"]
        told.append(tree)
    assert told[0] == told[1]
    assert told[0]["tries"] > 4


@pytest.mark.slow
def test_hash_seeds_change_nothing(tmp_path):
    path = tmp_path / "files.yaml"
    path.write_text(BROKEN, encoding="utf-8")
    told = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "controlplane",
                "check",
                str(path),
                "--only",
                "drain",
                "--format",
                "json",
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        tree = json.loads(done.stdout)
        del tree["wall_s"]
        told.append(tree)
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("missing.yaml", "missing.yaml: no such file or directory"),
        ("pods.csv", "a trace has no configuration to check: expected manifests"),
    ],
)
def test_what_is_no_configuration_is_refused(monkeypatch, capsys, file, told):
    examples = Path(__file__).parents[2] / "examples"
    files = [str(examples / "nodes.csv"), str(examples / file)] if file == "pods.csv" else [file]
    monkeypatch.setattr(sys, "argv", ["controlplane", "check", *files])
    assert _run() == 2
    assert told in capsys.readouterr().err
