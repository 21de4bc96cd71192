"""CapacityBuffers: how many pods one stands for, what quotas leave, its status and its pods."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.times import parse_time
from controlplane.autoscaler.capacity import buffers
from controlplane.autoscaler.capacity.buffers import Unprovisionable, allocate, number_of_pods

NOW = parse_time("2026-01-01T00:01:00Z")
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "500m"}}}]},
}


def buffer(name: str = "b", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "generation": 2}
    return {"metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "scalable", "count"),
    [
        ({"replicas": 3}, None, 3),
        ({"percentage": 20}, 11, 3),
        ({"percentage": 20, "replicas": 5}, 11, 5),
        ({"percentage": 20}, 0, 0),
        ({"limits": {"cpu": "2200m"}}, None, 4),
        ({"limits": {"cpu": 1}, "replicas": 3}, None, 2),
    ],
)
def test_the_number_of_pods_follows_from_replicas_percentage_and_limits(spec, scalable, count):
    assert number_of_pods(spec, TEMPLATE, scalable) == count


@pytest.mark.parametrize(
    ("spec", "scalable", "text"),
    [
        ({}, None, "replicas, percentage and limits are not defined"),
        ({"percentage": 20}, None, "replicas, percentage and limits are not defined"),
        ({"limits": {"gpu": 1}}, None, "limits not found in the pod template"),
    ],
)
def test_a_buffer_of_no_size_says_so(spec, scalable, text):
    with pytest.raises(Unprovisionable, match=text):
        number_of_pods(spec, TEMPLATE, scalable)


def quota(hard: str, used: str = "0", scopes: Any = ()) -> dict[str, Any]:
    return {
        "metadata": {"name": "q", "uid": "q"},
        "spec": {"scopes": list(scopes)},
        "status": {"hard": {"requests.cpu": hard, "pods": "1"}, "used": {"requests.cpu": used}},
    }


def shared_out(*quotas: Any) -> list[tuple[int, str, str]]:
    """Replicas, condition and its text of two buffers with three pods each."""
    managed = buffers.managed_template(buffer(), TEMPLATE)
    found = [buffers.ready(buffer(name, replicas=3), managed, 3, NOW) for name in "ab"]
    told = []
    for each in allocate(found, quotas, lambda _: managed, NOW):
        last = each["status"]["conditions"][-1]
        told.append((each["status"]["replicas"], last["status"], last["message"]))
    return told


def test_quotas_are_shared_out_among_the_buffers_of_a_namespace():
    limited = "Buffer replicas limited from 3 to {} due to quotas: q"
    assert shared_out() == [(3, "False", ""), (3, "False", "")]
    assert shared_out(quota("2")) == [(3, "False", ""), (1, "True", limited.format(1))]
    assert shared_out(quota("2", used="1")) == [
        (2, "True", limited.format(2)),
        (0, "True", limited.format(0)),
    ]
    assert shared_out(quota("1", scopes=["BestEffort"])) == [(3, "False", ""), (3, "False", "")]


def test_the_status_names_the_template_and_why_a_buffer_is_not_ready():
    managed = buffers.managed_template(buffer("x" * 300), TEMPLATE)
    assert len(managed["metadata"]["name"]) == 253
    managed["metadata"]["generation"] = 4
    made = buffers.ready(buffer(replicas=2), managed, 2, NOW)["status"]
    assert (made["replicas"], made["podTemplateGeneration"]) == (2, 4)
    broken = buffers.not_ready({**buffer(), "status": made}, None, "gone", NOW)["status"]
    assert "replicas" not in broken
    assert broken["conditions"][0]["message"] == "Buffer not ready for provisioning: gone"


def test_pods_of_a_buffer_are_fake_may_be_evicted_and_belong_to_it():
    managed = buffers.managed_template(buffer(), TEMPLATE)
    made = buffers.ready(buffer(replicas=2), managed, 2, NOW)
    found = buffers.fake_pods(made, managed["template"])
    assert [pod.metadata.name for pod in found] == ["capacity-buffer-b-1", "capacity-buffer-b-2"]
    pod = found[0]
    assert buffers.is_fake(pod)
    assert pod.metadata.labels == {"app": "web"}
    assert pod.metadata.owner_references[0].uid == "uid-b"
    assert pod.metadata.annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    assert str(pod.spec.containers[0].resources.requests["cpu"]) == "500m"
