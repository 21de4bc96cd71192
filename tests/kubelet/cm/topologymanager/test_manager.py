from __future__ import annotations

import pytest

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.kubelet.cm.errors import ManagerError, SMTAlignmentError
from controlplane.kubelet.cm.topologymanager.hints import NO_HINT, Hints, TopologyHint
from controlplane.kubelet.cm.topologymanager.manager import TopologyManager
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.machine import NUMANode

NODES = [NUMANode(0), NUMANode(1)]


def pod() -> Pod:
    return Pod.from_tree(
        {
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]},
        }
    )


class Provider:
    """Says the same hints each time; what is asked of it is written down."""

    def __init__(self, hints: Hints, error: ManagerError | None = None) -> None:
        self.hints = hints
        self.error = error
        self.calls: list[str] = []

    def topology_hints(self, pod: Pod, container: Container) -> Steps[Hints]:
        yield from ()
        self.calls.append(f"hints {container.name}")
        return self.hints

    def pod_topology_hints(self, pod: Pod) -> Steps[Hints]:
        yield from ()
        self.calls.append("hints")
        return self.hints

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        yield from ()
        self.calls.append(f"allocate {container.name}")
        if self.error is not None:
            raise self.error

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        yield from ()
        self.calls.append("allocate")


def test_in_the_scope_of_containers_each_is_allocated_before_the_next_is_asked_about() -> None:
    manager = TopologyManager(NODES, "restricted", "container")
    provider = Provider({"cpu": [TopologyHint(2, True)]})
    manager.providers = [provider]
    assert at_once(manager.admit(pod())).admitted
    assert provider.calls == ["hints i", "allocate i", "hints a", "allocate a"]
    assert manager.affinity("u", "a") == TopologyHint(2, True)


def test_in_the_scope_of_pods_all_containers_share_one_hint() -> None:
    manager = TopologyManager(NODES, "single-numa-node", "pod")
    provider = Provider({"cpu": [TopologyHint(2, True)]})
    manager.providers = [provider]
    assert at_once(manager.admit(pod())).admitted
    assert provider.calls == ["hints", "allocate i", "allocate a"]
    assert (
        manager.metrics.get(
            "container_aligned_compute_resources_count", scope="pod", boundary="numa_node"
        )
        == 1
    )


def test_without_a_policy_no_provider_is_asked_for_hints() -> None:
    manager = TopologyManager(NODES, "none", "pod", {"no such option": "x"})
    provider = Provider(None)
    manager.providers = [provider]
    assert at_once(manager.admit(pod())).admitted
    assert provider.calls == ["allocate i", "allocate a"]


def test_a_refusal_is_counted_and_named() -> None:
    manager = TopologyManager(NODES, "restricted", "container")
    manager.providers = [Provider({"cpu": []})]
    decision = at_once(manager.admit(pod()))
    assert (decision.reason, decision.message) == (
        "TopologyAffinityError",
        "Resources cannot be allocated with Topology locality",
    )
    assert manager.metrics.get("topology_manager_admission_requests_total") == 1
    assert manager.metrics.get("topology_manager_admission_errors_total") == 1


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (SMTAlignmentError("no"), "SMTAlignmentError", "no"),
        (
            ManagerError("no"),
            "UnexpectedAdmissionError",
            "Allocate failed due to no, which is unexpected",
        ),
    ],
)
def test_an_error_refuses_the_pod(error: ManagerError, reason: str, message: str) -> None:
    manager = TopologyManager(NODES)
    manager.providers = [Provider(None, error)]
    decision = at_once(manager.admit(pod()))
    assert (decision.admitted, decision.reason, decision.message) == (False, reason, message)


def test_a_hint_is_kept_while_another_instance_of_the_container_lives() -> None:
    manager = TopologyManager(NODES, "restricted")
    manager.providers = [Provider({"cpu": [TopologyHint(1, True)]})]
    at_once(manager.admit(pod()))
    manager.add_container("u", "a", "first")
    manager.add_container("u", "a", "second")
    manager.remove_container("first")
    assert manager.affinity("u", "a").mask == 1
    manager.remove_container("second")
    assert manager.affinity("u", "a") is NO_HINT
