"""Leader election: the decisions of one candidate from the Lease it sees. Upstream: client-go tools/leaderelection.

A lease is judged by the candidate's own clock, from the moment it last saw the record *change*, so
clocks may be apart but must run equally fast; and a candidate that has not seen the record before waits a
whole lease, however old it is. Nothing fences the work of a leader that has not noticed yet: writes
carry no token, so a paused process, or a request held up on its way, acts after its successor took
over.
"""

from __future__ import annotations

from attrs import evolve, frozen

from controlplane.api.times import SECOND, format_micro_time, parse_time
from controlplane.api.tree import Tree

JITTER_TENTHS = 12
"""A candidate's wait is up to this many tenths of the retry period longer. Upstream: JitterFactor 1.2."""


@frozen
class ElectionConfig:
    """One election; times in ns.

    Args:
        name: of the Lease in `namespace`.
        lease_ns: how long others respect a lease that does not change.
        renew_deadline_ns: a leader that could not renew for so long stops leading.
        retry_ns: between two tries.
        release_on_cancel: give the lease up when asked to stop.
        bounded_calls: no request outlasts the renew deadline. Without it (as before 1.9) a hanging
            update keeps a leader from noticing that its lease ran out.
    """

    name: str
    namespace: str = "kube-system"
    lease_ns: int = 15 * SECOND
    renew_deadline_ns: int = 10 * SECOND
    retry_ns: int = 2 * SECOND
    release_on_cancel: bool = False
    bounded_calls: bool = True

    def __attrs_post_init__(self) -> None:
        if self.lease_ns <= self.renew_deadline_ns:
            raise ValueError(
                f"election {self.name}: lease_ns must be greater than renew_deadline_ns"
            )
        if self.renew_deadline_ns * 10 <= self.retry_ns * JITTER_TENTHS:
            raise ValueError(
                f"election {self.name}: renew_deadline_ns must be greater than retry_ns * 1.2"
            )


@frozen
class Record:
    """The Lease's record of the leader; times in ns since the Unix epoch."""

    holder: str
    lease_seconds: int
    acquired: int
    renewed: int
    transitions: int = 0

    @classmethod
    def of(cls, lease: Tree) -> Record:
        """The record in a Lease."""
        spec = lease.get("spec") or {}
        return cls(
            spec.get("holderIdentity") or "",
            spec.get("leaseDurationSeconds") or 0,
            parse_time(spec["acquireTime"]) if spec.get("acquireTime") else 0,
            parse_time(spec["renewTime"]) if spec.get("renewTime") else 0,
            spec.get("leaseTransitions") or 0,
        )

    def spec(self) -> Tree:
        """As a Lease's spec."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.lease_seconds,
            "acquireTime": format_micro_time(self.acquired),
            "renewTime": format_micro_time(self.renewed),
            "leaseTransitions": self.transitions,
        }


class Candidate:
    """One process's view of an election. `now` is its own clock (ns since the Unix epoch)."""

    def __init__(self, identity: str, config: ElectionConfig) -> None:
        self.identity = identity
        self.config = config
        self.observed: Record | None = None
        self._observed_at = 0
        self._raw: Tree | None = None
        self._lease: Tree | None = None

    @property
    def leads(self) -> bool:
        """Return whether the record last seen names this candidate."""
        return self.observed is not None and self.observed.holder == self.identity

    @property
    def leader(self) -> str:
        """Return the leader, as far as this candidate knows."""
        return self.observed.holder if self.observed is not None else ""

    def lease_is_valid(self, now: int) -> bool:
        """Return whether the lease last seen to change has not run out yet."""
        found = self.observed
        return found is not None and self._observed_at + found.lease_seconds * SECOND > now

    def first_try(self, now: int) -> Tree | None:
        """The Lease with which a leader renews without reading first; None when it has to read."""
        if not (self.leads and self.lease_is_valid(now)) or self._lease is None:
            return None
        assert self.observed is not None
        return self._as_lease(
            evolve(
                self._fresh(now),
                acquired=self.observed.acquired,
                transitions=self.observed.transitions,
            )
        )

    def new_lease(self, now: int) -> Tree:
        """The Lease to create when there is none."""
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.config.name, "namespace": self.config.namespace},
            "spec": self._fresh(now).spec(),
        }

    def challenge(self, found: Tree, now: int) -> Tree | None:
        """Return the record to write over the Lease just read; None while another candidate's lease is valid."""
        self._lease = found
        record = Record.of(found)
        if self._raw != found.get("spec"):
            self._raw = found.get("spec")
            self._observe(record, now)
        if record.holder and self.lease_is_valid(now) and not self.leads:
            return None
        if self.leads:
            kept = evolve(
                self._fresh(now), acquired=record.acquired, transitions=record.transitions
            )
            return self._as_lease(kept)
        return self._as_lease(evolve(self._fresh(now), transitions=record.transitions + 1))

    def written(self, lease: Tree, now: int) -> None:
        """The write succeeded; `lease` is what the server answered."""
        self._lease = lease
        self._observe(Record.of(lease), now)

    def release(self, now: int) -> Tree | None:
        """Return the record to write in order to release the lease; None if this candidate does not hold it."""
        if not self.leads or self._lease is None or self.observed is None:
            return None
        return self._as_lease(Record("", 1, now, now, self.observed.transitions))

    def _fresh(self, now: int) -> Record:
        return Record(self.identity, self.config.lease_ns // SECOND, now, now)

    def _as_lease(self, record: Record) -> Tree:
        assert self._lease is not None
        return {**self._lease, "spec": record.spec()}

    def _observe(self, record: Record, now: int) -> None:
        self.observed = record
        self._observed_at = now
