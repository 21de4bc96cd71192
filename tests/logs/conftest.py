"""One real run for all tests of logs: pods that start, wait, fail, go and come again, amid faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors import EventLog, RandomWalk
from controlplane.logs.reading import Line, RunLog
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import config_map, pod
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of


async def _workload(user) -> None:
    for name in ("a", "b", "c"):
        await user.create(pod(name, "1"))
    await user.create(pod("too-big", "64"))
    await user.create(config_map("settings", colour="red"))
    await user.sleep(10)
    await user.attempt(user.create(pod("a", "1")))  # 409
    await user.sleep(1)
    await user.recreate("Pod", "b")
    stale = (await user.get("ConfigMap", "settings")).tree
    await user.patch("ConfigMap", "settings", {"data": {"colour": "blue"}})
    await user.attempt(user.update(stale))  # 409 again, of the other sort
    user.crash("node-1")
    user.cut("node-2", "apiserver")
    await user.sleep(30)
    user.restart("node-1")
    user.heal("node-2", "apiserver")
    await user.sleep(20)
    user.crash("scheduler")
    await user.create(pod("late", "1"))
    await user.sleep(2)
    user.restart("scheduler")
    await user.sleep(40)


def executed(seed: int) -> Execution:
    """The run of all tests, by another schedule for another seed."""
    plan = plan_of(Scenario("logged", workload=_workload, defaults={"nodes": 2}), seed=seed)
    run = Execution(plan, RandomWalk(seed), log=EventLog())
    run.sample()
    run.execute("bare")
    return run


def left_by(seed: int, folder: Path) -> Path:
    """The log that such a run leaves."""
    run = executed(seed)
    run.save(folder)
    return folder / "log.jsonl"


@pytest.fixture(scope="session")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a real run."""
    return left_by(1, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def other_log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of the same workload by another schedule."""
    return left_by(2, tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="session")
def run_log(log_file: Path) -> RunLog:
    """The log of a real run, open."""
    return RunLog(log_file, "run")


@pytest.fixture(scope="session")
def run_lines(run_log: RunLog) -> list[Line]:
    """All its events."""
    return list(run_log)


@pytest.fixture(scope="session")
def plain_lines(log_file: Path) -> list[dict]:
    """The same, as any program reads them."""
    return [json.loads(text) for text in log_file.read_text().splitlines()]
