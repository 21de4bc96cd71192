"""A page of metrics has one sample for the node, or for each of its pods or containers."""

from __future__ import annotations

import pytest

from controlplane.api.times import parse_time
from controlplane.kwok import usages
from controlplane.kwok.metrics import NodePages, read
from controlplane.kwok.usages import ResourceUsages

NOW = parse_time("2026-03-01T12:00:00Z")
PATH = "/metrics/nodes/n/metrics/resource"
NODE = {"metadata": {"name": "n", "annotations": {"kwok.x-k8s.io/node": "fake"}}}
POD = {
    "metadata": {
        "name": "p",
        "namespace": "shop",
        "creationTimestamp": "2026-03-01T11:59:50Z",
    },
    "spec": {"nodeName": "n", "containers": [{"name": "b"}, {"name": "a"}]},
    "status": {"containerStatuses": [{"name": "b", "state": {"running": {}}}, {"name": "a"}]},
}
USED = ResourceUsages(
    (
        usages.read(
            {
                "apiVersion": "kwok.x-k8s.io/v1alpha1",
                "kind": "ClusterResourceUsage",
                "metadata": {"name": "u"},
                "spec": {"usages": [{"usage": {"cpu": {"value": "500m"}}}]},
            }
        ),
    )
)


def text(*metrics, path="/metrics/nodes/{nodeName}/metrics/resource", asked=PATH, pods=(POD,)):
    tree = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Metric",
        "metadata": {"name": "n"},
        "spec": {"path": path, "metrics": list(metrics)},
    }
    return NodePages((read(tree),), USED).text(
        asked, {"n": NODE}, {"n": pods}, NOW, lambda kind: ()
    )


def metric(name, value, **more):
    return {"name": name, "kind": "gauge", "help": "H", "value": value, **more}


def test_families_and_samples_are_sorted_by_name():
    labels = [
        {"name": "pod", "value": "pod.metadata.name"},
        {"name": "container", "value": "container.name"},
    ]
    cpu = 'pod.Usage("cpu", container.name)'
    assert text(
        metric("used", cpu, dimension="container", labels=labels), metric("error", "0")
    ) == (
        "# HELP error H\n# TYPE error gauge\nerror 0\n"
        "# HELP used H\n# TYPE used gauge\n"
        'used{container="a",pod="p"} 0.5\nused{container="b",pod="p"} 0.5\n'
    )


@pytest.mark.parametrize(
    ("value", "dimension", "number"),
    [
        ('node.Usage("cpu")', "node", "1"),
        ('pod.Usage("cpu")', "pod", "1"),
        ('pod.CumulativeUsage("cpu")', "pod", "10"),
        ('pod.Usage("memory")', "pod", "0"),
        ("node.StartedContainersTotal()", "node", "1"),
        ("pod.SinceSecond()", "pod", "10"),
    ],
)
def test_values_are_those_of_their_dimension(value, dimension, number):
    assert text(metric("m", value, dimension=dimension)).endswith(f"\nm {number}\n")


def test_a_metric_that_fails_is_left_out():
    failing = metric("bad", 'Quantity("x")')
    assert text(failing, metric("good", "1")) == "# HELP good H\n# TYPE good gauge\ngood 1\n"


def test_a_hidden_bucket_counts_for_the_next_one():
    buckets = [
        {"le": 1, "value": "1"},
        {"le": 2, "value": "2", "hidden": True},
        {"le": 3, "value": "4"},
    ]
    found = text({"name": "h", "kind": "histogram", "buckets": buckets})
    assert found.splitlines()[2:] == [
        'h_bucket{le="1"} 1',
        'h_bucket{le="3"} 7',
        'h_bucket{le="+Inf"} 7',
        "h_sum 17",
        "h_count 7",
    ]


def test_a_path_without_a_place_for_the_node_is_the_page_of_the_node_of_its_name():
    assert text(metric("m", "1"), path="/metrics/one", asked="/metrics/one") is not None
    assert text(metric("m", "1"), path="/metrics/one", asked="/metrics/other") is None


def test_an_unknown_node_has_an_empty_page():
    assert text(metric("m", "1"), asked="/metrics/nodes/x/metrics/resource") == ""
