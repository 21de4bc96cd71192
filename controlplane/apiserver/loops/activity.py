"""Counts of the work of a run's API servers, for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controlplane.api.request import Request, Response
    from controlplane.metrics.family import Family

__all__ = ["Activity"]


class Activity:
    """The work of an API server over all its lives, for reports: successful writes per kind of request, and waits.

    `waits_ns` sums, `longest_wait_ns` keeps the maximum of, the time from a pod's creation to its binding.
    """

    def __init__(self) -> None:
        self.writes: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.waits_ns = 0
        self.longest_wait_ns = 0
        self._created: dict[str, int] = {}
        self.families: Callable[[], Iterable[Family]] | None = None
        """Takes a snapshot of what the server that runs at present counts."""

    @classmethod
    def sum(cls, parts: Iterable[Activity]) -> Activity:
        """Return the total of several servers."""
        whole = cls()
        for part in parts:
            for mine, theirs in ((whole.writes, part.writes), (whole.refused, part.refused)):
                for label, count in theirs.items():
                    mine[label] = mine.get(label, 0) + count
            whole.waits_ns += part.waits_ns
            whole.longest_wait_ns = max(whole.longest_wait_ns, part.longest_wait_ns)
        return whole

    def note(self, request: Request, response: Response, now: int) -> None:
        """Count one answered write."""
        label = request.label
        if not response.ok:
            self.refused[label] = self.refused.get(label, 0) + 1
            return
        self.writes[label] = self.writes.get(label, 0) + 1
        if label == "create pods" and response.object is not None:
            self._created[response.object.key] = now
        elif label == "create pods/binding":
            created = self._created.pop(f"{request.namespace}/{request.name}", now)
            self.waits_ns += now - created
            self.longest_wait_ns = max(self.longest_wait_ns, now - created)
