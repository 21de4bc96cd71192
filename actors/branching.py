"""Branching: one run of a search, ended in several ways, by forking the process amid it.

A long run pays for its beginning in each schedule. At some steps the process is forked: the child carries the run on
under another strategy and reports its result through a pipe; the parent waits, and forks again or carries on. Every
leaf of the tree is a run like any other, with all its choices from the first one on: it replays as a plain recording.
"""

from __future__ import annotations

import os
import pickle
import warnings
from typing import TYPE_CHECKING, NoReturn

from attrs import frozen

if TYPE_CHECKING:
    from actors.choices import ChoiceList
    from actors.world import RunResult

__all__ = ["AVAILABLE", "Branches", "Leaf"]

AVAILABLE = hasattr(os, "fork")
"""True if the system can fork a process."""


@frozen
class Leaf:
    """The result of one run, for a search.

    `steps` counts the steps since its fork; `identity` is that of `RunResult`, "" for an abandoned run; `choices` are
    None unless the run is a finding.
    """

    verdict: str
    steps: int
    identity: str
    reached: tuple[str, ...]
    choices: ChoiceList | None

    @classmethod
    def of(cls, result: RunResult, since: int = 0) -> Leaf:
        """Return the leaf of a run that was forked after step `since`."""
        return cls(
            result.verdict,
            result.steps - since,
            "" if result.abandoned else result.identity,
            result.reached,
            result.choices if result.broken else None,
        )


class Branches:
    """The forks of one search: made by its strategy amid a run, gathered by the search after it."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._since = 0
        self._leaves: list[Leaf] = []
        self._room = 1

    def begin(self, room: int) -> None:
        """A run begins, of which `room` leaves are wanted at most, its own end among them."""
        self._room = room
        self._leaves = []

    @property
    def wanted(self) -> bool:
        """Return whether one more leaf is wanted: there is room, and no leaf is a finding yet."""
        room = len(self._leaves) + 1 < self._room
        return room and not any(each.choices is not None for each in self._leaves)

    def fork(self, step: int) -> bool:
        """Fork after this step. Return True in the child, and False in the parent once the child has ended."""
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Another thread of a worker only waits for the end of the parent process, and holds no lock meanwhile.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            os.close(reading)
            if self._pipe is not None:
                os.close(self._pipe)
            self._room -= len(self._leaves) + 1
            self._pipe, self._since, self._leaves = writing, step, []
            return True
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        # An interrupted child may leave nothing.
        self._leaves += pickle.loads(told) if told else ()  # noqa: S301 - of a child of this very process
        return False

    def gathered(self, result: RunResult) -> list[Leaf]:
        """Return the leaves of a run, its own one last. In a child: report them, and end the process."""
        leaves = [*self._leaves, Leaf.of(result, self._since)]
        if self._pipe is not None:
            self._leave(leaves)
        return leaves

    def interrupted(self) -> None:
        """End the process if it is a child: its caller's frames belong to the parent."""
        if self._pipe is not None:
            self._leave(self._leaves)

    def _leave(self, leaves: list[Leaf]) -> NoReturn:
        assert self._pipe is not None
        try:
            with os.fdopen(self._pipe, "wb") as pipe:
                pipe.write(pickle.dumps(leaves))
        finally:
            os._exit(0)
