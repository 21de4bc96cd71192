"""The running cluster as the page's model: what happened since, reported between two steps."""

from __future__ import annotations

import io
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from actors import jsonl
from actors.log import Tail
from controlplane.logs import vocabulary
from controlplane.logs.reading import decode
from controlplane.page.model import Model, encode
from controlplane.page.watching import Watching
from controlplane.scenarios.engine.execution import cleaner_of_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import Recording
    from actors.log import Event
    from controlplane.logs.reading import Line
    from controlplane.scenarios.engine.execution import Execution

__all__ = ["Live"]

T = TypeVar("T")
PART: Final = 20_000
"""The number of events sent at once."""
AT_ONCE = 500
"""The number of events processed before other tasks run."""


class Live:
    """Watches a session from before its first step; its log must be kept whole."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self._tail = Tail(run.world.log)
        self.model = Model(name="live")
        self.model.run.update(run.log_header(), live=True)
        self._watching = Watching(run, self.model)
        self._watching.begin()
        self._lines: Iterator[Line] = iter(())
        self._taken = 0
        self._told = 0
        """All is reported up to this step."""
        self._telling = trio.Lock()

    async def since(self, step: int, known: tuple[int, int] | None = None) -> bytes:
        """The model's part after a step, as JSON, for a client that has this many texts and tasks."""
        async with self._telling:
            await self._tell(step)
            part = self.model.since(step, PART, known, self._told)
            part["more"] = part["more"] or self._told < self._taken
            return encode(part)

    async def recording(self) -> Recording:
        """The session up to now. Raises UsageError if nothing is kept."""
        return await self._between_steps(self._run.recording_so_far)

    def time_of(self, step: int) -> int:
        """The virtual time (ns) of a step that was reported."""
        events = self.model.events
        at = bisect_right(events.step, step) - 1
        return int(events.lists["t"][at]) if at >= 0 else 0

    async def _between_steps(self, look: Callable[[], T]) -> T:
        """The result of `look` between two steps; raises what it raises."""
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

    async def _tell(self, step: int) -> None:
        """Tell the model what the log has since, as far as one part after `step` goes; others have their turn."""
        events = self.model.events
        if (line := next(self._lines, None)) is None:
            await self._between_steps(self._take)
        else:  # what was left by the part before
            self.model.add_line(line)
        while (line := next(self._lines, None)) is not None:
            self.model.add_line(line)
            if not len(events) % AT_ONCE:
                await trio.lowlevel.checkpoint()
            if len(events) - bisect_right(events.step, step) > PART + AT_ONCE:
                self._told = line.step - 1
                return
        self._told = self._taken

    def _take(self) -> None:
        self._watching.look()
        self._taken = self._run.world.steps
        self._lines = self._as_lines(self._tail.news(), cleaner_of_lines(self._run))

    def _as_lines(
        self, events: Iterator[Event], clean: Callable[[Event, str], str]
    ) -> Iterator[Line]:
        """Events as `log.jsonl` would have them: without secrets."""
        while True:
            text = io.StringIO()
            some = islice(events, AT_ONCE)
            if not jsonl.write(some, text, "live", clean, vocabulary.LEVEL_OF):
                return
            for line in text.getvalue().encode().splitlines():
                yield decode(line)
