"""The wait of a binding cycle for the binding conditions of devices.

Point: `scheduler.prebind.conditions` before binding conditions are looked at. Upstream: PreBind of
plugins/dynamicresources/dynamicresources.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.decisions import Point, Sleep
from controlplane.scheduler.dra import conditions
from controlplane.scheduler.dra.claims import ClaimError
from controlplane.scheduler.dra.metrics import ERROR, FAILURE, SUCCESS, TIMEOUT
from controlplane.scheduler.dra.requests import claim_name
from controlplane.scheduler.framework.interface import Status, error
from controlplane.scheduler.framework.writes import EventIntent

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.dra.manager import DRAManager
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.plugins.claim_cycle import CycleData

__all__ = ["POLL", "DeviceWait"]

POLL: Final = 5_000_000_000
_CONDITIONS: Final = Point("scheduler.prebind.conditions")


class _TooLate(Exception):
    """The devices were not ready in time. The text is upstream's."""


class DeviceWait:
    """Waits until the devices of a pod's claims are ready, at most for `timeout` nanoseconds."""

    def __init__(self, dra: DRAManager, handle: Handle, timeout: int) -> None:
        self._dra = dra
        self._handle = handle
        self._timeout = timeout

    def run(self, data: CycleData, pod: Pod, node: str) -> Effects[Status | None]:
        """Look every five seconds whether all binding conditions hold."""
        note = f"waiting for binding conditions for device on node {node}"
        self._handle.record(
            EventIntent(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        )
        begun, status, result = self._handle.clock(), SUCCESS, None
        try:
            yield from self._wait(data, begun + self._timeout)
        except conditions.BindingFailed as failed:
            status, result = FAILURE, error(str(failed))
        except _TooLate as late:
            status, result = TIMEOUT, error(str(late))
        except ClaimError as failed:
            status, result = ERROR, error(str(failed))
        took = self._handle.clock() - begun
        self._dra.metrics.waited(pod.spec.scheduler_name, data.claims, status, took)
        return result

    def _wait(self, data: CycleData, end: int) -> Effects[None]:
        while True:
            yield _CONDITIONS
            if self._are_ready(data):
                return
            left = end - self._handle.clock()
            yield Sleep(max(0, min(POLL, left)), point="scheduler.prebind.poll")
            if self._handle.clock() >= end:
                raise _TooLate("device binding timeout: context deadline exceeded")

    def _are_ready(self, data: CycleData) -> bool:
        """Read the claims anew; return whether the devices of all are ready. BindingFailed, ClaimError, _TooLate."""
        for index, known in enumerate(data.claims):
            meta = known["metadata"]
            claim = self._dra.tracker.find(meta.get("namespace", ""), meta.get("name", ""))
            if claim is None:
                raise ClaimError(f'could not find resource claim "{claim_name(known)}"')
            data.claims[index] = claim
            if not conditions.is_ready(claim):
                if conditions.is_overdue(claim, self._timeout, self._handle.clock()):
                    raise _TooLate(f"device binding timeout: claim={meta.get('name', '')}")
                return False
        return True
