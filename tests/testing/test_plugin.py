"""A test suite of somebody's own explores, fails with a story, and leaves what replays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.invariants.scheduling_queue import LEDGER, queue_holds
from controlplane.scenarios.authoring.workloads import pods_come_and_go


def build(setting):
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(
        nodes=setting.nodes(), kubelets=False, controllers=False, scheduler_watches=()
    )


SCENARIO = Scenario(
    "a suite's own",
    workload=pods_come_and_go(("web-0", "web-1"), 8),
    build=build,
    invariants=queue_holds(LEDGER),
    defaults={"node_cpu": "2"},
)


def test_with_the_fix(explore):
    assert explore(SCENARIO, schedules=10, strategy="random-walk").schedules == 10


def test_without_it(explore):
    explore(SCENARIO, schedules=400, strategy="random-walk", without_fix=("138324",))
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )


@pytest.mark.slow
def test_a_failing_search_tells_the_story_and_its_recording_replays(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    plugin = ("-p", "controlplane.testing.plugin", "-p", "no:cacheprovider")
    done = run(tmp_path, "pytest", "-q", *plugin, "test_mine.py")
    assert done.returncode == 1, done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "in flight for ever" in done.stdout
    assert "decision: " in done.stdout
    recording = tmp_path / ".controlplane" / "findings" / "test_without_it" / "run.rec"
    assert f"repeat it with: controlplane replay {recording}" in done.stdout
    line = next(line for line in done.stdout.splitlines() if "repeat it with: " in line)
    again = run(tmp_path, *line.partition("repeat it with: ")[2].split())
    assert again.returncode == 1, again.stderr
    assert "the same as recorded" in again.stdout


WORKLOAD = """
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map


async def workload(user):
    await user.create(config_map("visitors", count="{count}"))


def counted(run):
    [found] = [each for each in run.objects("/registry/configmaps/") if each.name == "visitors"]
    return None if found.tree["data"]["count"] == "2" else "another count"


def build(setting):
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(nodes=(), kubelets=False, controllers=False, scheduler=False)


def scenario():
    return Scenario(
        "visitors", workload=workload, build=build, invariants=[Invariant("counted", counted)]
    )
"""
MADE_IN_THE_TEST = """
from mine.visitors import scenario


def test_visitors(explore):
    explore(scenario(), schedules=1, strategy="random-walk")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose test makes its scenario from a module of the project; the invariant breaks."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "visitors.py").write_text(WORKLOAD.replace("{count}", "1"))
    (tmp_path / "test_visitors.py").write_text(MADE_IN_THE_TEST)
    return tmp_path


PLUGIN = ("-p", "controlplane.testing.plugin", "-p", "no:cacheprovider")


@pytest.mark.slow
def test_the_printed_command_repeats_a_scenario_made_in_the_test(project: Path) -> None:
    done = run(project, "pytest", "-q", *PLUGIN)
    assert done.returncode == 1, done.stdout
    line = next(line for line in done.stdout.splitlines() if "repeat it with: " in line)
    words = line.partition("repeat it with: python -m ")[2].split()
    assert words[0] == "pytest"
    assert words[-1] == "--explore-stored"
    again = run(project, *words, *PLUGIN)
    assert again.returncode == 1, again.stdout + again.stderr
    assert "still breaks: counted: another count" in again.stdout


@pytest.mark.slow
def test_a_kept_finding_is_tried_first_and_a_fix_makes_it_pass(project: Path) -> None:
    run(project, "pytest", "-q", *PLUGIN)
    first = run(project, "pytest", "-q", *PLUGIN)
    assert "test_visitors still breaks" in first.stdout
    (project / "mine" / "visitors.py").write_text(WORKLOAD.replace("{count}", "2"))
    mended = run(project, "pytest", "-q", *PLUGIN, "--explore-stored")
    assert mended.returncode == 0, mended.stdout
    assert "1 passed" in mended.stdout
    assert (project / ".controlplane/findings/test_visitors/finding.json").is_file()


@pytest.mark.slow
def test_without_a_kept_finding_the_stored_ones_are_none(project: Path) -> None:
    done = run(project, "pytest", "-q", *PLUGIN, "--explore-stored")
    assert "1 skipped" in done.stdout
