"""The replicas that one metric asks for, and its status. Upstream: podautoscaler/horizontal.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controlplane.api.quantity import Format, Quantity
from controlplane.controllers.autoscaling.podautoscaler import calculator
from controlplane.controllers.autoscaling.podautoscaler.calculator import Proposal, Tolerances
from controlplane.controllers.common.controller import WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry

if TYPE_CHECKING:
    from controlplane.api.autoscaling import (
        HorizontalPodAutoscaler,
        HPAScalingRules,
        MetricIdentifier,
        MetricSpec,
        MetricTarget,
    )
    from controlplane.api.labels import Selector
    from controlplane.api.meta import LabelSelector
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.client.indexer import Indexer
    from controlplane.client.resources import Resource
    from controlplane.controllers.autoscaling.podautoscaler.metrics import Metrics
    from controlplane.controllers.common.controller import Host

Failed: Final = (*RequestFailed, Retry)
_UTILIZATION = "resource utilization (percentage of request)"
_NO_OBJECT_TARGET = (
    "invalid object metric source: neither a value target nor an average value target was set"
)
_NO_EXTERNAL_TARGET = (
    "invalid external metric source: neither a value target nor an average value target was set"
)
_NO_RESOURCE_TARGET = (
    "invalid resource metric source: neither an average utilization target nor an average value "
    "(usage) target was set"
)


class Scale(NamedTuple):
    """The scale of a target, and the resource that it is of."""

    resource: Resource[Any]
    tree: Tree

    @property
    def replicas(self) -> int:
        """The number of replicas in the spec."""
        return int((self.tree.get("spec") or {}).get("replicas") or 0)

    @property
    def status_replicas(self) -> int:
        """The number of replicas in the status."""
        return int((self.tree.get("status") or {}).get("replicas") or 0)

    @property
    def selector(self) -> str:
        """The selector of the pods, as text."""
        return str((self.tree.get("status") or {}).get("selector") or "")


class Read(NamedTuple):
    """The result of one metric: its replicas, its name, and its status."""

    proposal: Proposal
    name: str
    status: Tree


class Invalid(Exception):
    """One metric could not be read; what condition ScalingActive says, and the error."""

    def __init__(self, reason: str, said: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason
        self.said = said


class Readings:
    """Reads metrics from their source."""

    def __init__(self, host: Host, pods: Indexer[Pod], metrics: Metrics) -> None:
        self.host = host
        self.metrics = metrics
        self._pods = pods

    def selected(self, namespace: str, selector: Selector) -> list[Pod]:
        """The pods that a selector selects."""
        return [
            obj.view
            for obj in self._pods.by_index("namespace", namespace)
            if selector.matches(obj.view.labels)
        ]

    def read(
        self, hpa: HorizontalPodAutoscaler, spec: MetricSpec, scale: Scale, selector: Selector
    ) -> Reconcile[Read]:
        """One metric. Raises Invalid, after the event about it."""
        readers = {
            "Object": (self._object, "FailedGetObjectMetric", "object metric value"),
            "Pods": (self._of_pods, "FailedGetPodsMetric", "pods metric value"),
            "Resource": (self._resource, "FailedGetResourceMetric", ""),
            "ContainerResource": (self._resource, "FailedGetContainerResourceMetric", ""),
            "External": (self._external, "FailedGetExternalMetric", ""),
        }
        if spec.type not in readers:
            error = f'unknown metric source type "{spec.type}"'
            raise self._invalid(hpa, "InvalidMetricSourceType", error, error, error)
        read, reason, what = readers[spec.type]
        if spec.resource is not None and spec.type == "Resource":
            what = f"{spec.resource.name} resource metric value"
        elif spec.container_resource is not None and spec.type == "ContainerResource":
            what = f"{spec.container_resource.container} container metric value"
        elif spec.external is not None and spec.type == "External":
            what = f"{spec.external.metric.name} external metric value"
        try:
            return (yield from read(hpa, spec, scale, selector))
        except _Wrapped as error:
            raise self._invalid(
                hpa, reason, str(error.inner), str(error.inner), f"failed to get {what}: {error}"
            ) from error
        except Failed as error:
            text = str(error)
            raise self._invalid(hpa, reason, text, text, f"failed to get {what}: {text}") from error

    def _invalid(
        self, hpa: HorizontalPodAutoscaler, reason: str, event: str, said: str, error: str
    ) -> Invalid:
        self.host.event(hpa, WARNING, reason, event)
        return Invalid(reason, f"the HPA was unable to compute the replica count: {said}", error)

    def _tolerances(self, hpa: HorizontalPodAutoscaler) -> Tolerances:
        behavior = hpa.spec.behavior
        if behavior is None:
            return Tolerances()

        def of(found: HPAScalingRules | None, default: float) -> float:
            if found is None or found.tolerance is None:
                return default
            return found.tolerance.milli_value() / 1000

        plain = Tolerances()
        return Tolerances(of(behavior.scale_down, plain.down), of(behavior.scale_up, plain.up))

    def _resource(
        self, hpa: HorizontalPodAutoscaler, spec: MetricSpec, scale: Scale, selector: Selector
    ) -> Reconcile[Read]:
        if spec.type == "Resource":
            assert spec.resource is not None
            name, container, target = spec.resource.name, "", spec.resource.target
        else:
            assert spec.container_resource is not None
            one = spec.container_resource
            name, container, target = one.name, one.container, one.target
        proposal = yield from self._resource_proposal(hpa, name, container, target, scale, selector)
        called = f"{name} resource"
        if target.average_value is None:
            called = f"{name} {'container ' if container else ''}{_UTILIZATION}"
        form: Format = "BinarySI" if name == "memory" else "DecimalSI"
        current: Tree = {"averageValue": str(Quantity.new_milli(proposal.usage, form))}
        if proposal.utilization is not None:
            current["averageUtilization"] = proposal.utilization
        source: Tree = {"name": name, "current": current}
        if container:
            source["container"] = container
        key = spec.type[0].lower() + spec.type[1:]
        return Read(proposal, called, {"type": spec.type, key: source})

    def _resource_proposal(
        self,
        hpa: HorizontalPodAutoscaler,
        name: str,
        container: str,
        target: MetricTarget,
        scale: Scale,
        selector: Selector,
    ) -> Reconcile[Proposal]:
        usage, share = target.average_value, target.average_utilization
        if usage is None and share is None:
            raise Retry(_NO_RESOURCE_TARGET)
        tolerances = self._tolerances(hpa)
        try:
            try:
                metrics = yield from self.metrics.resource(name, hpa.namespace, selector, container)
            except Failed as error:
                raise Retry(f"unable to get metrics for resource {name}: {error}") from error
            pods, now = self.selected(hpa.namespace, selector), self.host.now
            if usage is not None:
                return calculator.by_usage(
                    scale.replicas, usage.milli_value(), name, metrics, pods, tolerances, now
                )
            return calculator.by_utilization(
                scale.replicas, share or 0, name, container, metrics, pods, tolerances, now
            )
        except Retry as error:
            kind = "usage" if usage is not None else "utilization"
            raise Retry(f"failed to get {name} {kind}: {error}") from error

    def _of_pods(
        self, hpa: HorizontalPodAutoscaler, spec: MetricSpec, scale: Scale, selector: Selector
    ) -> Reconcile[Read]:
        assert spec.pods is not None
        metric, target = spec.pods.metric, spec.pods.target.average_value
        try:
            metrics = yield from self.metrics.pods(metric, hpa.namespace, selector)
        except Failed as error:
            raise Retry(f"unable to get metric {metric.name}: {error}") from error
        wanted = target.milli_value() if target is not None else 0
        pods = self.selected(hpa.namespace, selector)
        proposal = calculator.by_usage(
            scale.replicas, wanted, "", metrics, pods, self._tolerances(hpa), self.host.now
        )
        source = {"metric": _shown(metric), "current": {"averageValue": _milli(proposal.usage)}}
        return Read(proposal, f"pods metric {metric.name}", {"type": "Pods", "pods": source})

    def _object(
        self, hpa: HorizontalPodAutoscaler, spec: MetricSpec, scale: Scale, selector: Selector
    ) -> Reconcile[Read]:
        assert spec.object is not None
        metric, target, about = spec.object.metric, spec.object.target, spec.object.described_object
        whole = target.value if target.type == "Value" else None
        each = target.average_value if target.type == "AverageValue" else None
        if whole is None and each is None:
            raise Retry(_NO_OBJECT_TARGET)
        try:
            usage = yield from self.metrics.of_object(metric, hpa.namespace, about)
        except Failed as error:
            # The arguments stand in this order upstream.
            said = f"unable to get metric {metric.name}: {about.kind} on {hpa.namespace}"
            failed = Retry(f"{said} {about.name}/{error}")
            if whole is not None:
                raise failed from error
            raise _Wrapped(
                failed, f"failed to get {metric.name} object metric: {failed}"
            ) from error
        tolerances = self._tolerances(hpa)
        if whole is not None:
            pods = self.selected(hpa.namespace, selector)
            proposal = calculator.by_total(
                scale.replicas, whole.milli_value(), usage, pods, tolerances
            )
            source: Tree = {
                "describedObject": spec_tree(about),
                "metric": _shown(metric),
                "current": {"value": _milli(proposal.usage)},
            }
            called = f"{about.kind} metric {metric.name}"
        else:
            assert each is not None
            proposal = calculator.by_share(
                scale.status_replicas, each.milli_value(), usage, tolerances
            )
            source = {
                "describedObject": spec_tree(about),
                "metric": _shown(metric),
                "current": {"averageValue": _milli(proposal.usage)},
            }
            called = f"external metric {metric.name}({_go_selector(metric.selector)})"
        return Read(proposal, called, {"type": "Object", "object": source})

    def _external(
        self, hpa: HorizontalPodAutoscaler, spec: MetricSpec, scale: Scale, selector: Selector
    ) -> Reconcile[Read]:
        assert spec.external is not None
        metric, target = spec.external.metric, spec.external.target
        each, whole = target.average_value, target.value
        if each is None and whole is None:
            raise Retry(_NO_EXTERNAL_TARGET)
        about = (
            f"failed to get {metric.name} external metric"
            if each is not None
            else f"failed to get external metric {metric.name}"
        )
        tolerances = self._tolerances(hpa)
        shown = _go_selector(metric.selector)
        try:
            try:
                series = yield from self.metrics.external(metric, hpa.namespace)
                usage = calculator.total(series)
            except Failed as error:
                said = f"unable to get external metric {hpa.namespace}/{metric.name}/{shown}"
                raise Retry(f"{said}: {error}") from error
            if each is not None:
                proposal = calculator.by_share(
                    scale.status_replicas, each.milli_value(), usage, tolerances
                )
                current = {"averageValue": _milli(proposal.usage)}
            else:
                assert whole is not None
                pods = self.selected(hpa.namespace, selector)
                proposal = calculator.by_total(
                    scale.replicas, whole.milli_value(), usage, pods, tolerances
                )
                current = {"value": _milli(proposal.usage)}
        except Retry as error:
            raise _Wrapped(error, f"{about}: {error}") from error
        source = {"metric": _shown(metric), "current": current}
        called = f"external metric {metric.name}({shown})"
        return Read(proposal, called, {"type": "External", "external": source})


class _Wrapped(Retry):
    """An error that events tell without what it is wrapped in."""

    def __init__(self, inner: Exception, text: str) -> None:
        super().__init__(text)
        self.inner = inner


def _milli(value: int) -> str:
    return str(Quantity.new_milli(value))


def _shown(metric: MetricIdentifier) -> Tree:
    """A metric as the status names it."""
    found: Tree = {"name": metric.name}
    if metric.selector is not None:
        selector: Tree = {}
        if metric.selector.match_labels:
            selector["matchLabels"] = dict(metric.selector.match_labels)
        if metric.selector.match_expressions:
            selector["matchExpressions"] = [
                {"key": each.key, "operator": each.operator, "values": list(each.values)}
                for each in metric.selector.match_expressions
            ]
        found["selector"] = selector
    return found


def spec_tree(about: Any) -> Tree:
    """A reference as a tree."""
    found = {"kind": about.kind, "name": about.name}
    return {**found, "apiVersion": about.api_version} if about.api_version else found


def _go_selector(selector: LabelSelector | None) -> str:
    """A label selector as Go prints it."""
    if selector is None:
        return "nil"
    labels = ",".join(f"{key}: {value}" for key, value in sorted(selector.match_labels.items()))
    labels = f"map[string]string{{{labels + ',' if labels else ''}}}"
    parts = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions
    )
    listed = f"[]LabelSelectorRequirement{{{parts}}}"
    return f"&LabelSelector{{MatchLabels:{labels},MatchExpressions:{listed},}}"
