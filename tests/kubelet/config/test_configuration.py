from __future__ import annotations

from typing import Any

import pytest

from controlplane.decisions import at_once, writes_to
from controlplane.errors import UsageError
from controlplane.kubelet.cm.container_manager import ContainerManager
from controlplane.kubelet.config.allocatable import (
    allocatable_of,
    capacity_of,
    policies_of,
    reservation,
)
from controlplane.kubelet.config.configuration import configuration
from controlplane.kubelet.config.fields import DEFAULTS, EMULATED, FIELDS
from controlplane.kubelet.machine import machine_of_text

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def refusal(**fields: Any) -> str:
    with pytest.raises(UsageError) as error:
        configuration({**HEAD, **fields}, origin="node.yaml")
    text = str(error.value)
    assert text.startswith("node.yaml: ")
    assert "\n" not in text
    return text


def test_without_a_document_all_is_as_upstream_has_it() -> None:
    config = configuration()
    assert config.cpu_manager_policy == "none"
    assert config.node_status_report_frequency_ns == 300 * 10**9
    assert str(config.eviction_hard["memory.available"].amount) == "100Mi"
    assert config.eviction_hard["nodefs.available"].part == 0.1
    assert config.max_pods == 110


def test_the_report_frequency_follows_the_update_frequency_that_was_set() -> None:
    config = configuration({**HEAD, "nodeStatusUpdateFrequency": "4s"})
    assert config.node_status_report_frequency_ns == 4 * 10**9


def test_every_default_and_every_emulated_field_exists() -> None:
    assert set(DEFAULTS) <= set(FIELDS)
    assert set(EMULATED) <= set(FIELDS)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cpuManagerPolicies": "static"}, 'unknown field "cpuManagerPolicies"'),
        ({"maxPods": "many"}, "maxPods: expected int32, got 'many'"),
        ({"maxPods": -1}, "maxPods (--max-pods) -1 must not be a negative number"),
        ({"syncFrequency": "soon"}, 'time: invalid duration "soon"'),
        ({"featureGates": {"Nonsense": True}}, "unrecognized feature gate: Nonsense"),
        (
            {"featureGates": {"InPlacePodVerticalScaling": False}},
            "cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true",
        ),
        (
            {"topologyManagerPolicy": "strict"},
            'topologyManagerPolicy (--topology-manager-policy) "strict" must be one of: '
            '["none" "best-effort" "restricted" "single-numa-node"]',
        ),
        (
            {"topologyManagerScope": "node"},
            'topologyManagerScope (--topology-manager-scope) "node" must be one of: "container", '
            'or "pod"',
        ),
        (
            {"reservedSystemCPUs": "0-1", "kubeReservedCgroup": "/kube"},
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup",
        ),
        (
            {"reservedSystemCPUs": "3-1"},
            "unable to parse reservedSystemCPUs (--reserved-cpus) 3-1, error: invalid range",
        ),
        (
            {"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1"}}]},
            'the limit type "cpu" for NUMA node 0 is not supported, only '
            "[memory hugepages-<HugePageSize>] is accepted",
        ),
        (
            {"reservedMemory": [{"numaNode": 1, "limits": {"memory": "1Gi"}}] * 2},
            'the reserved memory has a duplicate value for NUMA node 1 and resource "memory"',
        ),
        (
            {"enforceNodeAllocatable": ["none", "pods"]},
            'may not contain additional enforcements when "none" is specified',
        ),
        (
            {"enforceNodeAllocatable": ["system-reserved"]},
            "systemReservedCgroup (--system-reserved-cgroup) must be specified",
        ),
        (
            {"kubeReserved": {"gpu": "1"}},
            '--kube-reserved value failed to parse: cannot reserve "gpu"',
        ),
        (
            {"systemReserved": {"cpu": "-1"}},
            'resource quantity for "cpu" cannot be negative: -1',
        ),
        ({"evictionHard": {"memory.free": "1Gi"}}, "unsupported eviction signal memory.free"),
        (
            {"evictionHard": {"memory.available": "120%"}},
            "eviction percentage threshold memory.available must be <= 100%: 120%",
        ),
        (
            {"evictionSoft": {"memory.available": "1Gi"}},
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
        (
            {"imageGCLowThresholdPercent": 90},
            "imageGCLowThresholdPercent (--image-gc-low-threshold) 90 must be less than",
        ),
    ],
)
def test_what_is_unknown_or_contradicts_itself_is_refused_by_name(
    fields: dict[str, Any], said: str
) -> None:
    assert said in refusal(**fields)


def test_several_violations_are_told_at_once() -> None:
    text = refusal(maxPods=-1, podsPerCore=-2)
    assert "maxPods" in text
    assert "podsPerCore" in text


def test_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match='no kind "Pod" is registered for version "v1"'):
        configuration({"apiVersion": "v1", "kind": "Pod"})


def test_fields_that_change_nothing_are_named() -> None:
    assert configuration({**HEAD, "clusterDNS": ["10.0.0.10"]}).unused == ("clusterDNS",)


def test_allocatable_is_what_is_not_reserved() -> None:
    machine = machine_of_text("sockets=2 cores=4 threads=2 memory=8Gi hugepages-2Mi=512")
    config = configuration(
        {
            **HEAD,
            "kubeReserved": {"cpu": "500m", "memory": "1Gi"},
            "systemReserved": {"cpu": "500m", "memory": "412Mi"},
            "podsPerCore": 5,
        }
    )
    capacity = capacity_of(machine, config)
    assert str(capacity["pods"]) == "80"
    found = allocatable_of(config, capacity)
    assert str(found["cpu"]) == "15"
    # 16Gi, less 1Gi and 412Mi, 100Mi for eviction, and 2Gi of huge pages
    assert str(found["memory"]) == f"{16384 - 1024 - 412 - 100 - 2048}Mi"
    assert str(found["hugepages-2Mi"]) == "2Gi"


def test_a_list_of_reserved_cpus_stands_for_both_reservations() -> None:
    config = configuration({**HEAD, "reservedSystemCPUs": "0-1", "kubeReserved": {"cpu": "7"}})
    capacity = capacity_of(machine_of_text("cores=8"), config)
    assert str(reservation(config, capacity)["cpu"]) == "2"


def test_a_whole_node_starts_from_its_configuration() -> None:
    """The strict reservation of the 1.32 announcement: 64 CPUs, of which six are kept back."""
    machine = machine_of_text("sockets=2 cores=16 threads=2 memory=32Gi")
    config = configuration(
        {
            **HEAD,
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"},
            "reservedSystemCPUs": "0,32,1,33,16,48",
            "memoryManagerPolicy": "Static",
            "systemReserved": {"memory": "924Mi"},
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
            "topologyManagerPolicy": "single-numa-node",
        }
    )
    manager = ContainerManager(
        machine, policies_of(config, capacity_of(machine, config)), features=config.features
    )
    files: dict[str, str] = {}
    at_once(manager.start({}), writes_to(files))
    assert files["cpu_manager_state"] == (
        '{"policyName":"static","defaultCpuSet":"2-15,17-31,34-47,49-63","checksum":4141502832}'
    )
