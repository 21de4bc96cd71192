from __future__ import annotations

import json

import pytest

from controlplane.api.pod import Pod
from controlplane.kubelet.allocation.state import (
    ALLOCATED,
    PodResources,
    PodResourceState,
    desired,
    restore,
    with_resources,
)
from controlplane.kubelet.cm.checkpoint import CheckpointError, checksum_of
from controlplane.kubelet.features import DEFAULTS, features
from tests.kubelet.pods import guaranteed


def test_the_checksum_of_upstreams_test_comes_out() -> None:
    data = (
        '{"entries":{"pod1":{"ContainerResources":{"container1":'
        '{"requests":{"cpu":"1Ki","memory":"1Ki"}}}}}}'
    )
    assert checksum_of(f"(string){data}") == 1178570812
    resources = PodResources({"container1": {"requests": {"cpu": "1Ki", "memory": "1Ki"}}})
    state = PodResourceState({"pod1": resources})
    assert json.loads(state.text) == {"data": data, "checksum": 1178570812}
    assert restore(state.text, ALLOCATED) == state


def test_a_damaged_file_says_what_to_do() -> None:
    text = PodResourceState().text.replace("entries", "entrees")
    with pytest.raises(
        CheckpointError, match="checkpoint is corrupted, please drain this node and"
    ):
        restore(text, ALLOCATED)


def test_only_containers_that_can_be_resized_are_recorded() -> None:
    pod = guaranteed("p", "1", init=("2",), sidecars=("3",))
    assert list(desired(pod, DEFAULTS).containers) == ["s0", "i0", "c0"]
    older = features({"InPlacePodVerticalScalingInitContainers": False})
    assert list(desired(pod, older).containers) == ["s0", "c0"]


def test_a_pod_with_its_own_resources_stays_the_very_same() -> None:
    pod = guaranteed("p", "1000m")
    same = PodResources({"c0": {"requests": {"cpu": "1", "memory": "1024Mi"},
                                "limits": {"cpu": "1", "memory": "1Gi"}}})  # fmt: skip
    assert with_resources(pod, same) is pod
    assert with_resources(pod, None) is pod


def test_resources_of_the_pod_as_a_whole_come_and_go() -> None:
    pod = guaranteed("p", "1")
    whole = Pod.from_tree(
        {**pod.tree, "spec": {**pod.tree["spec"], "resources": {"requests": {"cpu": "2"}}}}
    )
    assert with_resources(whole, desired(pod, DEFAULTS)).spec.resources is None
    again = with_resources(pod, desired(whole, DEFAULTS))
    assert again.spec.resources == whole.spec.resources
