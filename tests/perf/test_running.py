"""Whole workloads: every operation, on a few nodes."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from click.testing import CliRunner

from controlplane.cli.bench import command
from controlplane.perf import reporting, runner, workloads

NODE = """
apiVersion: v1
kind: Node
metadata: {generateName: n-}
status:
  capacity: {pods: "110", cpu: "4", memory: 32Gi}
  conditions: [{type: Ready, status: "True"}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: p-, labels: {type: LABEL}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: pause, image: pause, resources: {requests: {cpu: CPU}}}]
"""
GATED = """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{ .Index }}", labels: {type: gated}}
spec:
  GATES
  containers: [{name: pause, image: pause}]
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {generateName: s-}
spec: {selector: {app: x}, ports: [{port: 80}]}
"""
FILES = {
    "node.yaml": NODE,
    "pod.yaml": POD.replace("LABEL", "plain").replace("CPU", "100m"),
    "big.yaml": POD.replace("LABEL", "big").replace("CPU", '"9"'),
    "gated.yaml": GATED.replace("GATES", "schedulingGates: [{name: example.com/hold}]"),
    "free.yaml": GATED.replace("GATES", "restartPolicy: Always"),
    "service.yaml": SERVICE,
    "pv.yaml": """
apiVersion: v1
kind: PersistentVolume
spec:
  accessModes: [ReadOnlyMany]
  capacity: {storage: 1Gi}
  csi: {driver: ebs.csi.aws.com}
""",
    "pvc.yaml": """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
""",
}
NODES = "{opcode: createNodes, count: 3, nodeTemplatePath: node.yaml}"
MEASURED = "{opcode: createPods, count: 5, podTemplatePath: pod.yaml, collectMetrics: true}"


def one(tmp_path, *operations, params="{}"):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    lines = "".join(f"  - {each}\n" for each in (NODES, *operations))
    text = (
        f"- name: T\n  workloadTemplate:\n{lines}  workloads:\n  - {{name: w, params: {params}}}\n"
    )
    path = tmp_path / "performance-config.yaml"
    path.write_text(text)
    return workloads.load(path)[0]


def run(tmp_path, *operations, **more):
    result = runner.run(one(tmp_path, *operations, **more))
    assert result.failed == ""
    return result


def measured(result):
    return [collection.throughput().pods for collection in result.collections]


def test_pods_are_created_scheduled_and_measured(tmp_path):
    result = run(tmp_path, MEASURED)
    assert measured(result) == [5]
    metrics = {metric for metric, _ in result.collections[0].histograms}
    assert metrics == {
        "scheduler_pod_scheduling_sli_duration_seconds",
        "scheduler_scheduling_algorithm_duration_seconds",
        "scheduler_scheduling_attempt_duration_seconds",
    }
    (throughput, *_) = reporting.items([result])["dataItems"]
    assert throughput["unit"] == "pods/s"
    assert throughput["labels"] == {"Metric": "SchedulingThroughput", "Name": "T/w/namespace-1"}
    assert set(throughput["data"]) == {"Average", "Perc50", "Perc90", "Perc95", "Perc99"}


def test_a_trace_is_taken_down_on_request_and_changes_nothing(tmp_path):
    workload = one(tmp_path, MEASURED)
    kept = runner.run(workload, log_level="trace")
    silent = runner.run(workload)
    assert measured(kept) == measured(silent) == [5]
    assert kept.steps == silent.steps


def test_churn_recreates_while_time_passes(tmp_path):
    result = run(
        tmp_path,
        "{opcode: churn, mode: recreate, number: 1, intervalMilliseconds: 100,"
        " templatePaths: [node.yaml, big.yaml, service.yaml]}",
        "{opcode: sleep, duration: 2s}",
        MEASURED,
    )
    assert measured(result) == [5]
    assert result.virtual_s >= 2


def test_churn_that_creates_stops_at_its_number(tmp_path):
    result = run(
        tmp_path,
        "{opcode: churn, mode: create, number: 2, intervalMilliseconds: 100,"
        " templatePaths: [pod.yaml], namespace: churned}",
        "{opcode: startCollectingMetrics, name: all, namespaces: [churned]}",
        "{opcode: sleep, duration: 5s}",
        "{opcode: stopCollectingMetrics}",
    )
    assert measured(result) == [2]


def test_gated_pods_wait_at_a_barrier_and_are_updated(tmp_path):
    result = run(
        tmp_path,
        "{opcode: startCollectingMetrics, name: gated, namespaces: [held], labelSelector: {type: gated}}",
        "{opcode: createPods, count: 4, podTemplatePath: gated.yaml, namespace: held, skipWaitToCompletion: true}",
        "{opcode: barrier, stageRequirement: Attempted}",
        "{opcode: updateAny, count: 4, templatePath: free.yaml, namespace: held, updatePerSecond: 100}",
        "{opcode: barrier, labelSelector: {type: gated}}",
        "{opcode: stopCollectingMetrics}",
    )
    assert measured(result) == [4]


def test_namespaces_pod_sets_and_deletions(tmp_path):
    result = run(
        tmp_path,
        "{opcode: createNamespaces, prefix: ns, count: 2}",
        "{opcode: createPodSets, count: 2, namespacePrefix: ns, createPodsOp:"
        " {opcode: createPods, count: 3, podTemplatePath: pod.yaml}}",
        "{opcode: deletePods, namespace: ns-0, deletePodsPerSecond: 100, labelSelector: {type: plain}}",
        "{opcode: deletePods, namespace: ns-1, deletePodsPerSecond: 1, skipWaitToCompletion: true}",
        "{opcode: createAny, count: 2, templatePath: service.yaml, namespace: ns-0}",
        MEASURED,
    )
    assert measured(result) == [5]


def test_pods_with_a_volume_each(tmp_path):
    result = run(
        tmp_path,
        "{opcode: createPods, count: 3, podTemplatePath: pod.yaml, collectMetrics: true,"
        " persistentVolumeTemplatePath: pv.yaml, persistentVolumeClaimTemplatePath: pvc.yaml}",
    )
    assert measured(result) == [3]


def test_a_steady_state_replaces_pods_for_a_time(tmp_path):
    result = run(
        tmp_path,
        "{opcode: createPods, count: 2, podTemplatePath: pod.yaml, collectMetrics: true,"
        " steadyState: true, duration: 50ms}",
    )
    assert measured(result)[0] > 2


def test_pods_that_never_fit_end_the_workload_with_a_reason(tmp_path):
    result = runner.run(one(tmp_path, "{opcode: createPods, count: 2, podTemplatePath: big.yaml}"))
    assert result.failed.startswith("operation 2, createPods: deadlock")
    assert "0 of 2 pods in namespace-1 scheduled" in result.failed


def test_a_refusal_by_the_server_names_the_operation(tmp_path):
    result = runner.run(one(tmp_path, "{opcode: createAny, templatePath: node.yaml, namespace: x}"))
    assert result.failed == "operation 2, createAny: Node has no namespace"


def test_the_real_figures_are_found_with_and_without_the_suffix_for_hints():
    def called(name):
        return workloads.Workload("SchedulingBasic", name, (), None, {}, {}, ())

    assert reporting.reference(called("5000Nodes_10000Pods"))["average"] == 370
    assert reporting.reference(called("5000Nodes_10000Pods_QueueingHintsEnabled"))["p99"] == 537
    assert reporting.reference(called("5Nodes")) is None


@pytest.fixture
def file(tmp_path):
    one(tmp_path, MEASURED)
    return str(tmp_path / "performance-config.yaml")


def test_the_command_prints_a_table_json_and_leaves_a_file(file, tmp_path):
    call = CliRunner().invoke
    table = call(command, ["scheduler-perf", file])
    assert "T/w" in table.output
    assert "scheduler_scheduling_attempt_duration_seconds" in table.output
    out = tmp_path / "out"
    printed = call(command, ["scheduler-perf", file, "--format", "json", "--out", str(out)])
    assert json.loads(printed.output)["workloads"][0]["name"] == "T/w"
    assert json.loads((out / "scheduler-perf.json").read_text())["version"] == "v1"
    listed = call(command, ["scheduler-perf", file, "--list", "--format", "json"])
    assert [each["name"] for each in json.loads(listed.output)] == ["T/w"]


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_workloads_with_asynchronous_calls_run_on_both_drivers(tmp_path, driver):
    workload = one(
        tmp_path,
        MEASURED,
        "{opcode: createPods, count: 1, podTemplatePath: big.yaml, skipWaitToCompletion: true}",
    )
    workload = evolve(workload, features={"SchedulerAsyncAPICalls": True})
    result = runner.run(workload, driver=driver)
    assert result.failed == ""
    assert measured(result) == [5]
