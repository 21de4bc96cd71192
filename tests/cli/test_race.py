"""`controlplane race`: search, show, replay, and what it says about bad input."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from actors.recording import load
from tests.cli.test_run import controlplane


def test_the_catalogue_is_listed_and_an_entry_shown():
    listed = json.loads(controlplane("race", "list", "--format", "json").stdout)
    assert {"138324", "49992"} <= {race["number"] for race in listed}
    assert "138324" in controlplane("race", "list").stdout
    shown = controlplane("race", "show", "138324").stdout
    assert "138316" in shown
    assert "uid-threading" in shown


@pytest.mark.slow
def test_search_finds_it_records_it_and_the_replay_is_exact(tmp_path):
    out = tmp_path / "leak"
    file = out / "run.rec"
    found = controlplane(
        "race", "explore", "138324", "--without-fix", "138324", "--out", out, "--format", "json"
    )
    assert found.returncode == 1, found.stderr
    told = json.loads(found.stdout)
    assert told["findings"][0]["verdict"] == "violated"
    assert told["shrunk"]["deviations"] <= 3
    names = ["finding.json", "log.jsonl", "objects.yaml", "run.rec", "story.txt"]
    assert sorted(each.name for each in out.iterdir()) == names
    assert "violated at step" in (out / "story.txt").read_text()
    again = controlplane("race", "replay", out, "--format", "json")
    assert again.returncode == 1, again.stderr
    replayed = json.loads(again.stdout)
    assert replayed["same_trace"] is True
    assert replayed["reason"] in told["story"]["violation"]
    text = controlplane("replay", file, "--driver", "trio").stdout
    assert "the same as recorded" in text
    assert "Pod/default/web-" in text

    shorter = controlplane("shrink", file, "--runs", 20, "--format", "json")
    assert shorter.returncode == 1, shorter.stderr
    assert json.loads(shorter.stdout)["shrunk"]["deviations"] <= told["shrunk"]["deviations"]

    file.write_bytes(evolve(load(file), package="0.0.1").to_bytes())
    refused = controlplane("race", "replay", file)
    assert refused.returncode == 2
    assert "recorded by version '0.0.1'" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.slow
def test_run_shows_the_leak_without_the_fix_and_a_clean_end_with_it():
    broken = controlplane("race", "run", "138324", "--without-fix", "138324")
    assert broken.returncode == 1, broken.stderr
    assert "in flight for ever" in broken.stdout
    fixed = controlplane("race", "run", "138324")
    assert fixed.returncode == 0, fixed.stderr
    assert "quiescent" in fixed.stdout


def test_bad_use_is_one_line_and_status_2(tmp_path):
    for arguments, expected in (
        (["race", "run", "1"], "no race '1'"),
        (["race", "explore", "138324", "--fix", "138324=magic"], "no variant 'magic'"),
        (["race", "replay", tmp_path / "none.rec"], "cannot be read"),
        (["race", "dance"], "dance"),
    ):
        done = controlplane(*arguments)
        assert done.returncode == 2
        assert expected in done.stderr
        assert done.stderr.count("\n") == 1


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from controlplane.cli.main import cli\n"
        "heavy = ('trio', 'cattrs', 'rich', 'yaml', 'numpy', 'structlog')\n"
        "try: cli.main(['--help'], standalone_mode=False)\n"
        "finally: print([name for name in heavy if name in sys.modules])"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith("[]")


def test_an_entry_that_real_components_can_be_tried_in_says_how():
    shown = controlplane("race", "show", "26120").stdout
    assert "controlplane confirm 26120 --component kube-controller-manager=PATH" in shown
    assert "controlplane confirm" not in controlplane("race", "show", "138324").stdout
