"""The behaviour of a process's client library: feature gates and defaults of client-go, by release.

The default of a component is `PLAIN`: the newest queue, one plain list from
the server's cache, watches without a time limit. It is the form that costs the fewest steps.
`upstream(release)` is what the real library does: pages, time limits, and the queue and the way of
starting that the release had.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field, frozen

from controlplane.errors import UsageError, unknown_name
from controlplane.gates import LATEST, FixGates, fix_gates, minor_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE_SIZE: Final = 500


@frozen
class ClientFeatures:
    """Gates and settings of one process's client library.

    Args:
        in_order_informers: RealFIFO; without it DeltaFIFO (default before 1.33).
        atomic_fifo: a relist is one delta that is reconciled when it is popped (1.36).
        batch_process: consecutive deltas of different keys are one transaction of the store (1.35).
        watch_list_client: reflectors begin with a stream instead of a list (1.35).
        page_size: objects per page of a list that asks for the newest state; 0: one page.
        watch_timeouts: watches ask the server to end them after five to ten minutes.
        resync_ns: how often handlers are told of everything again; 0: never.
        fixes: fix gates of DeltaFIFO (83911, 86015, 115620).
    """

    in_order_informers: bool = True
    atomic_fifo: bool = True
    batch_process: bool = True
    watch_list_client: bool = False
    page_size: int = 0
    watch_timeouts: bool = False
    resync_ns: int = 0
    fixes: FixGates = field(factory=FixGates)

    @property
    def generation(self) -> str:
        """Return the queue between reflector and store: DeltaFIFO, RealFIFO or AtomicFIFO."""
        if not self.in_order_informers:
            return "DeltaFIFO"
        return "AtomicFIFO" if self.atomic_fifo else "RealFIFO"


PLAIN: Final = ClientFeatures()

GATES: Final[Mapping[str, tuple[str, str]]] = {
    "InOrderInformers": ("in_order_informers", "1.33"),
    "InOrderInformersBatchProcess": ("batch_process", "1.35"),
    "WatchListClient": ("watch_list_client", "1.35"),
    "AtomicFIFO": ("atomic_fifo", "1.36"),
}
"""Upstream's gate, our field, and the first release that had it on by default."""
QUEUE_FIELDS: Final = ("in_order_informers", "atomic_fifo", "batch_process", "fixes")


@cache
def plain(release: str = LATEST) -> ClientFeatures:
    """The plain library with the queue that a release had. Raises UsageError for an unknown release."""
    whole = upstream(release)
    return evolve(PLAIN, **{name: getattr(whole, name) for name in QUEUE_FIELDS})


def upstream(release: str = LATEST, gates: Mapping[str, bool] | None = None) -> ClientFeatures:
    """The client library of a release with its own defaults, and with some gates set otherwise.

    Raises:
        UsageError: an unknown gate or release, or AtomicFIFO without InOrderInformers.
    """
    at = minor_of(release)
    values: dict[str, Any] = {name: at >= minor_of(since) for name, since in GATES.values()}
    found = ClientFeatures(
        **values, page_size=PAGE_SIZE, watch_timeouts=True, fixes=fix_gates(release)
    )
    return with_gates(found, gates or {})


def with_gates(features: ClientFeatures, gates: Mapping[str, bool]) -> ClientFeatures:
    """The same library with feature gates set by upstream's names. Raises UsageError."""
    changes: dict[str, Any] = {}
    for name, on in gates.items():
        if name not in GATES:
            raise UsageError(unknown_name("client feature gate", name, GATES))
        changes[GATES[name][0]] = on
    changed = evolve(features, **changes)
    if changes.get("atomic_fifo") and not changed.in_order_informers:
        raise UsageError("feature gate AtomicFIFO needs InOrderInformers")
    return changed
