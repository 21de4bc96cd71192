"""Files of KWOK have stages, metrics and usages; anything else is refused with file, object and field."""

from __future__ import annotations

import pytest

from controlplane.api.host_access import LogFile, LogOptions
from controlplane.errors import UsageError
from controlplane.kwok import metrics, usages
from controlplane.kwok.files import load
from controlplane.kwok.rendering import OF_OBJECTS

STAGE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: s}
spec: {resourceRef: {kind: Pod}}
"""
USAGE = """
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata: {name: u}
spec: {usages: [{usage: {cpu: {value: 100m}}}]}
"""
LOGS = """
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {{name: u}}
spec: {{logs: [{{logsFile: {file}}}]}}
"""


def of(kind, **spec):
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": spec,
    }


def test_one_file_may_have_stages_and_usages(tmp_path):
    path = tmp_path / "kwok.yaml"
    path.write_text(STAGE + USAGE)
    found = load([path])
    assert [stage.name for stage in found.stages] == ["s"]
    assert found.usages is not None
    assert found.metrics == ()


def test_other_kinds_are_refused_by_name(tmp_path):
    path = tmp_path / "kwok.yaml"
    path.write_text(STAGE + "---\nkind: KwokConfiguration\n")
    with pytest.raises(UsageError, match="'KwokConfiguration': expected kind Stage, Metric"):
        load([path])


def test_objects_of_logs_are_kept_in_the_order_of_the_files(tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(STAGE + LOGS.format(file="a"))
    second.write_text(LOGS.format(file="b"))
    found = load([first, second]).debugging
    assert found is not None
    assert found.topics() == {"Logs": 2}
    log = found.log("default", "p", "c", LogOptions(), previous=False)
    assert log == LogFile("a", LogOptions())


def test_a_file_without_stages_is_refused(tmp_path):
    path = tmp_path / "kwok.yaml"
    path.write_text(USAGE)
    with pytest.raises(UsageError, match="no Stage"):
        load([path])


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"metrics": []}, "spec.path: None: expected a text"),
        ({"path": "/x"}, "spec.path: '/x': expected a path that begins with /metrics"),
        (
            {"path": "/metrics", "metrics": [{"name": "m", "kind": "sum"}]},
            "spec.metrics[0].kind: 'sum': expected counter, gauge, histogram",
        ),
        (
            {"path": "/metrics", "metrics": [{"name": "m", "kind": "gauge", "dimension": "zone"}]},
            "spec.metrics[0].dimension: 'zone': expected node, pod, container",
        ),
        (
            {"path": "/metrics", "metrics": [{"name": "m", "kind": "gauge", "value": "pod.x"}]},
            "spec.metrics[0].value: 'pod.x': expected an expression of CEL (failed to compile",
        ),
        (
            {
                "path": "/metrics",
                "metrics": [{"name": "m", "kind": "histogram", "buckets": [{"le": -1}]}],
            },
            "spec.metrics[0].buckets[0].le: -1: expected a number from 0 on",
        ),
    ],
)
def test_a_mistake_in_a_metric_is_told_with_its_field(spec, told):
    with pytest.raises(UsageError) as caught:
        metrics.read(of("Metric", **spec), "f.yaml")
    assert str(caught.value).startswith(f"f.yaml: Metric x: {told}")


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("ResourceUsage", {"selector": {}}, "spec.selector: no such field; known: usages"),
        (
            "ClusterResourceUsage",
            {"usages": [{"usage": {"cpu": {"value": "x"}}}]},
            "spec.usages[0].usage.cpu.value: 'x': expected a quantity",
        ),
        (
            "ClusterResourceUsage",
            {"usages": [{"usage": {"cpu": {"expression": "1 +"}}}]},
            "spec.usages[0].usage.cpu.expression: '1 +': expected an expression of CEL",
        ),
        (
            "ClusterResourceUsage",
            {"usages": [{"usage": {"cpu": {}}}]},
            "spec.usages[0].usage.cpu.expression: None: expected a text",
        ),
    ],
)
def test_a_mistake_in_a_usage_is_told_with_its_field(kind, spec, told):
    with pytest.raises(UsageError) as caught:
        usages.read(of(kind, **spec), "f.yaml")
    assert str(caught.value).startswith(f"f.yaml: {kind} x: {told}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "selector: {matchExpressions: [{key: '.a[', operator: In, values: [a]}]}",
            r"Stage t: spec.selector.matchExpressions\[0\]: unexpected EOF",
        ),
        (
            "selector: {}, delay: {durationFrom: {cel: {expression: 'self.('}}}",
            "spec.delay: failed to compile expression",
        ),
        ("selector: {}, next: {statusTemplate: '{{ .a }'}", "template of step 1: build template"),
        ("steps: [{delete: true}, {apply: {template: '{{ Nope }}'}}]", 'step 2: .*"Nope" not'),
        ("steps: [{patch: 3}]", r"spec.steps\[0\].patch: 3: expected a map"),
        ("next: {event: 3}", "spec.next.event: 3: expected a map"),
    ],
)
def test_a_stage_that_could_never_play_is_refused_in_one_line(tmp_path, spec, message):
    path = tmp_path / "kwok.yaml"
    path.write_text(STAGE.replace("name: s", "name: t").replace("}}", f"}}, {spec}}}"))
    with pytest.raises(UsageError, match=message) as found:
        load([path])
    assert "\n" not in str(found.value)


def test_templates_may_call_every_function_of_objects(tmp_path):
    path = tmp_path / "kwok.yaml"
    calls = " ".join(f"{{{{ {name} }}}}" for name in sorted(OF_OBJECTS))
    path.write_text(STAGE.replace("}}", f"}}, next: {{statusTemplate: '{calls}'}}}}"))
    assert len(load([path]).stages) == 1
