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
