"""Scenario objects of kube-scheduler-simulator: operations by major step, with the scheduler held between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors import strategies
from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.inputs.reading import load
from controlplane.scenarios.manifest_run import SCENARIO, STEPS
from controlplane.scenarios.search.loading import from_module
from tests.cli.test_run import controlplane

EXAMPLE = Path(__file__).parents[3] / "examples" / "simulator" / "scenario.yaml"
HEAD = {
    "apiVersion": "simulation.kube-scheduler-simulator.x-k8s.io/v1alpha1",
    "kind": "Scenario",
    "metadata": {"name": "s"},
}


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    size = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    status = {"capacity": size, "allocatable": size}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default"}
    spec = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def create(step: int, tree: dict[str, Any]) -> dict[str, Any]:
    return {"step": step, "createOperation": {"object": tree}}


def delete(step: int, kind: str, name: str) -> dict[str, Any]:
    target = {"name": name, "namespace": "default"}
    head = {"apiVersion": "v1", "kind": kind}
    return {"step": step, "deleteOperation": {"typeMeta": head, "objectMeta": target}}


def scenario(*operations: Any, **spec: Any) -> dict[str, Any]:
    return {**HEAD, "spec": {"operations": [*operations], **spec}}


def run(path: Path, strategy: str = "fifo", seed: int = 0) -> tuple[Execution, dict[str, Any]]:
    made = strategies.named(strategy, seed)
    found = Execution(plan_of(SCENARIO, files=(str(path),)), made)
    found.execute("bare")
    assert found.result.ok, found.result
    return found, found.notes[STEPS]


def of_file(tmp_path: Path, *trees: Any) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text("\n---\n".join(json.dumps(tree) for tree in trees))
    return path


def told(status: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Step, operation and object of each event; pods without their generated endings."""
    found = []
    for events in status["scenarioResult"]["timeline"].values():
        for event in events:
            (verb,) = event.keys() & {"create", "patch", "delete", "done"}
            made = event[verb].get("result") or event[verb]["operation"]
            meta = made.get("metadata") or made.get("objectMeta") or {}
            step = f"{event['step']['major']}.{event['step']['minor']}"
            name = meta.get("name", "")
            name = name[:4] if name.startswith("web-") else name
            found.append((step, verb, f"{name} {(made.get('spec') or {}).get('nodeName', '')}"))
    return found


def test_each_step_runs_until_nothing_is_left_to_do() -> None:
    _, status = run(EXAMPLE)
    assert (status["phase"], status["stepStatus"]["step"]) == (
        "Succeeded",
        {"major": 4, "minor": 0},
    )
    events = told(status)
    assert [each for each in events if each[1] != "patch" or each[0].endswith(".0")] == [
        ("1.0", "create", "small "),
        ("1.0", "create", "web "),
        ("2.0", "create", "large "),
        ("3.0", "patch", "web "),
        ("4.0", "done", " "),
    ]
    bound = [each for each in events if each[2].startswith("web- ")]
    assert [each[2] for each in bound] == ["web- small", "web- large", "web- large"]
    assert [each[0][0] for each in bound] == ["1", "2", "3"]


def test_the_schedule_does_not_change_the_result() -> None:
    results = {tuple(told(run(EXAMPLE, "random-walk", seed)[1])) for seed in range(3)}
    assert len({tuple(each[2] for each in events) for events in results}) == 1


def test_the_scheduler_waits_for_all_operations_of_a_step(tmp_path: Path) -> None:
    """The last node is the only one that is large enough, and stands behind the pod."""
    operations = [create(1, pod("p", "3")), create(1, node("a", "2")), create(1, node("b"))]
    found, status = run(of_file(tmp_path, scenario(*operations)))
    assert status["phase"] == "Paused"
    assert told(status)[-1] == ("1.1", "patch", "p b")
    assert found.cluster.scheduler.metrics is not None
    events = [event.data for event in found.world.log if event.event == "scheduler.failed"]
    assert events == []


def test_victims_of_the_scheduler_are_in_the_timeline_and_own_deletions_are_not_twice(
    tmp_path: Path,
) -> None:
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 10,
    }
    operations = [
        create(0, node("n")),
        create(0, high),
        create(0, pod("low", "3")),
        create(1, pod("first", "3", priorityClassName="high")),
        delete(2, "Pod", "first"),
    ]
    _, status = run(of_file(tmp_path, scenario(*operations)))
    events = told(status)
    assert [each[1:] for each in events if each[0].startswith("1.")] == [
        ("create", "first "),
        ("delete", "low "),
        ("patch", "first n"),
    ]
    assert [each for each in events if each[0].startswith("2.")] == [("2.0", "delete", "first ")]


def test_a_refused_operation_ends_the_scenario(tmp_path: Path) -> None:
    operations = [
        create(1, node("n")),
        delete(2, "Pod", "missing"),
        create(3, pod("p")),
    ]
    _, status = run(of_file(tmp_path, scenario(*operations)))
    assert status["phase"] == "Failed"
    assert status["message"] == 'step 2: operation-2: pods "missing" not found'
    assert "3" not in status["scenarioResult"]["timeline"]


def test_the_command_leaves_the_scenario_with_its_status(tmp_path: Path) -> None:
    path = of_file(tmp_path, scenario(create(1, node("n")), delete(2, "Pod", "missing")))
    out = tmp_path / "out"
    done = controlplane("run", path, "--out", out, "--format", "json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    status = json.loads(done.stdout)["scenario"]
    assert (status["phase"], [*status["scenarioResult"]["timeline"]]) == ("Failed", ["1", "2"])
    left = yaml.safe_load((out / "scenario.yaml").read_text())
    assert (left["kind"], left["status"]["phase"]) == ("Scenario", "Failed")


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({**HEAD}, "spec: required"),
        (scenario(), "spec.operations: expected a list"),
        (scenario({"step": 1}), r"operations\[0\]: expected exactly one of createOperation"),
        (scenario({**create(1, pod("p")), "doneOperation": {}}), "expected exactly one"),
        (scenario(create(-1, pod("p"))), r"operations\[0\].step: expected a whole number"),
        (scenario(create(1, {"kind": "Pod"})), "createOperation.object.apiVersion: required"),
        (
            scenario(
                create(1, node("n")),
                controllers={"simulationControllers": {"enabled": [{"name": "mine"}]}},
            ),
            "'mine': the scheduler alone is simulated",
        ),
    ],
)
def test_a_scenario_that_cannot_be_run_is_refused(
    tmp_path: Path, tree: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        load([of_file(tmp_path, tree)])


def test_one_scenario_at_a_time(tmp_path: Path) -> None:
    tree = scenario(create(1, node("n")))
    with pytest.raises(UsageError, match="expected one at most"):
        load([of_file(tmp_path, tree, {**tree, "metadata": {"name": "t"}})])


def test_a_controller_that_is_disabled_does_not_run(tmp_path: Path) -> None:
    controllers = {"presimulationControllers": {"disabled": [{"name": "replicaset"}]}}
    path = of_file(tmp_path, scenario(create(1, node("n")), controllers=controllers))
    plan = plan_of(from_module("controlplane.scenarios.manifest_run"), files=(str(path),))
    assert "-replicaset" in Execution(plan).cluster.config.enabled_controllers
