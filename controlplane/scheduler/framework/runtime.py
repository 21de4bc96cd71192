"""Runs the plugins of one profile, with upstream's rules about their statuses.

Upstream: `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import attrs
import numpy as np

from controlplane.api.resize_policy import resize_waits
from controlplane.decisions import Point
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework import signers
from controlplane.scheduler.framework.batch import Batch
from controlplane.scheduler.framework.column_forms import FilterForm, Rows, ScoreForm, verdict
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.deferred_resize import IN_TREE, KEPT
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Code, Status, StatusError
from controlplane.scheduler.framework.names import NODE_NAME
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.framework.placements import (
    PlacementGeneratePlugin,
    PlacementScorePlugin,
)
from controlplane.scheduler.framework.spec_plan import SpecPlans

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

_PRE_FILTER: Final = Point("scheduler.cycle.pre-filter")


@attrs.frozen
class PreFilterOutcome:
    """The combined answer of all PreFilters."""

    node_names: Mapping[str, None] | None
    """Nodes to look at, None for all."""
    status: Status | None
    restricting: dict[str, None]
    """Plugins that restricted the nodes."""


@attrs.define
class PluginSet:
    """Plugin instances per extension point, in order."""

    pre_enqueue: list[fwk.PreEnqueuePlugin] = attrs.Factory(list)
    queue_sort: list[fwk.QueueSortPlugin] = attrs.Factory(list)
    pre_filter: list[fwk.PreFilterPlugin] = attrs.Factory(list)
    filter: list[fwk.FilterPlugin] = attrs.Factory(list)
    post_filter: list[fwk.PostFilterPlugin] = attrs.Factory(list)
    pre_score: list[fwk.PreScorePlugin] = attrs.Factory(list)
    score: list[fwk.ScorePlugin] = attrs.Factory(list)
    reserve: list[fwk.ReservePlugin] = attrs.Factory(list)
    permit: list[fwk.PermitPlugin] = attrs.Factory(list)
    pre_bind: list[fwk.PreBindPlugin] = attrs.Factory(list)
    bind: list[fwk.BindPlugin] = attrs.Factory(list)
    post_bind: list[fwk.PostBindPlugin] = attrs.Factory(list)
    placement_generate: list[PlacementGeneratePlugin] = attrs.Factory(list)
    placement_score: list[PlacementScorePlugin] = attrs.Factory(list)

    def add(self, point: str, plugin: fwk.Plugin) -> None:
        """Append a plugin to an extension point, named as in a configuration.

        Raises ValueError when it does not implement that point.
        """
        base = EXTENSION_POINTS.get(point)
        if base is None or not isinstance(plugin, base):
            raise ValueError(f"plugin {plugin.name!r} does not extend {point} plugin")
        getattr(self, _FIELDS[point]).append(plugin)


EXTENSION_POINTS: Mapping[str, type[fwk.Plugin]] = {
    **fwk.EXTENSION_POINTS,
    "placementGenerate": PlacementGeneratePlugin,
    "placementScore": PlacementScorePlugin,
}
"""Extension points by their names in a configuration."""

_FIELDS = {
    point: re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", point)
    for point in EXTENSION_POINTS
}
"""An extension point's field in a set: "preFilter" is "pre_filter"."""
HintsOfEvents = list[tuple[ev.ClusterEvent, list[tuple[str, ev.HintFn | None]]]]
"""Registered events with (plugin, hint) each."""


class Framework:
    """One profile: its plugins, their weights and how to run them."""

    def __init__(
        self,
        profile: str,
        handle: Handle,
        plugins: PluginSet,
        *,
        all_plugins: Sequence[fwk.Plugin] = (),
        weights: Mapping[str, int] | None = None,
        placement_weights: Mapping[str, int] | None = None,
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        self.profile = profile
        self.handle = handle
        self.plugins = plugins
        self.all_plugins = tuple(all_plugins)
        self.weights = dict(weights or {})
        self.placement_weights = dict(placement_weights or {})
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.batch = Batch()
        self._classes_seen = 0
        self._queueing_hints: HintsOfEvents | None = None
        points: tuple[Sequence[fwk.Plugin], ...] = (
            plugins.pre_filter,
            plugins.filter,
            plugins.pre_score,
            plugins.score,
        )
        signing = {plugin.name: plugin for point in points for plugin in point}
        self._extensions = [
            plugin for plugin in plugins.pre_filter if isinstance(plugin, fwk.PreFilterExtensions)
        ]
        self.filter_forms = [FilterForm.of(plugin) for plugin in plugins.filter]
        self.score_forms = [
            ScoreForm.of(plugin, self.weights.get(plugin.name, 1)) for plugin in plugins.score
        ]
        self._resizes = handle.preempts_for_resizes
        self._not_for_resizes = [
            plugin.name
            for plugin in (*plugins.pre_filter, *plugins.filter)
            if plugin.name in IN_TREE and plugin.name not in KEPT
        ]
        self._beyond_spec = [f.plugin.name for f in self.filter_forms if not f.follows_spec]
        self._pre_filter_plans = SpecPlans(
            plugins.pre_filter,
            lambda plugin, pod: plugin.pre_filter_by_spec(pod),
            lambda plugin, state, pod: plugin.pre_filter(state, pod, ()),
        )
        nowhere = Rows([], np.zeros(0, np.int64))
        self._pre_score_plans = SpecPlans(
            plugins.pre_score,
            lambda plugin, pod: plugin.pre_score_by_spec(pod),
            lambda plugin, state, pod: (None, plugin.pre_score(state, pod, nowhere)),
        )
        self._signers = list(signing.values())
        self._signs_no_pod = any(
            plugin.signs_no_pod or type(plugin).sign_pod is fwk.Plugin.sign_pod
            for plugin in self._signers
        )

    def _forget_plans(self) -> None:
        """Which plugins follow the spec alone depends on the resources that device classes give."""
        self._classes_seen = self.handle.dra.extended.revision
        self._pre_filter_plans.forget()
        self._pre_score_plans.forget()

    # -- queue ---------------------------------------------------------------------------------

    def queueing_hints(self) -> HintsOfEvents:
        """Registered events with (plugin, hint) each, in order of registration.

        Gate 122292 (issues 109437, 110175). Without hints a new node wakes only pods that could run
        on it as it is. Unfixed, a pod of which the node's taint made that impossible hears nothing
        when the taint goes, unless its own plugin registered that. Fixed, a plugin that registered
        Node/Add but not UpdateNodeTaint also gets UpdateNodeTaint with an always-Queue hint.
        """
        if self._queueing_hints is None:
            self._queueing_hints = self._collect_hints()
        return self._queueing_hints

    def _collect_hints(self) -> HintsOfEvents:
        taints = self.handle.fixes.fixed("122292")
        out: dict[ev.ClusterEvent, list[tuple[str, ev.HintFn | None]]] = {}
        for plugin in self.all_plugins:
            added = tainted = False
            for registration in _registrations(plugin):
                event = registration.event
                if event.resource == ev.NODE:
                    added = added or event.action & ev.ADD != 0
                    tainted = tainted or event.action & ev.UPDATE_NODE_TAINT != 0
                out.setdefault(event, []).append((plugin.name, registration.hint))
            if added and not tainted and taints:
                event = ev.event_of(ev.NODE, ev.UPDATE_NODE_TAINT)
                hint = _of_own_node if self._resizes else None
                out.setdefault(event, []).append((plugin.name, hint))
        return list(out.items())

    def sign_pod(self, pod: Pod) -> str | None:
        """Return the text in which pods must agree to share scheduling results; None when this pod cannot share."""
        if self._signs_no_pod:
            return None
        fragments = {signers.SCHEDULER_NAME: signers.text(pod.spec.scheduler_name)}
        for plugin in self._signers:
            signed = plugin.sign_pod(pod)
            if signed is None or isinstance(signed, Status):
                return None
            fragments.update(signed)
        return signers.signature(fragments)

    # -- filters -------------------------------------------------------------------------------

    def run_pre_filter(self, state: CycleState, pod: Pod) -> Effects[PreFilterOutcome]:
        """Run every PreFilter; a plain Unschedulable does not stop the others.

        Listers may move on between plugins that read them.
        """
        merged: Mapping[str, None] | None = None
        restricting: dict[str, None] = {}
        asked: Sequence[fwk.PreFilterPlugin]
        if self._resizes and resize_waits(pod):
            # Its node is given: only there, and only for what a resize can change.
            merged, restricting = {pod.spec.node_name: None}, {NODE_NAME: None}
            skipped = state.skip_filter = set(self._not_for_resizes)
            asked = [each for each in self.plugins.pre_filter if each.name not in skipped]
            return (
                yield from self._ask_pre_filters(state, pod, asked, skipped, merged, restricting)
            )
        if self._classes_seen != self.handle.dra.extended.revision:
            self._forget_plans()
        plan = self._pre_filter_plans.of(pod)
        state.data.update(plan.data)
        skipped = set(plan.skipped)
        state.skip_filter = skipped
        for name, known in plan.results:
            if known.node_names is not None:
                merged = _intersection(merged, known.node_names)
                restricting[name] = None
                if not merged:
                    state.pre_filter_end = name
                    return PreFilterOutcome(merged, _empty_intersection(restricting), restricting)
        return (
            yield from self._ask_pre_filters(state, pod, plan.asked, skipped, merged, restricting)
        )

    def _ask_pre_filters(
        self,
        state: CycleState,
        pod: Pod,
        asked: Sequence[fwk.PreFilterPlugin],
        skipped: set[str],
        merged: Mapping[str, None] | None,
        restricting: dict[str, None],
    ) -> Effects[PreFilterOutcome]:
        nodes = self.handle.snapshot.node_info_list
        rejected: Status | None = None
        read = False
        for plugin in asked:
            if plugin.reads or plugin.custom:
                if read:
                    yield _PRE_FILTER
                read = True
            if isinstance(plugin, fwk.SteppedPreFilterPlugin):
                result, status = yield from plugin.pre_filter_steps(state, pod, nodes)
            else:
                result, status = plugin.pre_filter(state, pod, nodes)
            if status is not None:
                if status.code == Code.SKIP:
                    skipped.add(plugin.name)
                    continue
                status = status.by(plugin.name)
                if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    state.pre_filter_end = plugin.name
                    return PreFilterOutcome(None, status, {})
                if status.code == Code.UNSCHEDULABLE:
                    rejected = status
                    continue
                failed = fwk.error(f'running PreFilter plugin "{plugin.name}": {status.message}')
                return PreFilterOutcome(None, failed.by(plugin.name), {})
            if result is None or result.node_names is None:
                continue
            restricting[plugin.name] = None
            merged = _intersection(merged, result.node_names)
            if not merged:
                state.pre_filter_end = plugin.name
                return PreFilterOutcome(merged, _empty_intersection(restricting), restricting)
        return PreFilterOutcome(merged, rejected, restricting)

    def ended_before(self, state: CycleState, name: str) -> bool:
        """Return whether a PreFilter refused the pod before the one of this name was asked."""
        end = state.pre_filter_end
        if not end or end == name:
            return False
        order = [plugin.name for plugin in self.plugins.pre_filter]
        return name not in order or order.index(end) < order.index(name)

    def keeps_track(self, state: CycleState) -> bool:
        """Return whether a PreFilter of this cycle follows pods that are added to or removed from nodes."""
        return any(plugin.name not in state.skip_filter for plugin in self._extensions)

    def follow_spec(self, state: CycleState) -> bool:
        """Return whether the answers of the filters of this cycle follow from the pod's spec and the node alone."""
        skipped = state.skip_filter
        return all(name in skipped for name in self._beyond_spec)

    def run_add_pod(
        self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Tell the PreFilters that a pod was put on a node."""
        for plugin in self._extensions:
            if plugin.name not in state.skip_filter:
                status = plugin.add_pod(state, pod, added, node)
                if status is not None:
                    return _running("AddPod on PreFilter", plugin.name, status)
        return None

    def run_remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Tell the PreFilters that a pod was taken off a node."""
        for plugin in self._extensions:
            if plugin.name not in state.skip_filter:
                status = plugin.remove_pod(state, pod, removed, node)
                if status is not None:
                    return _running("RemovePod on PreFilter", plugin.name, status)
        return None

    def run_filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Ask the filters in order; the first that refuses decides."""
        skipped = state.skip_filter
        for plugin in self.plugins.filter:
            if plugin.name in skipped:
                continue
            status = plugin.filter(state, pod, node)
            if status is not None:
                return verdict(plugin.name, status)
        return None

    def run_filter_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """Filter with pods nominated to the node counted in, then also without them.

        Both must pass: nominated pods may go elsewhere, and affinity may need or forbid them.
        """
        nominated = self.handle.nominated_pods(node.name)
        if nominated:
            priority = pod.spec.priority or 0
            others = [
                info
                for info in nominated
                if (info.pod.spec.priority or 0) >= priority and info.pod.uid != pod.uid
            ]
            if others:
                with_node, with_state = node.clone(), state.clone()
                for info in others:
                    with_node.add_pod(info)
                    status = self.run_add_pod(with_state, pod, info, with_node)
                    if status is not None:
                        return status
                status = self.run_filter(with_state, pod, with_node)
                if status is not None:
                    return status
        return self.run_filter(state, pod, node)

    def run_post_filter(
        self, state: CycleState, pod: Pod, statuses: fwk.NodeToStatus
    ) -> Effects[tuple[fwk.PostFilterResult | None, Status | None]]:
        """Let plugins help an unschedulable pod; the first that did something ends it."""
        if state.skip_post_filters:
            return None, fwk.unschedulable("All PostFilter plugins are skipped")
        last: fwk.PostFilterResult | None = None
        reasons: list[str] = []
        rejector = ""
        for plugin in self.plugins.post_filter:
            if isinstance(plugin, fwk.CallingPostFilterPlugin):
                result, status = yield from plugin.post_filter_calls(state, pod, statuses, self)
            else:
                result, status = plugin.post_filter(state, pod, statuses, self)
            if status is None:
                return result, None
            if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result, status.by(plugin.name)
            if not status.is_rejected:
                return None, fwk.error(status.message).by(plugin.name)
            if result is not None and result.nominating is not None and result.nominating.override:
                last = result
            reasons.extend(status.reasons)
            rejector = rejector or plugin.name
        return last, Status(Code.UNSCHEDULABLE, tuple(reasons), rejector)

    # -- scores --------------------------------------------------------------------------------

    def run_pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """Run every PreScore; a status other than Skip ends the cycle."""
        plan = self._pre_score_plans.of(pod)
        state.data.update(plan.data)
        skipped = set(plan.skipped)
        state.skip_score = skipped
        for plugin in plan.asked:
            status = plugin.pre_score(state, pod, nodes)
            if status is None:
                continue
            if status.code == Code.SKIP:
                skipped.add(plugin.name)
                continue
            message = f'running PreScore plugin "{plugin.name}": {status.message}'
            return fwk.error(message).by(plugin.name)
        return None

    # -- after the choice ----------------------------------------------------------------------

    def run_reserve(self, state: CycleState, pod: Pod, node: str) -> Status | None:
        """Reserve with every plugin; the caller unreserves when one fails."""
        for plugin in self.plugins.reserve:
            status = plugin.reserve(state, pod, node)
            if status is not None:
                if status.is_rejected:
                    return status.by(plugin.name)
                message = f'running Reserve plugin "{plugin.name}": {status.message}'
                return fwk.error(message).by(plugin.name)
        return None

    def run_unreserve(self, state: CycleState, pod: Pod, node: str) -> Effects[None]:
        """Unreserve with every plugin, in reverse order."""
        for plugin in reversed(self.plugins.reserve):
            if isinstance(plugin, fwk.CallingReservePlugin):
                yield from plugin.unreserve_calls(state, pod, node)
            else:
                plugin.unreserve(state, pod, node)

    def run_permit(
        self, state: CycleState, pod: Pod, node: str
    ) -> tuple[Status | None, dict[str, int]]:
        """A status (WAIT: the pod has to wait) and the timeout of every plugin that waits."""
        waits: dict[str, int] = {}
        reasons: tuple[str, ...] = ()
        for plugin in self.plugins.permit:
            status, timeout = plugin.permit(state, pod, node)
            if status is None:
                continue
            if status.is_rejected:
                return status.by(plugin.name), {}
            if status.code == Code.WAIT:
                waits[plugin.name] = min(timeout, MAX_PERMIT_TIMEOUT)
                reasons = status.reasons
                continue
            message = f'running Permit plugin "{plugin.name}": {status.message}'
            return fwk.error(message).by(plugin.name), {}
        if waits:
            message = "one or more plugins asked to wait and no plugin rejected pod"
            return Status(Code.WAIT, (*reasons, message)), waits
        return None, {}

    def run_pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node: str
    ) -> tuple[Status | None, bool]:
        """A failure if any, and whether some PreBind plugin has something to do."""
        skipped: set[str] = set()
        state.skip_pre_bind = skipped
        busy = False
        for plugin in self.plugins.pre_bind:
            status = plugin.pre_bind_pre_flight(state, pod, node)
            if status is None:
                busy = True
            elif status.code == Code.SKIP:
                skipped.add(plugin.name)
            else:
                message = f'running PreBindPreFlight "{plugin.name}": {status.message}'
                return fwk.error(message).by(plugin.name), busy
        return None, busy

    def run_pre_bind(
        self, state: CycleState, pod: Pod, node: str
    ) -> list[tuple[str, fwk.ApiWrite]]:
        """Writes to make before binding, with the plugin that wants them. Raises StatusError."""
        writes: list[tuple[str, fwk.ApiWrite]] = []
        for plugin in self.plugins.pre_bind:
            if plugin.name in state.skip_pre_bind or isinstance(plugin, fwk.CallingPreBindPlugin):
                continue
            try:
                writes.extend((plugin.name, w) for w in plugin.pre_bind(state, pod, node))
            except StatusError as failed:
                status = failed.status
                if status.is_rejected:
                    raise StatusError(status.by(plugin.name)) from failed
                message = f'running PreBind plugin "{plugin.name}": {status.message}'
                raise StatusError(fwk.error(message).by(plugin.name)) from failed
        return writes

    def run_pre_bind_calls(self, state: CycleState, pod: Pod, node: str) -> Effects[Status | None]:
        """Let those PreBind plugins work that make requests of their own; the first failure."""
        for plugin in self.plugins.pre_bind:
            if plugin.name in state.skip_pre_bind or not isinstance(
                plugin, fwk.CallingPreBindPlugin
            ):
                continue
            status = yield from plugin.pre_bind_calls(state, pod, node)
            if status is None:
                continue
            if status.is_rejected:
                return status.by(plugin.name)
            message = f'running PreBind plugin "{plugin.name}": {status.message}'
            return fwk.error(message).by(plugin.name)
        return None

    def run_bind(self, state: CycleState, pod: Pod, node: str) -> fwk.ApiWrite | None:
        """The write of the first plugin that binds the pod; None when none does."""
        for plugin in self.plugins.bind:
            write = plugin.bind(state, pod, node)
            if write is not None:
                return write
        return None

    def run_post_bind(self, state: CycleState, pod: Pod, node: str) -> None:
        """Tell every PostBind plugin."""
        for plugin in self.plugins.post_bind:
            plugin.post_bind(state, pod, node)


MAX_PERMIT_TIMEOUT = 15 * 60 * 1_000_000_000


def check_scores(plugin: str, scores: Sequence[int]) -> None:
    """Raise StatusError when a score is out of range."""
    for score in scores:
        if not fwk.MIN_NODE_SCORE <= score <= fwk.MAX_NODE_SCORE:
            message = (
                f'plugin "{plugin}" returns an invalid score {score}, it should in the range of '
                f"[{fwk.MIN_NODE_SCORE}, {fwk.MAX_NODE_SCORE}] after normalizing"
            )
            raise StatusError(fwk.error(message).by(plugin))


def normalize_failed(plugin: str, status: Status) -> NoReturn:
    """Raise what a failed normaliser ends the cycle with."""
    message = f'plugin "{plugin}" failed with: {status.message}'
    raise StatusError(fwk.error(message).by(plugin))


def nominating_of(result: fwk.PostFilterResult | None) -> NominatingInfo | None:
    """The nomination in a PostFilter's result."""
    return None if result is None else result.nominating


def _intersection(one: Mapping[str, None] | None, other: Mapping[str, None]) -> Mapping[str, None]:
    return other if one is None else {name: None for name in one if name in other}


def _of_own_node(pod: Pod, _old: Node | None, new: Node) -> ev.Hint:
    """A pod whose resize waits profits from no other node than its own."""
    own = pod.spec.node_name
    return ev.Hint.QUEUE if not own or own == new.name else ev.Hint.SKIP


def _registrations(plugin: fwk.Plugin) -> list[ev.ClusterEventWithHint]:
    if isinstance(plugin, fwk.EnqueueExtensions):
        return plugin.events_to_register()
    rejects = (
        fwk.PreEnqueuePlugin,
        fwk.PreFilterPlugin,
        fwk.FilterPlugin,
        fwk.ReservePlugin,
        fwk.PermitPlugin,
    )
    if isinstance(plugin, rejects):
        return [
            ev.ClusterEventWithHint(ev.event_of(resource, ev.ALL)) for resource in ev.ALL_RESOURCES
        ]
    return []


def _empty_intersection(restricting: Mapping[str, None]) -> Status:
    plugins = sorted(restricting)
    if len(plugins) == 1:
        return fwk.unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}")
    listed = " ".join(plugins)
    return fwk.unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously")


def _running(what: str, plugin: str, status: Status) -> Status:
    return fwk.error(f'running {what} plugin "{plugin}": {status.message}').by(plugin)
