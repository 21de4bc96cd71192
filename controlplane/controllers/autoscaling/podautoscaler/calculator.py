"""The number of replicas that a metric asks for. Upstream: podautoscaler/replica_calculator.go. Values are in
thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.api.pod_resources import pod_requests
from controlplane.api.times import SECOND
from controlplane.controllers.autoscaling.podautoscaler.metrics import PodMetric
from controlplane.controllers.common.effects import Retry
from controlplane.controllers.common.pods import condition, is_ready

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

CPU: Final = "cpu"
CPU_INITIALIZATION_NS: Final = 5 * 60 * SECOND
INITIAL_READINESS_NS: Final = 30 * SECOND
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
NOTHING_SHARED: Final = -(2**63)
"""Go's conversion of an infinite number to an integer."""
NO_PODS: Final = "no pods returned by selector while calculating replica count"
NO_METRICS: Final = "did not receive metrics for targeted pods (pods might be unready)"

Measured = Mapping[str, PodMetric]


class Tolerances(NamedTuple):
    """The distance of the ratio of usage and target from 1 within which nothing is done."""

    down: float = 0.1
    up: float = 0.1

    def covers(self, ratio: float) -> bool:
        """Return whether nothing is to be done."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """A number of replicas; the usage per pod, and its share of the request in percent."""

    replicas: int
    usage: int
    utilization: int | None = None


class _Groups(NamedTuple):
    ready: int
    unready: list[str]
    missing: list[str]
    ignored: list[str]


def _whole(replicas: float) -> int:
    """Rounded up, as many as there can be at most."""
    return min(ceil(replicas), MAX_INT32)


def _is_unready(pod: Pod, metric: PodMetric, now: int) -> bool:
    """Return whether the use of CPU says nothing yet, because the pod is still starting."""
    ready, started = condition(pod, "Ready"), pod.status.start_time
    if ready is None or started is None:
        return True
    since = ready.last_transition_time or 0
    if started + CPU_INITIALIZATION_NS > now:
        return ready.status == "False" or metric.timestamp < since + metric.window
    return ready.status == "False" and started + INITIAL_READINESS_NS > since


def _group(pods: Sequence[Pod], metrics: Measured, resource: str, now: int) -> _Groups:
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    for pod in pods:
        metric = metrics.get(pod.name)
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            ignored.append(pod.name)
        elif pod.status.phase == "Pending":
            unready.append(pod.name)
        elif metric is None:
            missing.append(pod.name)
        elif resource == CPU and _is_unready(pod, metric, now):
            unready.append(pod.name)
        else:
            ready += 1
    return _Groups(ready, unready, missing, ignored)


def requests_of(pods: Sequence[Pod], container: str, resource: str) -> dict[str, int]:
    """Return the request of each pod, or of one container of each. Raises Retry where a request is missing."""
    return {pod.name: _request(pod, container, resource) for pod in pods}


def _request(pod: Pod, container: str, resource: str) -> int:
    if not container and pod.spec.resources is not None and pod.spec.resources.requests:
        whole = pod_requests(pod).get(resource)
        if whole is None:
            raise Retry(f"missing pod-level request for {resource} in Pod {pod.name}")
        return whole.milli_value()
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    counted = [each for each in (*pod.spec.containers, *sidecars) if container in ("", each.name)]
    if container and not counted:
        raise Retry(f"container {container} not found in Pod {pod.name}")
    total = 0
    for each in counted:
        request = each.resources.requests.get(resource)
        if request is None:
            said = f"missing request for {resource} in container {each.name} of Pod {pod.name}"
            raise Retry(said)
        total += request.milli_value()
    return total


class _Use(NamedTuple):
    ratio: float
    usage: int
    utilization: int | None


def _utilization(metrics: Measured, requests: Mapping[str, int], target: int) -> _Use:
    """The use as a share of what is requested, in whole percent, against the target."""
    counted = {name: each.value for name, each in metrics.items() if name in requests}
    requested = sum(requests[name] for name in counted)
    if requested == 0:
        raise Retry("no metrics returned matched known pods")
    total = sum(counted.values())
    percent = total * 100 // requested
    return _Use(percent / target, total // len(counted), percent)


def _plain(metrics: Measured, target: int) -> _Use:
    usage = sum(each.value for each in metrics.values()) // len(metrics)
    return _Use(usage / target, usage, None)


def _replicas(
    current: int,
    groups: _Groups,
    metrics: dict[str, PodMetric],
    first: _Use,
    tolerances: Tolerances,
    missing_value: Mapping[str, int],
    again: Sequence[Mapping[str, int]] | None,
    target: int,
) -> int:
    """From the use of ready pods to replicas; what is not known is taken to speak against a change."""
    ratio = first.ratio
    unready_matter = bool(groups.unready) and ratio > 1.0
    if not unready_matter and not groups.missing:
        return current if tolerances.covers(ratio) else _whole(ratio * groups.ready)
    if ratio < 1.0:
        metrics.update({name: PodMetric(missing_value[name]) for name in groups.missing})
    elif ratio > 1.0:
        metrics.update({name: PodMetric(0) for name in groups.missing})
    if unready_matter:
        metrics.update({name: PodMetric(0) for name in groups.unready})
    second = _plain(metrics, target) if again is None else _utilization(metrics, again[0], target)
    turned = (ratio < 1.0 < second.ratio) or (second.ratio < 1.0 < ratio)
    if tolerances.covers(second.ratio) or turned:
        return current
    replicas = _whole(second.ratio * len(metrics))
    against = (second.ratio < 1.0 and replicas > current) or (
        second.ratio > 1.0 and replicas < current
    )
    return current if against else replicas


def _known(
    metrics: Measured, pods: Sequence[Pod], resource: str, now: int
) -> tuple[_Groups, dict[str, PodMetric]]:
    if not pods:
        raise Retry(NO_PODS)
    groups = _group(pods, metrics, resource, now)
    left_out = {*groups.ignored, *groups.unready}
    found = {name: each for name, each in metrics.items() if name not in left_out}
    if not found:
        raise Retry(NO_METRICS)
    return groups, found


def by_utilization(
    current: int,
    target: int,
    resource: str,
    container: str,
    metrics: Measured,
    pods: Sequence[Pod],
    tolerances: Tolerances,
    now: int,
) -> Proposal:
    """Replicas for a target in percent of what is requested."""
    groups, found = _known(metrics, pods, resource, now)
    requests = requests_of(pods, container, resource)
    use = _utilization(found, requests, target)
    full = max(100, target)
    missing = {name: requests[name] * full // 100 for name in groups.missing}
    replicas = _replicas(current, groups, found, use, tolerances, missing, (requests,), target)
    return Proposal(replicas, use.usage, use.utilization)


def by_usage(
    current: int,
    target: int,
    resource: str,
    metrics: Measured,
    pods: Sequence[Pod],
    tolerances: Tolerances,
    now: int,
) -> Proposal:
    """Replicas for a target per pod; `resource` is "" for custom metrics."""
    groups, found = _known(metrics, pods, resource, now)
    use = _plain(found, target)
    missing = dict.fromkeys(groups.missing, target)
    replicas = _replicas(current, groups, found, use, tolerances, missing, None, target)
    return Proposal(replicas, use.usage)


def by_total(
    current: int, target: int, usage: int, pods: Sequence[Pod], tolerances: Tolerances
) -> Proposal:
    """Replicas for a target that all pods together are to come to; from none, as many as the ratio."""
    ratio = usage / target
    if current == 0:
        return Proposal(_whole(ratio), usage)
    if tolerances.covers(ratio):
        return Proposal(current, usage)
    if not pods:
        raise Retry(f"unable to calculate ready pods: {NO_PODS}")
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
    return Proposal(_whole(ratio * ready), usage)


def total(values: Sequence[int]) -> int:
    """The sum, as much as a number can hold at most."""
    return min(sum(values), MAX_INT64)


def by_share(status_replicas: int, target: int, usage: int, tolerances: Tolerances) -> Proposal:
    """Replicas for a target per pod, of a metric that all pods share."""
    if usage >= MAX_INT64:
        return Proposal(MAX_INT32, MAX_INT64)
    replicas = status_replicas
    # No replicas to share it among: Go's division by zero is no error, and infinitely far from any target.
    if status_replicas == 0:
        within, share = False, NOTHING_SHARED
    else:
        within = tolerances.covers(usage / (target * status_replicas))
        share = ceil(usage / status_replicas)
    if not within:
        replicas = _whole(usage / target)
    return Proposal(replicas, share)
