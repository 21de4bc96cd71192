"""Expressions of stages and metrics are checked by Go's types and evaluated as upstream evaluates them.

The answers are those of the real environment (kwok v0.8.0-57, cel-go 0.26.0) for the objects below.
"""

from __future__ import annotations

import pytest

from controlplane.api.quantity import Quantity
from controlplane.api.times import parse_time
from controlplane.kwok.cel import environment, results
from controlplane.kwok.cel.library import Context
from controlplane.kwok.cel.results import ExpressionError

NOW = parse_time("2026-03-01T12:00:00Z")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "worker-89",
        "namespace": "shop",
        "creationTimestamp": "2026-03-01T10:40:00Z",
        "labels": {"app": "ingest"},
    },
    "spec": {"containers": [{"name": "c", "image": "busybox:1"}], "nodeName": "node-1"},
    "status": {"phase": "Pending"},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1", "creationTimestamp": "2026-03-01T11:48:52Z"},
    "spec": {},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
}


class Usages:
    def used(self, resource, place, *, cumulative):
        return len("/".join((resource, *place))) * (10.0 if cumulative else 1.0)

    def started_containers(self, node):
        return len(node)


def value(source):
    context = Context(NOW, lambda: 0.25, Usages())
    return environment.evaluate_metric(source, context, NODE, POD, POD["spec"]["containers"][0])


def failure(source):
    with pytest.raises(ExpressionError) as caught:
        value(source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("pod.status.podIP", ""),
        ("pod.spec.hostNetwork", False),
        ("pod.spec.priority", None),
        ("pod.metadata.generation", 0),
        ("size(pod.status.containerStatuses)", 0),
        ("has(pod.status.phase)", True),
        ("has(pod.status.podIP)", False),
        ("has(container.resources)", False),
        ('"cpu" in node.status.allocatable', True),
        ("size(node.status.allocatable)", 2),
        ('container.resources.requests["cpu"] * 2.0', Quantity.parse("0")),
        ('node.status.allocatable["cpu"] - Quantity("1")', Quantity.parse("3")),
        ('node.status.allocatable["cpu"] / 3', Quantity.parse("1333m")),
        ('Quantity("100m") + Quantity("1") * Rand()', Quantity.parse("350m")),
        ('Quantity("3") > Quantity("2")', True),
        ('"1Gi".Quantity() == Quantity("1024Mi")', True),
        ("pod.SinceSecond()", 4800.0),
        ('timestamp("2026-01-01T00:00:00.5Z").UnixSecond()', 1767225600.5),
        ("UnixSecond(pod.status.startTime)", -6795364578.8713455),
        ('pod.Usage("cpu")', 18.0),
        ('pod.CumulativeUsage("cpu", container.name)', 200.0),
        ("node.StartedContainersTotal()", 6.0),
        ("StartedContainersTotal(node.metadata.name)", 6),
    ],
)
def test_fields_have_zero_values_and_quantities_are_computed(source, expected):
    found = value(source)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("pod.kind", "undefined field 'kind'"),
        ("pod.status.conditions[0].type", "unexpected failed resolution of 'v1.PodCondition'"),
        ("node.status.allocatable.cpu", "unexpected failed resolution of 'cel.ResourceList'"),
        ('2 * Quantity("1")', "no matching overload for '_*_' applied to '(int, cel.Quantity)'"),
        ("1 < 1.5", "no matching overload for '_<_' applied to '(int, double)'"),
        (
            'node.status.allocatable["cpu"] > Quantity("1") ? 1 : 0',
            "no matching overload for '_?_:_' applied to '(int, int, int)'",
        ),
        ('Usage(pod, "cpu")', "no matching overload for 'Usage' applied to '(v1.Pod, string)'"),
        ("pod.metadata.name.upperAscii()", "undeclared reference to 'upperAscii'"),
        ("pod.?spec", "unsupported syntax '.?'"),
        ("", "no source code"),
    ],
)
def test_an_expression_that_does_not_fit_the_types_is_refused_before_it_runs(source, told):
    with pytest.raises(ExpressionError) as caught:
        environment.check_metric(source)
    assert str(caught.value).startswith(
        "failed to compile metric expression: failed to compile expression: "
    )
    assert told in str(caught.value)


def test_a_refusal_marks_the_place():
    assert failure("pod.missing").endswith(
        "ERROR: :1:4: undefined field 'missing'\n | pod.missing\n | ...^"
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('Quantity("1") + 1', "no such overload"),
        ('node.status.allocatable["cpu"] / 0', "integer divide by zero"),
        ("pod.metadata.labels.nope", "no such key: nope"),
        ("pod.spec.containers[9].name", "index out of bounds: 9"),
        ('timestamp("bad")', "type conversion error from 'string' to"),
    ],
)
def test_a_failed_evaluation_tells_the_cause(source, told):
    assert failure(source).startswith("failed to evaluate metric expression: ")
    assert told in failure(source)


def test_stages_have_no_usages():
    with pytest.raises(ExpressionError, match="undeclared reference to 'Usage'"):
        environment.check('self.Usage("cpu")', "v1", "Pod")


def test_objects_of_other_kinds_are_maps():
    tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "spec": {"capacity": {"storage": "1Gi"}},
    }
    assert environment.evaluate("self.spec.capacity.storage", tree, NOW, lambda: 0.0) == "1Gi"
    with pytest.raises(ExpressionError, match="no such key: claimRef"):
        environment.evaluate("self.spec.claimRef.name", tree, NOW, lambda: 0.0)


@pytest.mark.parametrize(
    ("source", "number", "text"),
    [
        ('Quantity("1Gi")', 2.0**30, "cel.AsString unsupported type: cel.Quantity"),
        ("true", 1.0, "cel.AsString unsupported type: types.Bool"),
        ('duration("1s")', 1e9, "cel.AsString unsupported type: types.Duration"),
        ("pod", "cel.AsFloat64 unsupported type: *easycel.structObject", None),
        ("container.resources.limits", "cel.AsFloat64 unsupported type: cel.ResourceList", None),
        ("[1]", "cel.AsFloat64 unsupported type: *types.baseList", None),
        ('{"a": 1}', "cel.AsFloat64 unsupported type: *types.baseMap", None),
        ("Now()", "cel.AsFloat64 unsupported type: types.Timestamp", None),
    ],
)
def test_results_of_other_types_are_refused_by_their_go_types(source, number, text):
    found = value(source)
    if isinstance(number, float):
        assert results.as_float(found) == number
    else:
        with pytest.raises(ExpressionError) as caught:
            results.as_float(found)
        assert str(caught.value) == number
    if text is not None:
        with pytest.raises(ExpressionError) as caught:
            results.as_string(found)
        assert str(caught.value) == text
