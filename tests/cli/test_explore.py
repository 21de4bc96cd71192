"""`controlplane explore FILE.py` and `controlplane replay`: a user's own scenario works like a built-in one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from controlplane.scenarios.search.loading import NAMED
from tests.cli.test_run import ROOT, controlplane

EXAMPLE = ROOT / "examples" / "lost_update.py"
RAISES = """
from controlplane.scenarios import Invariant, Scenario, User

async def workload(user: User) -> None:
    await user.sleep(1)
    WORKLOAD

def check(run) -> str | None:
    CHECK

SCENARIO = Scenario("raises", workload=workload, invariants=[Invariant("holds", check)])
"""


@pytest.mark.slow
def test_the_example_is_found_recorded_and_replayed(tmp_path):
    file = shutil.copy(EXAMPLE, tmp_path)
    found = controlplane("explore", file, "--out", tmp_path / "out", "--format", "json")
    assert found.returncode == 1, found.stderr
    told = json.loads(found.stdout)
    assert told["findings"][0]["reason"] == "no visitor is missing: 2 came, 1 counted"
    assert told["options"]["careful"] is False
    again = controlplane(
        "replay", tmp_path / "out" / "run.rec", "--format", "json", "--allow-code", file
    )
    assert (again.returncode, json.loads(again.stdout)["same_trace"]) == (1, True)
    careful = controlplane("explore", file, "--careful", "--schedules", 20, "--strategy", "pos")
    assert careful.returncode == 0, careful.stderr
    assert "nothing broke" in careful.stdout

    text = (tmp_path / "lost_update.py").read_text()
    (tmp_path / "lost_update.py").write_text(text + "\n# changed\n")
    unasked = controlplane("replay", tmp_path / "out")
    assert (unasked.returncode, unasked.stdout) == (2, "")
    assert f"if you trust that code: --allow-code {file}" in unasked.stderr
    refused = controlplane("replay", tmp_path / "out", "--allow-code", file)
    assert refused.returncode == 2
    assert "lost_update.py: the source is another one than that recorded" in refused.stderr
    (tmp_path / "lost_update.py").unlink()
    gone = controlplane("replay", tmp_path / "out")
    assert gone.returncode == 2
    assert "its scenario 'lost update' is not here: looked for" in gone.stderr
    assert gone.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_recording_beside_its_scenario_replays_wherever_both_lie(tmp_path):
    controlplane("explore", EXAMPLE.relative_to(ROOT), "--out", tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    again = controlplane("replay", "run.rec", "--allow-code", ".", cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "the same as recorded" in again.stdout


@pytest.mark.slow
def test_any_recording_replays_and_names_its_files(tmp_path):
    shop = ROOT / "examples" / "shop.yaml"
    first = controlplane("run", shop, "--nodes", 2, "--out", tmp_path, "--format", "json")
    again = controlplane("replay", tmp_path, "--format", "json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["trace_hash"] == json.loads(first.stdout)["trace_hash"]


def test_a_scenario_shows_its_options_and_takes_no_others():
    shown = controlplane("explore", EXAMPLE, "--help").stdout
    assert "--careful" in shown
    assert "--queueing-hints" not in shown
    assert (
        "--queueing-hints / --no-queueing-hints"
        in controlplane("race", "explore", "138324", "-h").stdout
    )
    refused = controlplane("explore", EXAMPLE, "--queueing-hints")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no option '--queueing-hints'" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["explore"], "Missing argument 'FILE'"),
        (["explore", "none.py"], "none.py: cannot be read"),
        (["explore", "README.md"], "README.md:"),
        (["explore", EXAMPLE, "--nodes", "x"], "'x' is not a valid whole number"),
        (["explore", EXAMPLE, "--apiservers", "99"], "--apiservers 99: expected at most 9"),
        (["explore", EXAMPLE, "--strategy", "guess"], "guess"),
        (["replay", "README.md"], "not a recording"),
        (["replay", "none.rec"], "cannot be read"),
    ],
)
def test_bad_use_is_one_line_and_status_2(arguments, expected):
    done = controlplane(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_time_limit_ends_a_search():
    done = controlplane("explore", EXAMPLE, "--careful", "--seconds", 0.2, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["schedules"] < 1000


@pytest.mark.parametrize(
    ("workload", "check", "verdict", "reason"),
    [
        pytest.param(
            "raise KeyError('lost')",
            "return None",
            "failed",
            "KeyError: 'lost'",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "pass",
            "raise KeyError('lost')",
            "invariant-error",
            "holds: KeyError: 'lost'",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_whatever_raises_has_a_verdict_and_its_traceback_is_kept(
    tmp_path, workload, check, verdict, reason
):
    file = tmp_path / "raises.py"
    file.write_text(RAISES.replace("WORKLOAD", workload).replace("CHECK", check))
    done = controlplane("explore", file, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert f"  {verdict}: " in done.stdout
    assert reason in done.stdout
    assert done.stderr == f"controlplane: the traceback: {tmp_path}/out/traceback.txt, or --debug\n"
    assert "raises.py" in (tmp_path / "out" / "traceback.txt").read_text()
    printed = controlplane(
        "--debug", "replay", tmp_path / "out", "--driver", "trio", "--allow-code", file
    )
    assert printed.returncode == 1
    assert "Traceback (most recent call last)" in printed.stderr
    assert printed.stderr.rstrip().endswith("KeyError: 'lost'")


@pytest.mark.slow
def test_a_defect_is_one_line_and_its_traceback_is_saved(tmp_path):
    file = tmp_path / "raises.py"
    text = RAISES.replace("WORKLOAD", "pass").replace("CHECK", "return None")
    file.write_text(text.replace('"raises",', '"raises", build=lambda setting: 1 / 0,'))
    done = controlplane("explore", file)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(
        "controlplane: defect: ZeroDivisionError: division by zero; the traceback: "
    )
    assert done.stderr.count("\n") == 1
    saved = done.stderr.split("the traceback: ")[1].split(",")[0]
    assert "ZeroDivisionError" in Path(saved).read_text()
    printed = controlplane("--debug", "explore", file)
    assert "Traceback (most recent call last)" in printed.stderr
    bad = tmp_path / "bad.py"
    bad.write_text("raise KeyError('gone')\n")
    assert "Traceback" not in controlplane("explore", bad).stderr
    assert "Traceback" in controlplane("--debug", "explore", bad).stderr


@pytest.mark.slow
def test_a_search_goes_on_in_its_corpus(tmp_path):
    asked = ("explore", EXAMPLE, "--corpus", tmp_path / "corpus", "--all", "--schedules", 48)
    first = controlplane(*asked, "--format", "json")
    assert first.returncode == 1, first.stderr
    assert [json.loads(first.stdout)[key] for key in ("schedules", "earlier")] == [48, 0]
    then = controlplane(*asked, "--format", "json")
    told = json.loads(then.stdout)
    assert [told[key] for key in ("schedules", "earlier")] == [96, 48]
    (one,) = told["findings"]
    assert one["times"] > 1
    place = tmp_path / "corpus" / "findings" / "1"
    assert {each.name for each in place.iterdir()} >= {"run.rec", "log.jsonl", "story.txt"}
    again = controlplane("replay", place, "--allow-code", EXAMPLE)
    assert again.returncode == 1, again.stderr
    other = controlplane("explore", EXAMPLE, "--careful", "--corpus", tmp_path / "corpus")
    assert other.returncode == 2
    assert "another search: its options is" in other.stderr
    listed = controlplane("explore", EXAMPLE, "--corpus", tmp_path, "--strategy", "dpor")
    assert listed.returncode == 2
    assert "strategy dpor enumerates: its search cannot go on later" in listed.stderr


@pytest.mark.slow
def test_new_leaves_known_races_out_and_a_finding_names_its_race(tmp_path):
    asked = ("race", "explore", "140177", "--schedules", 100, "--jobs", 1, "--format", "json")
    found = controlplane(*asked)
    assert found.returncode == 1, found.stderr
    cause = json.loads(found.stdout)["cause"]
    assert cause["at_fault"] == "Kubernetes"
    assert [(each["number"], each["standing"]) for each in cause["known"]] == [
        ("140177", "open upstream")
    ]
    new = controlplane(*asked, "--new")
    assert new.returncode == 0, new.stderr
    assert json.loads(new.stdout)["gates"]["140177"] == "preconditions"


@pytest.mark.slow
def test_a_scenario_without_invariants_is_told(tmp_path):
    file = tmp_path / "bare.py"
    text = RAISES.replace("WORKLOAD", "pass").replace("CHECK", "return None")
    file.write_text(text.replace(', invariants=[Invariant("holds", check)]', ""))
    done = controlplane("explore", file, "--schedules", 1)
    assert (done.returncode, done.stderr.count("has no invariants")) == (0, 1)


@pytest.mark.slow
def test_a_search_is_told_to_ci_systems():
    done = controlplane("explore", EXAMPLE, "--format", "github", "--jobs", 1)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("::error file=")
    assert "no visitor is missing" in done.stdout


@pytest.mark.slow
def test_options_of_every_scenario_may_stand_before_the_file():
    found = controlplane("explore", "--seed", 3, "--strategy", "random-walk", EXAMPLE)
    assert found.returncode == 1, found.stderr
    assert "no visitor is missing" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_every_churn_of_the_package_is_searched_from_the_command_line(name):
    done = controlplane("explore", name, "--schedules", 2, "--jobs", 1, "--shrink", 0)
    assert "defect" not in done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert " schedules, " in done.stdout
