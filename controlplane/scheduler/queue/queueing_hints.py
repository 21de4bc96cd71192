"""Queueing hints: the events that may make a rejected pod schedulable.

Upstream: `isEventOfInterest` and `isPodWorthRequeuing` of `pkg/scheduler/backend/queue/scheduling_queue.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from controlplane.api.pod import Pod
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo

HintsOfEvent = tuple[ev.ClusterEvent, list[tuple[str, ev.HintFn | None]]]
HintMap = Sequence[HintsOfEvent]
"""Registered event patterns of one profile, each with (plugin, hint function)."""


class Strategy(IntEnum):
    """The urgency of another attempt after an event. Upstream: queueingStrategy."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class QueueingHints:
    """Events that plugins registered, by profile, and their hint functions.

    Without `enabled` (feature gate SchedulerQueueingHints) only the registration of an event counts.
    """

    def __init__(self, hint_maps: Mapping[str, HintMap], *, enabled: bool) -> None:
        self.enabled = enabled
        self._hint_maps = dict(hint_maps)
        self._plugin_events: dict[str, list[ev.ClusterEvent]] = {}
        for hint_map in self._hint_maps.values():
            for event, hints in hint_map:
                for plugin, _ in hints:
                    self._plugin_events.setdefault(plugin, []).append(event)
        # Hints are fixed once the profiles are built, so the answers by event are kept.
        self._matching: dict[tuple[str, ev.ClusterEvent], list[tuple[str, ev.HintFn | None]]] = {}
        self._interesting: dict[ev.ClusterEvent, bool] = {}
        self._waking: dict[ev.ClusterEvent, dict[str, None]] = {}

    def events_of(self, plugin: str) -> tuple[ev.ClusterEvent, ...]:
        """Return the events that a plugin registered, in any profile."""
        return tuple(self._plugin_events.get(plugin, ()))

    def is_interesting(self, event: ev.ClusterEvent) -> bool:
        """Return whether any plugin registered for the event (a wildcard is always of interest)."""
        if event.is_wildcard:
            return True
        known = self._interesting.get(event)
        if known is None:
            known = self._interesting[event] = any(
                pattern.matches(event)
                for hint_map in self._hint_maps.values()
                for pattern, _ in hint_map
            )
        return known

    def interested(self, event: ev.ClusterEvent) -> dict[str, None] | None:
        """Return the plugins of any profile that registered for the event; None: it concerns every plugin."""
        if event.is_wildcard:
            return None
        found = self._waking.get(event)
        if found is None:
            found = self._waking[event] = {
                plugin: None
                for profile in self._hint_maps
                for plugin, _ in self._hints_for(profile, event)
            }
        return found

    def worth_requeuing(
        self, info: QueuedPodInfo, event: ev.ClusterEvent, old: Any, new: Any
    ) -> Strategy:
        """Ask the hints of the plugins that rejected the pod.

        A plugin on which the pod waits in Permit ("pending") asks for another attempt at once: the answer is
        final. Without such plugins the first hint that says Queue ends the search.
        """
        if not info.has_rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            if new is None:
                return Strategy.AFTER_BACKOFF
            same = isinstance(new, Pod) and new.uid == info.uid
            return Strategy.AFTER_BACKOFF if same else Strategy.SKIP
        profile = info.pod.spec.scheduler_name
        if profile not in self._hint_maps:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        unschedulable, pending = info.unschedulable_plugins, info.pending_plugins
        for plugin, hint in self._hints_for(profile, event):
            if plugin not in unschedulable and plugin not in pending:
                continue
            if hint is not None:
                try:
                    if hint(info.pod, old, new) == ev.Hint.SKIP:
                        continue
                except ev.HintError:
                    pass  # counts as Queue
            if plugin in pending:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not pending:
                return strategy
        return strategy

    def _hints_for(
        self, profile: str, event: ev.ClusterEvent
    ) -> list[tuple[str, ev.HintFn | None]]:
        key = (profile, event)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = [
                (plugin, hint if self.enabled else None)
                for pattern, hints in self._hint_maps[profile]
                if pattern.matches(event)
                for plugin, hint in hints
            ]
        return found
