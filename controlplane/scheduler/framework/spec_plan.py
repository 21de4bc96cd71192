"""What pods of one template share in PreFilter and PreScore.

Such pods have one spec object. A plugin that says its answer follows from the spec alone is asked
once per spec; its Skip and its data are then taken over into the state of every other such pod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from controlplane.api.recent import KEPT
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import Code, Status

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

P = TypeVar("P")


class SpecPlan(Generic[P]):
    """The answers that are known, and the plugins that have to be asked in every cycle."""

    __slots__ = ("asked", "data", "skipped", "spec")

    def __init__(self, spec: object) -> None:
        self.spec = spec
        self.skipped: list[str] = []
        self.data: dict[str, Any] = {}
        self.asked: list[P] = []


class SpecPlans(Generic[P]):
    """Plans of one extension point for the specs seen last.

    Args:
        plugins: of the extension point, in order.
        applies: whether a plugin's answer about a pod follows from the pod's spec alone.
        ask: asks a plugin; None for an answer that has to be given in its turn (a rejection, a
            restriction to some nodes), else whether it is no Skip.
    """

    def __init__(
        self,
        plugins: Sequence[P],
        applies: Callable[[P, Pod], bool],
        ask: Callable[[P, CycleState, Pod], bool | None],
    ) -> None:
        self._plugins = plugins
        self._applies = applies
        self._ask = ask
        self._known: dict[int, SpecPlan[P]] = {}

    def of(self, pod: Pod) -> SpecPlan[P]:
        """The plan for pods with this pod's spec."""
        spec = pod.spec
        found = self._known.get(id(spec))
        if found is not None:
            return found
        plan = SpecPlan[P](spec)
        for plugin in self._plugins:
            state = CycleState()
            said = self._ask(plugin, state, pod) if self._applies(plugin, pod) else None
            if said is None:
                plan.asked.append(plugin)
                continue
            plan.data.update(state.data)
            if not said:
                plan.skipped.append(getattr(plugin, "name", ""))
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[id(spec)] = plan
        return plan


def plain(status: Status | None) -> bool | None:
    """True for success, False for Skip, None for anything that has to be said in its turn."""
    if status is None:
        return True
    return False if status.code == Code.SKIP else None
