"""Horizontal pod autoscalers and the scale of what they act on."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.meta import LabelSelector
from controlplane.api.quantity import Quantity
from controlplane.api.times import Time
from controlplane.api.view import View


@attrs.frozen
class CrossVersionObjectReference:
    """An object in the same namespace, whatever version serves it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


@attrs.frozen
class MetricTarget:
    """The target of a metric; one of the three values is set."""

    average_utilization: int | None = None
    average_value: Quantity | None = None
    type: str = ""
    value: Quantity | None = None


@attrs.frozen
class MetricIdentifier:
    """A custom or external metric."""

    name: str = ""
    selector: LabelSelector | None = None


@attrs.frozen
class ObjectMetricSource:
    """A metric of one object."""

    described_object: CrossVersionObjectReference = attrs.field(factory=CrossVersionObjectReference)
    metric: MetricIdentifier = attrs.field(factory=MetricIdentifier)
    target: MetricTarget = attrs.field(factory=MetricTarget)


@attrs.frozen
class PodsMetricSource:
    """A metric that every pod has."""

    metric: MetricIdentifier = attrs.field(factory=MetricIdentifier)
    target: MetricTarget = attrs.field(factory=MetricTarget)


@attrs.frozen
class ResourceMetricSource:
    """The use of a resource by pods."""

    name: str = ""
    target: MetricTarget = attrs.field(factory=MetricTarget)


@attrs.frozen
class ContainerResourceMetricSource:
    """The use of a resource by one container of each pod."""

    container: str = ""
    name: str = ""
    target: MetricTarget = attrs.field(factory=MetricTarget)


@attrs.frozen
class ExternalMetricSource:
    """A metric from outside the cluster."""

    metric: MetricIdentifier = attrs.field(factory=MetricIdentifier)
    target: MetricTarget = attrs.field(factory=MetricTarget)


@attrs.frozen
class MetricSpec:
    """One metric to go by; `type` says which member is set."""

    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    type: str = ""


@attrs.frozen
class HPAScalingPolicy:
    """The allowed change per period."""

    period_seconds: int = 0
    type: str = ""
    value: int = 0


@attrs.frozen
class HPAScalingRules:
    """The scaling rules of one direction, and its stabilization window."""

    policies: tuple[HPAScalingPolicy, ...] = ()
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    tolerance: Quantity | None = None


@attrs.frozen
class HorizontalPodAutoscalerBehavior:
    """The rules for either way."""

    scale_down: HPAScalingRules | None = None
    scale_up: HPAScalingRules | None = None


@attrs.frozen
class HorizontalPodAutoscalerSpec:
    """The scaled object, the metrics, and the bounds."""

    behavior: HorizontalPodAutoscalerBehavior | None = None
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference = attrs.field(factory=CrossVersionObjectReference)


@attrs.frozen
class HorizontalPodAutoscalerCondition:
    """A condition of an autoscaler."""

    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class HorizontalPodAutoscalerStatus:
    """The observed metrics and the last decision of the autoscaler."""

    conditions: tuple[HorizontalPodAutoscalerCondition, ...] = ()
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: Time | None = None
    observed_generation: int | None = None


@attrs.frozen(eq=False)
class HorizontalPodAutoscaler(View):
    """A horizontal pod autoscaler."""

    API_VERSION: ClassVar[str] = "autoscaling/v2"
    KIND: ClassVar[str] = "HorizontalPodAutoscaler"

    spec: HorizontalPodAutoscalerSpec = attrs.field(factory=HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = attrs.field(factory=HorizontalPodAutoscalerStatus)
