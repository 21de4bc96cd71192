"""The questions of the page "Ask a run", each answered by its command, on real runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.test_run import ROOT, SHOP, controlplane

PAGE = (ROOT / "docs" / "how-to" / "ask-a-run.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    shop = ("run", SHOP, "--nodes", 1, "--node-cpu", 2)
    assert controlplane(*shop, "--out", folder / "out").returncode == 0
    other = ("--strategy", "random-walk", "--seed", 3, "--out", folder / "other")
    assert controlplane(*shop, *other).returncode == 0
    race = ("race", "run", 138324, "--without-fix", 138324, "--out", folder / "race")
    assert controlplane(*race).returncode == 1
    return folder


def ask(runs, *arguments, status=0):
    told = controlplane("logs", *arguments, cwd=runs)
    assert (told.returncode, told.stderr) == (status, "")
    return told.stdout


def pods(runs, phase):
    told = json.loads(
        ask(
            runs,
            "sql",
            "SELECT obj FROM writes WHERE verb = 'create pods'",
            "--log",
            "out",
            "--format",
            "json",
        )
    )
    for each in told:
        name = each["obj"].replace("Pod/", "pod/")
        ending = json.loads(ask(runs, "why", name, "--log", "out", "--format", "json"))["ending"]
        if ending.startswith(phase):
            return name
    raise AssertionError(phase)


def test_the_page_has_ten_questions():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "?" in line]
    assert len(rows) == 10
    assert all("`controlplane logs " in row or "the same" in row for row in rows)


@pytest.mark.slow
def test_why_is_this_pod_pending(runs):
    told = ask(runs, "why", pods(runs, "pending"), "--log", "out")
    assert re.search(r"NodeResourcesFit refused 1 node \(Insufficient cpu\): node-1", told)


@pytest.mark.slow
def test_why_on_this_node_and_what_did_the_scheduler_believe(runs):
    name = pods(runs, "Running")
    told = ask(runs, "why", name, "--log", "out")
    assert "chose node-1: 1 of 1 evaluated nodes" in told
    assert re.search(r"believed of node-1 \(version \d+\): \d+ pods?, cpu \d+m of 2000m", told)
    told = ask(runs, "events", "out", "--event", "scheduler.believed", "--object", name)
    assert len(told.splitlines()) == 1


def test_why_was_it_deleted(runs):
    told = ask(runs, "why", "pod/default/web-0", "--log", "race")
    assert "deleted by user" in told
    assert "what led there" in told


def test_who_changed_this_field(runs):
    told = ask(
        runs, "timeline", "deploy/shop/catalogue", "--field", "status.readyReplicas", "--log", "out"
    )
    assert re.search(
        r"updated \(status\) by controller-manager, version \d+: .*readyReplicas", told
    )
    unchanged = ask(
        runs, "timeline", "deploy/shop/catalogue", "--field", "spec.paused", "--log", "out"
    )
    assert unchanged == "deployment/shop/catalogue: spec.paused was never changed\n"


def test_which_reads_were_stale(runs):
    assert re.match(r"[\d,]+ reads, [\d,]+ of them stale", ask(runs, "races", "out"))


def test_what_happened_between_these_two_steps(runs):
    told = ask(runs, "events", "out", "--steps", "3000-3010", "--format", "json")
    steps = [json.loads(line)["step"] for line in told.splitlines()]
    assert set(steps) == set(range(3000, 3011))


def test_where_do_two_runs_part(runs):
    assert ask(runs, "diff", "out", "out") == "the two runs are the same, event by event\n"
    told = ask(runs, "diff", "out", "other", status=1)
    assert "events are the same" in told
    assert "other: step" in told


def test_what_delayed_readiness(runs):
    assert "pod: bound to ready" in ask(runs, "stats", "out")


def test_which_decision_caused_the_violation(runs):
    told = ask(runs, "why", "violation", "--log", "race")
    title, *rows, how_on = [line for line in told.splitlines() if line.strip()]
    assert title.startswith("violation: violated: ")
    assert how_on.startswith("controlplane logs why STEP --log race")
    assert len(rows) <= 2 + 15
    uid = re.search(r"pod ([0-9a-f]{8})-", title)[1]
    # The scheduler pops one pod, reads another one under its name after its attempt, and puts that back.
    assert any("scheduler" in row and f"what had been popped has uid {uid}" in row for row in rows)
    assert "STALE" in told


@pytest.mark.slow
def test_a_recording_answers_as_its_log_does(runs):
    one = ask(runs, "summary", "race", "--format", "json")
    other = ask(runs, "summary", "race/run.rec", "--format", "json")
    first, second = json.loads(one)[0], json.loads(other)[0]
    assert {**first, "log": ""} == {**second, "log": ""}
