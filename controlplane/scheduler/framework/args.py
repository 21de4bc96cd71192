"""Plugin arguments, defaulted. Upstream: kube-scheduler `config/v1/types_pluginargs.go`."""

from __future__ import annotations

from typing import Any

import attrs

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


@attrs.frozen
class ResourceSpec:
    """A resource with its weight in a score."""

    name: str
    weight: int = 1


DEFAULT_RESOURCES = (ResourceSpec("cpu"), ResourceSpec("memory"))


@attrs.frozen
class ShapePoint:
    """A point of a scoring shape: utilisation 0..100, score 0..10."""

    utilization: int
    score: int


@attrs.frozen
class NodeResourcesFitArgs:
    """Resources that are ignored, and how free capacity is scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    strategy: str = LEAST_ALLOCATED
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    shape: tuple[ShapePoint, ...] = ()


@attrs.frozen
class NodeResourcesBalancedAllocationArgs:
    """Resources whose use is balanced."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


@attrs.frozen
class NodeAffinityArgs:
    """Node affinity added to every pod of the profile (a NodeAffinity tree), None for none."""

    added_affinity: Any = None


@attrs.frozen
class InterPodAffinityArgs:
    """Weight of required affinity in scores, and whether others' preferences count."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


@attrs.frozen
class PodTopologySpreadArgs:
    """Constraints for pods without their own (trees), and where they come from."""

    defaulting_type: str = "System"
    default_constraints: tuple[Any, ...] = ()


@attrs.frozen
class VolumeBindingArgs:
    """Time limit for binding, seconds; shape only with StorageCapacityScoring."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] | None = None


@attrs.frozen
class DefaultPreemptionArgs:
    """Number of candidates of a dry run."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


@attrs.frozen
class DynamicResourcesArgs:
    """Time limits of allocation and binding, nanoseconds; None where the gate is off."""

    filter_timeout: int | None = 10_000_000_000
    binding_timeout: int | None = 600_000_000_000
