"""Feature gates of the API server that are off by default, and the versions and resources that they serve.

A gate that is off drops fields from new objects; see the strategies of the kinds. Upstream:
pkg/features/kube_features.go, pkg/registry/scheduling/rest, pkg/registry/resource/rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.apiserver.schema.gated_fields import FIELD_GATES
from controlplane.apiserver.schema.releases import number

__all__ = ["GATES", "gate_of", "later", "switched_on"]

GATES: Final[Mapping[str, str]] = {
    "CBORServingAndStorage": "1.32",
    "DRADeviceTaintRules": "1.36",
    "DRAListTypeAttributes": "1.36",
    "DRANodeAllocatableResources": "1.36",
    "DRAWorkloadResourceClaims": "1.36",
    "GangScheduling": "1.36",
    "GenericWorkload": "1.36",
    "TopologyAwareWorkloadScheduling": "1.36",
    "WorkloadAwarePreemption": "1.36",
    "WorkloadWithJob": "1.36",
}
"""The gates, with the first release whose API server is emulated with the gate on."""
_SERVING: Final[Mapping[tuple[str, str, str], str]] = {
    ("resource.k8s.io", "v1beta2", "devicetaintrules"): "DRADeviceTaintRules",
    ("scheduling.k8s.io", "v1alpha2", "podgroups"): "GenericWorkload",
    ("scheduling.k8s.io", "v1alpha2", "workloads"): "GenericWorkload",
}


def gate_of(group: str, version: str, resource: str) -> str:
    """Return the gate that serves a resource in a version that is not served by default; "" for none."""
    return _SERVING.get((group, version, resource), "")


def switched_on(features: Mapping[str, bool], release: str) -> frozenset[str]:
    """Return the gates of the API server among the features that are on, and that the release has off by default."""
    at = number(release)
    known = {name for name, since in GATES.items() if number(since) <= at}
    known.update(name for name, gate in FIELD_GATES.items() if number(gate.on_since) > at)
    return frozenset(name for name in known if features.get(name))


def later(features: Mapping[str, bool], release: str) -> dict[str, str]:
    """Return the gates that are asked for on and that this release is not emulated with; since when others are."""
    at = number(release)
    return {
        name: since for name, since in GATES.items() if features.get(name) and number(since) > at
    }
