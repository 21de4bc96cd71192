"""Metrics of the snapshot controller. Upstream: external-snapshotter pkg/metrics.

An operation begins when its object is first seen in need of it, and is only counted once it succeeded;
failed attempts are not. What is under way is lost with the process.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from attrs import define, field

UNKNOWN: Final = "unknown"
SUCCESS: Final = "success"
CANCEL: Final = "cancel"
DYNAMIC: Final = "dynamic"
STATIC: Final = "pre-provisioned"

CREATE: Final = "CreateSnapshot"
CREATE_AND_READY: Final = "CreateSnapshotAndReady"
DELETE: Final = "DeleteSnapshot"
CREATE_GROUP: Final = "CreateGroupSnapshot"
CREATE_GROUP_AND_READY: Final = "CreateGroupSnapshotAndReady"
DELETE_GROUP: Final = "DeleteGroupSnapshot"
_CANCELLED_BY_DELETE: Final = (CREATE, CREATE_AND_READY)


class Series(NamedTuple):
    """The labels of one histogram."""

    driver_name: str
    operation_name: str
    snapshot_type: str
    operation_status: str


class _Begun(NamedTuple):
    driver: str
    snapshot_type: str
    at_ns: int


@define
class Metrics:
    """Operations under way by (name, uid), and how long (ns) finished ones took."""

    durations: dict[Series, list[int]] = field(factory=dict)
    held: bool = False
    """The mutex is held by a task that asks for it again (#581): no task gets it any more."""
    _under_way: dict[tuple[str, str], _Begun] = field(factory=dict)

    @property
    def in_flight(self) -> int:
        """Return the number of operations under way."""
        return len(self._under_way)

    def begin(self, operation: str, uid: str, driver: str, snapshot_type: str, now: int) -> None:
        """An operation is seen; the first time counts."""
        self._under_way.setdefault((operation, uid), _Begun(driver, snapshot_type, now))

    def cancels(self, operation: str, uid: str) -> bool:
        """Return whether success of an operation cancels others that are under way."""
        pending = ((each, uid) in self._under_way for each in _CANCELLED_BY_DELETE)
        return operation == DELETE and (operation, uid) in self._under_way and any(pending)

    def succeed(self, operation: str, uid: str, driver: str, now: int) -> None:
        """An operation is done. Finishing a deletion cancels the creation that was pending.

        That is so of single snapshots only: creations of groups stay under way for good.
        """
        begun = self._under_way.pop((operation, uid), None)
        if begun is None:
            return
        took = now - begun.at_ns
        named = begun.driver if driver == UNKNOWN else driver
        self._observe(Series(named, operation, begun.snapshot_type, SUCCESS), took)
        if operation == DELETE:
            for pending in _CANCELLED_BY_DELETE:
                left = self._under_way.pop((pending, uid), None)
                if left is not None:
                    self._observe(Series(left.driver, pending, left.snapshot_type, CANCEL), took)

    def _observe(self, series: Series, took: int) -> None:
        self.durations.setdefault(series, []).append(took)
