"""Benchmark files and templates: what is read, what is refused, and how errors name their place."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.perf import workloads
from controlplane.perf.templates import Template

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: pod-{{ .Index }}
  labels: {tenth: "t{{DivideInt .Index 10}}", port: "8{{ Mod .Index 12 }}", of: "{{ .Count }}"}
spec:
  containers: [{name: pause, image: pause}]
"""
CASE = """
- name: Basic
  defaultPodTemplatePath: pod.yaml
  featureGates: {SchedulerQueueingHints: true}
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  - {opcode: sleep, duration: 1m30s}
  workloads:
  - {name: small, labels: [short, performance], params: {nodes: 2, pods: 3}, threshold: 5}
  - {name: async, labels: [performance], params: {nodes: 2, pods: 3}, featureGates: {DynamicResourceAllocation: false}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


def read(folder, text):
    path = folder / "performance-config.yaml"
    path.write_text(text)
    return workloads.load(path)


def test_the_forms_of_go_templates_that_the_files_use(folder):
    tree = Template(folder / "pod.yaml").tree(25, 30)
    assert tree["metadata"]["name"] == "pod-25"
    assert tree["metadata"]["labels"] == {"tenth": "t2", "port": "81", "of": "30"}


def test_another_form_is_an_error_that_names_file_and_form(folder):
    path = folder / "bad.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: '{{ range .X }}'}\n")
    with pytest.raises(UsageError, match=r"bad.yaml: \{\{ range .X \}\}: not a form of template"):
        Template(path).tree()


def test_parameters_templates_and_durations_are_filled_in(folder):
    small, _ = read(folder, CASE)
    assert small.full_name == "Basic/small"
    nodes, pods, sleep = small.operations
    assert (nodes.count, pods.count) == (2, 3)
    assert pods.template("podTemplatePath").path == folder / "pod.yaml"
    assert sleep.get("duration") == 90 * 10**9
    assert small.features == {"SchedulerQueueingHints": True}
    assert small.threshold == 5


def test_a_workload_that_cannot_be_run_says_why(folder):
    _, refused = read(folder, CASE)
    assert refused.refused == "feature gate DynamicResourceAllocation=false is not emulated"
    gang = CASE.replace("opcode: sleep, duration: 1m30s", "opcode: createPodGroups")
    assert "a later release" in read(folder, gang)[0].refused


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("$pods,", "$pots,", r"Basic: workloadTemplate\[1\].countParam: .*no parameter '\$pots'"),
        ("opcode: sleep", "opcode: nap", r"workloadTemplate\[2\].opcode: unknown operation 'nap'"),
        ("duration: 1m30s", "duration: soon", "not a duration: 'soon'"),
        ("collectMetrics", "collectAll", r"workloadTemplate\[1\].collectAll: unknown field"),
        ("pod.yaml", "pot.yaml", "pot.yaml: cannot be read: No such file"),
        ("countParam: $nodes", "count2: 1", "unknown field of createNodes"),
    ],
)
def test_errors_name_file_case_operation_and_field(folder, old, new, message):
    with pytest.raises(UsageError, match=message):
        read(folder, CASE.replace(old, new))


def test_workloads_are_chosen_by_name_and_labels(folder):
    found = read(folder, CASE)

    def names(*args):
        return [each.name for each in workloads.select(found, *args)]

    assert names("") == ["small", "async"]
    assert names("Basic/s") == ["small"]
    assert names("", ["performance", "short"]) == ["small"]
    assert names("", ["performance", "-short"]) == ["async"]
    with pytest.raises(UsageError, match="--filter"):
        names("(")
