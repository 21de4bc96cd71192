"""`controlplane run`: what it prints and leaves, and what it says about bad input."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from actors.jsonl import schema
from tests.command import ROOT, controlplane

SHOP = ROOT / "examples" / "shop.yaml"
TRACE = [str(ROOT / "examples" / name) for name in ("nodes.csv", "pods.csv")]


@pytest.mark.slow
def test_a_shop_runs_until_every_workload_is_ready(tmp_path):
    out = tmp_path / "out"
    done = controlplane("run", SHOP, "--nodes", 5, "--format", "json", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["verdict"] == "quiescent"
    assert len(told["nodes"]) == 5
    assert all(node["ready"] for node in told["nodes"])
    assert len(told["workloads"]) >= 10
    assert all(line["ready"] == line["wanted"] == line["available"] for line in told["workloads"])
    assert {pod["phase"] for pod in told["pods"]} == {"Running"}
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", "objects.yaml", "run.rec"]
    check = jsonschema.Draft202012Validator(schema())
    lines = (out / "log.jsonl").read_text().splitlines()
    assert len(lines) > told["steps"]
    for line in lines[:: max(1, len(lines) // 200)]:
        check.validate(json.loads(line))
    kinds = {tree["kind"] for tree in yaml.safe_load_all((out / "objects.yaml").read_text())}
    assert {
        "Node",
        "Pod",
        "Deployment",
        "ReplicaSet",
        "Event",
        "Lease",
        "Namespace",
        "Service",
    } <= kinds

    again = controlplane(
        "run",
        SHOP,
        "--nodes",
        5,
        "--format",
        "json",
        "--replay",
        out / "run.rec",
        "--driver",
        "bare",
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["trace_hash"] == told["trace_hash"]
    other = controlplane("run", SHOP, "--nodes", 4, "--replay", out / "run.rec")
    assert other.returncode == 2
    assert "recorded with another nodes" in other.stderr


@pytest.mark.slow
def test_the_table_names_nodes_workloads_pods_and_the_end():
    done = controlplane("run", SHOP, "--nodes", 3)
    assert done.returncode == 0, done.stderr
    for text in (
        "Nodes: 3, 3 ready",
        "Workloads: ",
        "Pods: ",
        "quiescent: ",
        "Virtual time",
        "steps",
        "wall time",
    ):
        assert text in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_what_fits_nowhere_is_pending_and_the_table_says_why(tmp_path):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "huge"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100"}}}]
        },
    }
    file = tmp_path / "huge.yaml"
    file.write_text(yaml.safe_dump(pod))
    done = controlplane("run", file, "--nodes", 2)
    assert done.returncode == 0, done.stderr
    assert "Pending: 1" in done.stdout
    assert "0/2 nodes are available: 2 Insufficient cpu." in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--all-at-once"]])
def test_a_trace_runs_with_its_own_times_or_all_at_once(flags):
    done = controlplane("run", *TRACE, "--format", "json", *flags)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "quiescent"
    assert len(told["nodes"]) == 10
    assert (len(told["pods"]) == 40) == bool(flags)


BAD = {
    "a missing file": (None, [], "bad.yaml: no such file or directory"),
    "broken YAML": ("apiVersion: v1\nkind: [Pod\n", [], "bad.yaml:"),
    "an unknown kind": ("apiVersion: v1\nkind: Pot\nmetadata: {name: x}\n", [], "no kind 'Pot'"),
    "a pod without containers": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n",
        [],
        "bad.yaml:4: Pod x: spec.containers: Required value",
    ),
    "a negative quantity": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: c\n    image: i\n"
        "    resources:\n      requests:\n        cpu: '-1'\n",
        [],
        "must be greater than or equal to 0",
    ),
    "an unknown field": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i}], colour: red}\n",
        [],
        "colour",
    ),
    "an unknown release": ("", ["--release", "soon"], "expected MAJOR.MINOR"),
    "a release to come": ("", ["--release", "9.9"], "expected 1.0 to 1.36"),
    "an unknown gate": ("", ["--without-fix", "1"], "no fix gate '1'"),
    "an unknown option": ("", ["--colour"], "--colour"),
    "no file at all": ("", ["--nodes"], "--nodes"),
    "a number of nodes that is none": ("", ["--nodes", "x"], "'x' is not a valid whole number"),
    "a CPU that is no quantity": ("", ["--node-cpu", "big"], "--node-cpu 'big': expected a quan"),
    "a negative memory": ("", ["--node-memory", "-1"], "--node-memory '-1': expected a quantity"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_status_2_and_leaves_nothing(tmp_path, name):
    content, flags, expected = BAD[name]
    file = tmp_path / "bad.yaml"
    if content is not None:
        file.write_text(content)
    out = tmp_path / "out"
    done = controlplane("run", file, "--out", out, *flags)
    assert done.returncode == 2, done.stdout + done.stderr
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("controlplane: ")
    assert done.stdout == ""
    assert not out.exists()
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_several_servers_schedulers_and_managers_run_and_replay(tmp_path):
    several = ("--apiservers", 2, "--cache-lag", 1, "--schedulers", 2, "--controller-managers", 2)
    asked = ("run", SHOP, *several, "--strategy", "random-walk", "--seed", 5, "--format", "json")
    first = controlplane(*asked, "--out", tmp_path / "out")
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    assert told["verdict"] == "quiescent"
    assert {pod["phase"] for pod in told["pods"]} == {"Running"}
    again = controlplane(*asked, "--replay", tmp_path / "out" / "run.rec")
    assert json.loads(again.stdout)["trace_hash"] == told["trace_hash"]
    fewer = controlplane("run", SHOP, "--replay", tmp_path / "out" / "run.rec")
    assert fewer.returncode == 2
    assert "recorded with another apiservers: " in fewer.stderr


def test_a_lag_without_several_servers_is_refused():
    done = controlplane("run", SHOP, "--cache-lag", 1)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--cache-lag needs --apiservers 2 or more" in done.stderr


@pytest.mark.slow
def test_feature_gates_are_switched_as_upstream_names_them():
    def told(*asked):
        walk = ("--strategy", "random-walk", "--seed", 1)
        done = controlplane(
            "run", SHOP, "--nodes", 1, "--node-cpu", 2, "--format", "json", *walk, *asked
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["trace_hash"]

    off = ("--feature-gates", "SchedulerQueueingHints=false")
    assert told() == told("--feature-gates", "SchedulerQueueingHints=true") != told(*off)
    refused = controlplane("run", SHOP, "--feature-gates", "StorageCapacityScoring=true")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "StorageCapacityScoring=true is not emulated" in refused.stderr
    refused = controlplane("run", SHOP, "--feature-gates", "GangScheduling=true")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "GangScheduling=true needs GenericWorkload=true" in refused.stderr


@pytest.mark.slow
def test_metrics_are_told_as_a_table_or_as_data_when_asked_for():
    asked = ["run", SHOP, "--nodes", 3, "--metrics"]
    table = controlplane(*asked)
    assert table.returncode == 0, table.stderr
    assert "scheduler_pod_scheduling_attempts" in table.stdout
    done = controlplane(*asked, "--format", "json")
    told = json.loads(done.stdout)
    found = {
        (each["name"], *sorted(each["labels"].items())): each.get("value", each.get("count"))
        for each in told["metrics"]
    }
    bound = ("profile", "default-scheduler"), ("result", "scheduled")
    assert found["scheduler_schedule_attempts_total", *bound] == told["activity"]["bound"]
    assert "metrics" not in json.loads(controlplane(*asked[:-1], "--format", "json").stdout)


@pytest.mark.slow
def test_secrets_are_shown_when_that_is_asked_for(tmp_path):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "aHVudGVy"},
    }
    (tmp_path / "s.json").write_text(json.dumps(secret))
    for words, text in ((), "REDACTED"), (("--show-secrets",), "aHVudGVy"):
        done = controlplane("run", "s.json", "--out", "out", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"a: {text}\n" in (tmp_path / "out" / "objects.yaml").read_text()


@pytest.mark.slow
def test_a_descheduler_runs_beside_the_scheduler_and_replays(tmp_path):
    folder = ROOT / "examples" / "descheduler"
    chosen = ("--with", "descheduler", "--descheduler-policy", folder / "policy.yaml")
    asked = ("run", folder / "web.yaml", "--nodes", 2, *chosen, "--out", tmp_path)
    done = controlplane(*asked)
    assert done.returncode == 0, done.stderr
    assert "2 deletions" in done.stdout
    assert "passes of the descheduler every 300 s" in done.stdout
    again = controlplane("replay", tmp_path / "run.rec")
    assert again.returncode == 0, again.stderr
    for alone in (chosen[:2], chosen[2:]):
        refused = controlplane("run", folder / "web.yaml", *alone)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "needs --" in refused.stderr
