"""The horizontal pod autoscaler's controller. Upstream: pkg/controller/podautoscaler/horizontal.go.

An autoscaler is looked at every 15 seconds, whatever came of it; failures are reported by events and
conditions. Points: `hpa.normalize` (the metrics were read), `hpa.conflict` (waiting to scale again),
and those of the metrics' source.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from attrs import define

from controlplane.api.labels import NOTHING, Selector, SelectorError, parse
from controlplane.api.times import SECOND, format_time
from controlplane.client import calls
from controlplane.client.errors import ApiError
from controlplane.client.resources import (
    AUTOSCALERS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from controlplane.controllers.autoscaling.podautoscaler import rules
from controlplane.controllers.autoscaling.podautoscaler.metrics import EmulatedMetrics
from controlplane.controllers.autoscaling.podautoscaler.readings import (
    Failed,
    Invalid,
    Readings,
    Scale,
)
from controlplane.controllers.common.conflicts import RETRY, retry_on_conflict
from controlplane.controllers.common.controller import NORMAL, WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.features import HPA_SCALE_TO_ZERO
from controlplane.controllers.common.pod_usage import PodUsage
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.decisions import Point

if TYPE_CHECKING:
    from controlplane.api.autoscaling import HorizontalPodAutoscaler
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.controllers.common.controller import Caches, Host

PERIOD_NS: Final = 15 * SECOND
ABLE: Final = "AbleToScale"
ACTIVE: Final = "ScalingActive"
LIMITED: Final = "ScalingLimited"
ZEROED: Final = "ScaledToZero"
SCALED: Final[dict[tuple[str, str], Resource[Any]]] = {
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
    ("", "ReplicationController"): REPLICATION_CONTROLLERS,
}
"""Resources with a scale, by group and kind."""


@define
class Turn:
    """One turn: the autoscaler, its key, and the status so far."""

    hpa: HorizontalPodAutoscaler
    key: str
    status: Tree
    windowed: bool = False
    """Rules for scaling down were considered: the write says how far back they look."""

    def say(self, kind: str, status: bool, reason: str, message: str, now: int) -> None:
        """Set a condition; its time moves when its status does."""
        said = {"status": "True" if status else "False", "reason": reason, "message": message}
        conditions: list[Tree] = list(self.status.get("conditions") or ())
        for at, known in enumerate(conditions):
            if known["type"] == kind:
                moved = known.get("status") != said["status"]
                stamp = {"lastTransitionTime": format_time(now)} if moved else {}
                conditions[at] = {**known, **said, **stamp}
                break
        else:
            conditions.append({"type": kind, "lastTransitionTime": format_time(now), **said})
        self.status["conditions"] = conditions

    def unsay(self, kind: str) -> None:
        """Leave out a condition that is of a feature that is off."""
        conditions = self.status.get("conditions") or ()
        kept = [known for known in conditions if known["type"] != kind]
        if len(kept) != len(conditions):
            self.status["conditions"] = kept

    def tree(self) -> Tree:
        """The autoscaler with this status."""
        tree = {**self.hpa.tree, "status": self.status}
        if self.windowed:
            spec = tree["spec"]
            behavior = spec["behavior"]
            down = {"stabilizationWindowSeconds": rules.STABILIZATION_SECONDS}
            behavior = {**behavior, "scaleDown": {**down, **behavior["scaleDown"]}}
            tree["spec"] = {**spec, "behavior": behavior}
        return tree


class HorizontalPodAutoscalerController(Controller):
    """Scales targets so that metrics stay where they are wanted."""

    name = "horizontal-pod-autoscaler-controller"
    component = "horizontal-pod-autoscaler"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("horizontalpodautoscaler")
        self.memory: dict[str, rules.Memory] = {}
        self.motions: dict[str, rules.Motion] = {}
        self.selectors: dict[str, Selector] = {}
        self._pods = caches.of(PODS, namespace=namespace_index)
        self._autoscalers = caches.of(AUTOSCALERS)
        used = PodUsage(host, caches)
        self.readings = Readings(host, self._pods, EmulatedMetrics(host, self._pods, used))

    def work(self) -> tuple[Work, ...]:
        """One queue of autoscalers."""
        return (Work("horizontalpodautoscaler", self.sync),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Autoscalers only; their targets are looked at when their time has come."""
        return {
            AUTOSCALERS: Handlers(self._seen, self._updated, self._deleted),
            PODS: Handlers(
                lambda _: self._pods_changed(),
                lambda _, __: self._pods_changed(),
                lambda _, __: self._pods_changed(),
            ),
        }

    def _seen(self, obj: Object[HorizontalPodAutoscaler]) -> None:
        self.selectors.setdefault(obj.key, NOTHING)
        self._later(obj.key, idle=self._is_periodic(obj.key))

    def _updated(
        self, old: Object[HorizontalPodAutoscaler], new: Object[HorizontalPodAutoscaler]
    ) -> None:
        if old.tree.get("spec") != new.tree.get("spec"):
            self.motions.pop(new.key, None)
        self._seen(new)

    def _deleted(self, obj: Object[HorizontalPodAutoscaler], _unknown: bool) -> None:
        self.selectors.pop(obj.key, None)
        self.memory.pop(obj.key, None)
        self.motions.pop(obj.key, None)

    def _pods_changed(self) -> None:
        """A run does not end between a change of pods and the next look at them."""
        for key in self.selectors:
            motion = self.motions.get(key)
            self._later(key, idle=motion is not None and motion.lasts(self.host.now))

    def _later(self, key: str, *, idle: bool = False) -> None:
        """There is always a next time; a run waits for it until the decisions are the same for long enough."""
        self.queue.add_after(key, PERIOD_NS, idle=idle)

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Look at one autoscaler, and again in 15 seconds; failures were reported by events."""
        obj = self._autoscalers.get(key)
        if obj is None:
            self.memory.pop(key, None)
            return
        with suppress(*Failed):
            yield from self.reconcile(obj.view)
        self._later(key, idle=self._is_periodic(key))

    def _is_periodic(self, key: str) -> bool:
        """Return whether the next turn of an autoscaler leads nowhere, as far as can be known."""
        motion, now = self.motions.get(key), self.host.now
        return motion is not None and (motion.rests(now) or motion.lasts(now))

    def _note_motion(self, turn: Turn) -> None:
        motion = self.motions.setdefault(turn.key, rules.Motion())
        motion.quiet_ns = rules.quiet_ns(turn.hpa.spec.behavior)
        status = turn.status
        conditions = [
            (each["type"], each["status"], each["reason"])
            for each in status.get("conditions") or ()
        ]
        counts = status.get("currentReplicas"), status.get("desiredReplicas")
        motion.note((counts, conditions), self.host.now)

    def reconcile(self, hpa: HorizontalPodAutoscaler) -> Reconcile[None]:
        """Scale the target as the metrics ask for; raises what went wrong, after it was reported."""
        turn = Turn(hpa, hpa.key, dict(hpa.tree.get("status") or {}))
        target = hpa.spec.scale_target_ref
        reference = f"{target.kind}/{hpa.namespace}/{target.name}"
        try:
            scale = yield from self._scale(hpa, reference)
        except Retry as error:
            about = "the HPA controller was unable to get the target's current scale"
            cause = str(error.__cause__)
            self.host.event(hpa, WARNING, "FailedGetScale", cause)
            turn.say(ABLE, False, "FailedGetScale", f"{about}: {cause}", self.host.now)
            yield from self._report(turn)
            raise
        said = "the HPA controller was able to get the target's current scale"
        turn.say(ABLE, True, "SucceededGetScale", said, self.host.now)
        memory = self.memory.setdefault(turn.key, rules.Memory())
        if not memory.recommendations:
            memory.recommendations.append(rules.Stamped(scale.replicas, self.host.now))
        yield from self._follow(turn, scale, memory, reference)

    def _follow(
        self, turn: Turn, scale: Scale, memory: rules.Memory, reference: str
    ) -> Reconcile[None]:
        """From the scale on: bounds first, then metrics."""
        spec, current = turn.hpa.spec, scale.replicas
        least = 1 if spec.min_replicas is None else spec.min_replicas
        statuses: list[Tree] | None = None
        partly: Exception | None = None
        reason = ""
        zeroed = self._zeroed(turn.hpa)
        if current == 0 and not (zeroed and (least != 0 or _is_shared(turn.hpa))):
            desired = 0
            said = "scaling is disabled since the replica count of the target is zero"
            turn.say(ACTIVE, False, "ScalingDisabled", said, self.host.now)
        elif current > spec.max_replicas:
            desired, reason = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif 0 < current < least:
            desired, reason = least, "Current number of replicas below Spec.MinReplicas"
        else:
            statuses = []
            try:
                best, name, partly = yield from self._read_all(turn, scale, statuses)
            except Retry as error:
                self._set(turn, current, turn.hpa.status.desired_replicas, statuses)
                yield from self._report(turn)
                self.host.event(turn.hpa, WARNING, "FailedComputeMetricsReplicas", str(error))
                said = "failed to compute desired number of replicas based on listed metrics for"
                raise Retry(f"{said} {reference}: {error}") from error
            desired = max(best, 0)
            if desired > current:
                reason = f"{name} above target"
            elif desired < current:
                reason = "All metrics below target"
            yield Point("hpa.normalize")
            desired = self._normalize(
                turn, memory, rules.Bounds(current, desired, least, spec.max_replicas)
            )
            if current == 0:
                desired = max(desired, least)
        rescaled = desired != current
        if rescaled:
            yield from self._rescale(turn, scale, memory, desired, reason, reference, statuses)
        self._set(turn, current, desired, statuses)
        if rescaled:
            turn.status["lastScaleTime"] = format_time(self.host.now)
        yield from self._write(turn)
        if partly is not None:
            raise partly

    def _zeroed(self, hpa: HorizontalPodAutoscaler) -> bool:
        """Return whether it was this controller that scaled to zero."""
        return self.host.features[HPA_SCALE_TO_ZERO] and any(
            each.type == ZEROED and each.status == "True" for each in hpa.status.conditions
        )

    def _normalize(self, turn: Turn, memory: rules.Memory, bounds: rules.Bounds) -> int:
        now, behavior = self.host.now, turn.hpa.spec.behavior
        if behavior is None:
            found = rules.normalize(memory, bounds, now)
        else:
            found = rules.normalize_with_rules(memory, behavior, bounds, now)
            turn.windowed = behavior.scale_down is not None
        turn.say(ABLE, True, *found.able, now)
        turn.say(LIMITED, found.limited, *found.limit, now)
        return found.replicas

    def _rescale(
        self,
        turn: Turn,
        scale: Scale,
        memory: rules.Memory,
        desired: int,
        reason: str,
        reference: str,
        statuses: list[Tree] | None,
    ) -> Reconcile[None]:
        about = f"New size: {desired}; reason: {reason}"
        current = scale.replicas
        tree = scale.tree

        def attempt() -> Reconcile[None]:
            nonlocal tree
            spec = {**(tree.get("spec") or {}), "replicas": desired}
            try:
                yield from calls.update(scale.resource, {**tree, "spec": spec}, "scale")
            except ApiError:
                metadata = scale.tree["metadata"]
                live = yield from calls.get(
                    scale.resource, metadata["namespace"], metadata["name"], "scale"
                )
                tree = live.tree
                raise

        try:
            yield from retry_on_conflict(attempt, RETRY, "hpa.conflict")
        except Failed as error:
            self.host.event(turn.hpa, WARNING, "FailedRescale", f"{about}; error: {error}")
            said = f"the HPA controller was unable to update the target scale: {error}"
            turn.say(ABLE, False, "FailedUpdateScale", said, self.host.now)
            self._set(turn, current, turn.hpa.status.desired_replicas, statuses)
            yield from self._report(turn)
            raise Retry(f"failed to rescale {reference}: {error}") from error
        said = f"the HPA controller was able to update the target scale to {desired}"
        turn.say(ABLE, True, "SucceededRescale", said, self.host.now)
        self.host.event(turn.hpa, NORMAL, "SuccessfulRescale", about)
        if not self.host.features[HPA_SCALE_TO_ZERO]:
            turn.unsay(ZEROED)
        elif desired == 0 and turn.hpa.spec.min_replicas == 0 and _is_shared(turn.hpa):
            said = "the HPA controller scaled the workload to zero"
            turn.say(ZEROED, True, "ScaledToZero", said, self.host.now)
        else:
            said = "the HPA controller did not scale the workload to zero"
            turn.say(ZEROED, False, "NotScaledToZero", said, self.host.now)
        behavior = turn.hpa.spec.behavior
        rules.store_event(memory, behavior, current, desired, self.host.now)

    def _scale(self, hpa: HorizontalPodAutoscaler, reference: str) -> Reconcile[Scale]:
        """The target's scale. Raises Retry, from what says why."""
        target = hpa.spec.scale_target_ref
        if target.api_version.count("/") > 1:
            cause = Retry(f"unexpected GroupVersion string: {target.api_version}")
            said = f"invalid API version in scale target reference: {cause}"
            raise Retry(said) from cause
        group = target.api_version.rpartition("/")[0]
        resource = SCALED.get((group, target.kind))
        if resource is None:
            cause = Retry(f'no matches for kind "{target.kind}" in group "{group}"')
            said = f"unable to determine resource for scale target reference: {cause}"
            raise Retry(said) from cause
        try:
            found = yield from calls.get(resource, hpa.namespace, target.name, "scale")
        except RequestFailed as error:
            said = f"failed to query scale subresource for {reference}: {error}"
            raise Retry(said) from error
        return Scale(resource, found.tree)

    # ------------------------------------------------------------------ status

    def _set(self, turn: Turn, current: int, desired: int, statuses: list[Tree] | None) -> None:
        kept = {
            key: value
            for key, value in turn.status.items()
            if key in {"lastScaleTime", "conditions"}
        }
        turn.status = {"desiredReplicas": desired, **kept}
        if current:
            turn.status["currentReplicas"] = current
        if statuses:
            turn.status["currentMetrics"] = statuses

    def _write(self, turn: Turn) -> Reconcile[None]:
        """Write the status if it differs. What fails is reported, and raised."""
        self._note_motion(turn)
        old = turn.hpa.tree.get("status") or {}
        if _filled(old) == _filled(turn.status):
            return
        try:
            yield from calls.update(AUTOSCALERS, turn.tree(), "status")
        except RequestFailed as error:
            self.host.event(turn.hpa, WARNING, "FailedUpdateStatus", str(error))
            raise Retry(f"failed to update status for {turn.hpa.name}: {error}") from error

    def _report(self, turn: Turn) -> Reconcile[None]:
        """Write the status where something else went wrong already, which is what will be raised."""
        try:
            yield from self._write(turn)
        except Retry:
            return

    # ------------------------------------------------------------------ metrics

    def _read_all(
        self, turn: Turn, scale: Scale, statuses: list[Tree]
    ) -> Reconcile[tuple[int, str, Exception | None]]:
        """The most that a metric asks for, its name, and what was wrong with others.

        Raises Retry when none could be read, or when one could not and the others ask for less than there is.
        """
        selector = self._select(turn, scale.selector)
        replicas, name = 0, ""
        specs = turn.hpa.spec.metrics
        statuses += [{"type": ""} for _ in specs]
        invalid: list[Invalid] = []
        for at, spec in enumerate(specs):
            try:
                read = yield from self.readings.read(turn.hpa, spec, scale, selector)
            except Invalid as error:
                invalid.append(error)
                continue
            statuses[at] = read.status
            if replicas == 0 or read.proposal.replicas > replicas:
                replicas, name = read.proposal.replicas, read.name
        partly: Retry | None = None
        if invalid:
            count = f"({len(invalid)} invalid out of {len(specs)})"
            partly = Retry(f"invalid metrics {count}, first error is: {invalid[0]}")
            if len(invalid) >= len(specs) or replicas < scale.replicas:
                turn.say(ACTIVE, False, invalid[0].reason, invalid[0].said, self.host.now)
                raise partly
        said = f"the HPA was able to successfully calculate a replica count from {name}"
        turn.say(ACTIVE, True, "ValidMetricFound", said, self.host.now)
        return replicas, name, partly

    def _select(self, turn: Turn, text: str) -> Selector:
        """The target's selector, if no other autoscaler has the same pods. Raises Retry."""
        hpa = turn.hpa
        if not text:
            said = "the HPA target's scale is missing a selector"
            self._refuse(turn, "SelectorRequired", "selector is required", "InvalidSelector", said)
        try:
            selector = parse(text)
        except SelectorError as error:
            said = (
                f"couldn't convert selector into a corresponding internal selector object: {error}"
            )
            self._refuse(turn, "InvalidSelector", said, "InvalidSelector", said)
        if turn.key in self.selectors:
            self.selectors[turn.key] = selector
        selected = self.readings.selected(hpa.namespace, selector)
        rivals = [
            key
            for key, other in self.selectors.items()
            if key.partition("/")[0] == hpa.namespace
            and any(other.matches(pod.labels) for pod in selected)
        ]
        if len(rivals) > 1:
            shown = " ".join(f"{{{key.partition('/')[2]} {hpa.namespace}}}" for key in rivals)
            said = f"pods by selector {text} are controlled by multiple HPAs: [{shown}]"
            self._refuse(turn, "AmbiguousSelector", said, "AmbiguousSelector", said)
        return selector

    def _refuse(self, turn: Turn, event: str, message: str, reason: str, said: str) -> None:
        self.host.event(turn.hpa, WARNING, event, message)
        turn.say(ACTIVE, False, reason, said, self.host.now)
        raise Retry(message)


def _is_shared(hpa: HorizontalPodAutoscaler) -> bool:
    """Return whether some metric is there without pods."""
    return any(metric.type in {"Object", "External"} for metric in hpa.spec.metrics)


def _filled(status: Tree) -> Tree:
    """The status without what is empty, for comparing."""
    return {key: value for key, value in status.items() if value not in (None, [], 0, "")}
