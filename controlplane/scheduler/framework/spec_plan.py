"""Results of PreFilter and PreScore that pods of one template share.

Such pods have one spec object. A plugin that says its answer follows from the spec alone is asked
once per spec; its Skip and its data are then taken over into the state of every other such pod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.status import Code, Status
from controlplane.sharing.memory import IdentityCache

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.interface import Plugin

P = TypeVar("P", bound="Plugin")


class SpecPlan(Generic[P]):
    """The answers that are known, and the plugins that have to be asked in every cycle."""

    __slots__ = ("asked", "data", "results", "skipped")

    def __init__(self) -> None:
        self.skipped: list[str] = []
        self.data: dict[str, Any] = {}
        self.results: list[tuple[str, Any]] = []
        """Results of plugins besides their status, with the plugins' names."""
        self.asked: list[P] = []


class SpecPlans(Generic[P]):
    """Plans of one extension point for the specs seen last.

    Args:
        plugins: of the extension point, in order.
        applies: whether a plugin's answer about a pod follows from the pod's spec alone.
        ask: asks a plugin; its status, and what it said besides.
    """

    def __init__(
        self,
        plugins: Sequence[P],
        applies: Callable[[P, Pod], bool],
        ask: Callable[[P, CycleState, Pod], tuple[Any, Status | None]],
    ) -> None:
        self._plugins = plugins
        self._applies = applies
        self._ask = ask
        self._known: IdentityCache[SpecPlan[P]] = IdentityCache("what plugins do for a pod's spec")

    def forget(self) -> None:
        """Drop all plans: what they were made from has changed."""
        self._known = IdentityCache("what plugins do for a pod's spec")

    def of(self, pod: Pod) -> SpecPlan[P]:
        """The plan for pods with this pod's spec."""
        spec = pod.spec
        found = self._known.get(spec)
        if found is not None:
            return found
        plan = SpecPlan[P]()
        for plugin in self._plugins:
            if not self._applies(plugin, pod):
                plan.asked.append(plugin)
                continue
            state = CycleState()
            result, status = self._ask(plugin, state, pod)
            if status is not None and status.code != Code.SKIP:
                # A rejection has to be heard in its turn.
                plan.asked.append(plugin)
                continue
            plan.data.update(state.data)
            name = plugin.name
            if status is not None:
                plan.skipped.append(name)
            elif result is not None:
                plan.results.append((name, result))
        return self._known.put(spec, plan)
