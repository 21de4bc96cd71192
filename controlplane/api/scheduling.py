"""Priority classes, pod groups and workloads."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.meta import Condition
from controlplane.api.references import TypedLocalObjectReference
from controlplane.api.tree import Tree
from controlplane.api.view import View


@attrs.frozen(eq=False)
class PriorityClass(View):
    """A named priority."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    KIND: ClassVar[str] = "PriorityClass"

    description: str = ""
    global_default: bool = False
    preemption_policy: str | None = None
    value: int = 0


@attrs.frozen
class GangSchedulingPolicy:
    """At least `min_count` pods of the group at once, or none."""

    min_count: int = 0


@attrs.frozen
class PodGroupSchedulingPolicy:
    """One of: each pod by itself (basic), or a gang."""

    basic: Tree | None = None
    gang: GangSchedulingPolicy | None = None


@attrs.frozen
class TopologyConstraint:
    """All pods of the group within one domain of a node label."""

    key: str = ""


@attrs.frozen
class PodGroupSchedulingConstraints:
    """Limits of the placement of a group."""

    topology: tuple[TopologyConstraint, ...] = ()


@attrs.frozen
class WorkloadPodGroupTemplateReference:
    """The template of a Workload from which a group was made."""

    workload_name: str = ""
    pod_group_template_name: str = ""


@attrs.frozen
class PodGroupTemplateReference:
    """The origin of a group."""

    workload: WorkloadPodGroupTemplateReference | None = None


@attrs.frozen
class PodGroupResourceClaim:
    """A claim that the pods of a group share: one that exists, or one made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


@attrs.frozen
class PodGroupResourceClaimStatus:
    """The claim that was made for an entry of the spec."""

    name: str = ""
    resource_claim_name: str | None = None


@attrs.frozen
class PodGroupSpec:
    """The rules by which the pods of a group are scheduled and disrupted."""

    pod_group_template_ref: PodGroupTemplateReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = attrs.field(factory=PodGroupSchedulingPolicy)
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: int | None = None


@attrs.frozen
class PodGroupStatus:
    """The status of a group, written by the scheduler and the claim controller."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


@attrs.frozen(eq=False)
class PodGroup(View):
    """Pods that are scheduled together."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    KIND: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec = attrs.field(factory=PodGroupSpec)
    status: PodGroupStatus = attrs.field(factory=PodGroupStatus)


@attrs.frozen
class PodGroupTemplate:
    """A group as a Workload describes it."""

    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = attrs.field(factory=PodGroupSchedulingPolicy)
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: int | None = None


@attrs.frozen
class WorkloadSpec:
    """The groups of a workload, and the object that it stands for."""

    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


@attrs.frozen(eq=False)
class Workload(View):
    """The groups of pods to schedule for an object such as a Job."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    KIND: ClassVar[str] = "Workload"

    spec: WorkloadSpec = attrs.field(factory=WorkloadSpec)


POD_GROUP_MODE = "PodGroup"
"""Disruption mode of groups of which all pods are preempted together, or none."""


def pod_group_priority(group: PodGroup) -> int:
    """The priority of a group; without one it is 0, whatever its pods have."""
    return group.spec.priority or 0
