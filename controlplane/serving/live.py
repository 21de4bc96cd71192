"""The running cluster as the page's model: what happened since, told between two steps."""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from actors import jsonl
from actors.log import Tail
from controlplane.logs import vocabulary
from controlplane.logs.reading import decode
from controlplane.page.model import Model, encode
from controlplane.page.watching import Watching
from controlplane.scenarios.execution import cleaner_of_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import Recording
    from controlplane.logs.reading import Line
    from controlplane.scenarios.execution import Execution

__all__ = ["Live"]

T = TypeVar("T")
PART: Final = 50_000
"""So many events are told at once, for others wait meanwhile."""


class Live:
    """Watches a session from before its first step; its log must be kept whole."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self._tail = Tail(run.world.log)
        self.model = Model(name="live")
        self.model.run.update(run.log_header(), live=True)
        self._watching = Watching(run, self.model)
        self._watching.begin()

    async def since(self, step: int, known: tuple[int, int] | None = None) -> bytes:
        """The model's part after a step, as JSON, for who has so many texts and tasks."""
        return await self._between_steps(lambda: self._since(step, known))

    async def recording(self) -> Recording:
        """The session up to now. Raises UsageError if nothing is kept."""
        return await self._between_steps(self._run.recording_so_far)

    def time_of(self, step: int) -> int:
        """The virtual time (ns) of a step that was told."""
        events = self.model.events
        at = bisect_right(events.step, step) - 1
        return int(events.lists["t"][at]) if at >= 0 else 0

    async def _between_steps(self, look: Callable[[], T]) -> T:
        """What `look` gives between two steps, or what it raises."""
        found: list[T] = []
        failed: list[Exception] = []
        over = trio.Event()

        def call() -> None:
            try:
                found.append(look())
            except Exception as error:  # the world goes on
                failed.append(error)
            over.set()

        self._run.world.between_steps(call)
        await over.wait()
        if failed:
            raise failed[0]
        return found[0]

    def _since(self, step: int, known: tuple[int, int] | None) -> bytes:
        for line in self._news():
            self.model.add_line(line)
        self._watching.look()
        return encode(self.model.since(step, PART, known))

    def _news(self) -> Iterator[Line]:
        """What the log has since, as `log.jsonl` would have it: without secrets."""
        text = io.StringIO()
        clean = cleaner_of_lines(self._run)  # with the Secrets of now
        if jsonl.write(self._tail.news(), text, "live", clean, vocabulary.LEVEL_OF):
            for line in text.getvalue().encode().splitlines():
                yield decode(line)
