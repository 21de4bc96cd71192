"""A kubelet's numbers: every one that is counted is known by name, kind and labels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controlplane.kubelet.node.metrics import SERIES, families, rejection
from controlplane.metrics.numbers import Metrics

KUBELET = Path(__file__).parents[3] / "controlplane" / "kubelet"


def test_whatever_the_kubelet_counts_has_a_series():
    counted = {
        name
        for path in KUBELET.rglob("*.py")
        for name in re.findall(r'metrics\.(?:add|set)\(\s*"(\w+)"', path.read_text("utf-8"))
    }
    assert len(counted) > 8
    assert counted <= set(SERIES)


def test_numbers_get_the_prefix_and_their_kind():
    metrics = Metrics()
    metrics.add("cpu_manager_pinning_requests_total")
    metrics.set("cpu_manager_allocation_per_numa", 3, numa_node="1")
    found = {family.name: family for family in families(metrics, ())}
    assert found["kubelet_cpu_manager_pinning_requests_total"].kind == "counter"
    (sample,) = found["kubelet_cpu_manager_allocation_per_numa"].samples
    assert (sample.labels, sample.value) == ((("numa_node", "1"),), 3)
    assert found["kubelet_running_pods"].samples[0].value == 0


@pytest.mark.parametrize(
    ("reason", "label"),
    [("OutOfcpu", "OutOfcpu"), ("OutOfexample.com/gpu", "OutOfExtendedResources"),
     ("TopologyAffinityError", "TopologyAffinityError")],
)  # fmt: skip
def test_refused_pods_are_counted_by_reason(reason, label):
    assert rejection(reason) == label
