"""Load that pods share: by annotations of workloads, pods and nodes."""

from __future__ import annotations

import pytest

from actors.log import Unheard
from controlplane.api.object import Object
from controlplane.api.times import SECOND, format_time
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.load import FAILURES, has_load, overloaded, starting, usage_of
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.manifest_run import SCENARIO
from tests.scenarios.check.worlds import deployment, nodes, scaler

NOW = 1_800_000_000 * SECOND
PREFIX = "emulate.controlplane/"


def workload(load):
    return Object(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "default",
                "annotations": {f"{PREFIX}cpu-load": load},
            },
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        }
    )


def pod(name, *, ready=True, age_s=1000, limit="", node="node-1", **notes):
    annotations = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in notes.items()}
    resources = {"limits": {"cpu": limit}} if limit else {}
    began = format_time(NOW - age_s * SECOND)
    return Object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"app": "web"},
                "annotations": annotations,
            },
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app", "resources": resources}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                "containerStatuses": [
                    {"name": "main", "image": "app", "imageID": "", "ready": ready, "restartCount": 0,
                     "state": {"running": {"startedAt": began}}}
                ],
            },
        }
    )  # fmt: skip


def test_ready_pods_share_the_load_of_their_workload():
    pods = [pod("a"), pod("b"), pod("c", ready=False)]
    assert usage_of([workload("900m")], pods, NOW) == {"default/a": 450, "default/b": 450}


def test_no_pod_uses_more_than_its_limit():
    assert usage_of([workload("900m")], [pod("a", limit="200m")], NOW) == {"default/a": 200}


def test_a_load_that_cannot_be_read_is_none():
    assert usage_of([workload("much")], [pod("a")], NOW) == {}


def test_starting_takes_cpu_for_a_time():
    young = pod("a", age_s=30, cpu_start_usage="500m", cpu_start_seconds="60")
    old = pod("b", age_s=61, cpu_start_usage="500m", cpu_start_seconds="60")
    assert usage_of([workload("200m")], [young, old], NOW) == {"default/a": 600, "default/b": 100}


@pytest.mark.parametrize(
    ("notes", "taken"),
    [
        ({}, None),
        ({"cpu_start_usage": "much"}, None),
        ({"cpu_start_usage": "1", "cpu_start_seconds": "soon"}, None),
        ({"cpu_start_usage": "1"}, 1000),
    ],
)
def test_starting_goes_by_the_annotations(notes, taken):
    assert starting(pod("a", age_s=59, **notes).tree, NOW) == taken


def test_a_node_is_overloaded_by_what_its_pods_use():
    def node(name, strength):
        annotations = {f"{PREFIX}overload-cpu": strength} if strength else {}
        return Object(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "annotations": annotations},
            }
        )

    pods = [
        pod("a", cpu_usage="2"),
        pod("b", cpu_usage="1500m"),
        pod("c", node="node-2", cpu_usage="9"),
    ]
    (found,) = overloaded([node("node-1", "3"), node("node-2", "")], pods)
    assert (found.node, found.used, found.bears) == ("node-1", 3500, 3000)
    assert overloaded([node("node-1", "3500m")], pods) == []


def test_only_manifests_with_an_annotation_have_load():
    tree = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"metadata": {}}},
    }
    assert not has_load([tree])
    tree["spec"]["template"]["metadata"]["annotations"] = {f"{PREFIX}cpu-start-usage": "1"}
    assert has_load([tree])


def run(folder, text):
    path = folder / "files.yaml"
    path.write_text(text, encoding="utf-8")
    made = Execution(plan_of(SCENARIO, files=(str(path),), until=400.0), log=Unheard())
    made.execute("bare")
    return made


def test_an_autoscaler_follows_the_load_in_a_run(tmp_path):
    text = nodes("a", "a") + deployment(replicas=1, notes=f"{PREFIX}cpu-load: 190m") + scaler(1, 9)
    (found,) = run(tmp_path, text).objects("/registry/deployments/")
    assert found.tree["spec"]["replicas"] == 4


def test_a_machine_fails_under_load_in_a_run(tmp_path):
    notes = f"{PREFIX}overload-cpu: '1'"
    text = nodes("a", notes=notes) + deployment(replicas=1, notes=f"{PREFIX}cpu-load: '2'")
    made = run(tmp_path, text)
    ((at, failed),) = made.notes[FAILURES]
    assert (at / SECOND, failed.node) == (25, "node-1")
    assert not made.world.alive("node-1")


def test_a_run_without_load_measures_nothing(tmp_path):
    assert FAILURES not in run(tmp_path, nodes("a") + deployment()).notes
