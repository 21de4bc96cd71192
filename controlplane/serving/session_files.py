"""The files of a served session, written while it runs: its memory does not grow with them.

Several times a second what was recorded since goes to `log.jsonl`, and choices and inputs to files from which
`run.rec` is made at an orderly end. After a kill the log can be read up to there.

With a limit the log has two parts, `log.jsonl` and the one before it, `log.1.jsonl`: when the newer one is full
it takes the older one's place. A recording that comes to more than its share of the limit is given up, for a part of
one replays nothing.
"""

from __future__ import annotations

import io
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import trio

from actors import jsonl, private_files
from actors.log import Tail
from actors.spool import Spool
from controlplane.errors import UsageError
from controlplane.logs import vocabulary
from controlplane.logs.reading import NAME, OLDER, RECORDING
from controlplane.scenarios.engine.execution import cleaner_of_lines, make_folder, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.log import Event
    from controlplane.scenarios.engine.execution import Execution

__all__ = ["MIB", "SessionFiles"]

MIB: Final = 1 << 20
EVERY_S: Final = 0.25
AT_ONCE: Final = 250
"""The number of events written before other tasks run."""
PARTS: Final = 4
"""A fourth of the limit for each part of the log; half of it for the recording."""


class SessionFiles:
    """Takes what a session records out of memory and into its folder, from before its first step."""

    def __init__(
        self,
        run: Execution,
        folder: Path,
        *,
        limit: int = 0,
        show_secrets: bool = False,
        forget: bool = True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Begin the files in place of those of an earlier session.

        Args:
            run: the session.
            folder: made if it is not there.
            limit: of log and recording together, in bytes; 0 for none.
            show_secrets: leave data of Secrets and tokens readable.
            forget: free the memory of what was written; others must not read the log then.
            tell: is called with a line when something was given up for the limit or could not be written.

        Raises UsageError.
        """
        self._run = run
        self._folder = folder
        self._limit = limit
        self._show_secrets = show_secrets
        self._forget = forget
        self._tell = tell
        self._tail = Tail(run.world.log, forget=forget, living=run.world.living_tasks)
        self._events: Iterator[Event] = iter(())
        self._clean: Callable[[Event, str], str] | None = None
        self._size = 0
        self._spool: Spool | None = None
        self.failed = ""
        """The reason why writing stopped, "" while it goes on."""
        self._name = run.log_name()
        make_folder(folder)
        try:
            for each in folder.iterdir():
                if each.name in _LEFT_BEFORE:
                    each.unlink()
            self._file = self._begin({})
            if forget:
                self._spool = Spool(folder)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error

    def _begin(self, more: dict[str, Any]) -> io.TextIOWrapper:
        """Begin a part of the log with a first line of its own. OSError."""
        path = self._folder / NAME
        private_files.touch(path)
        file = path.open("w", encoding="utf-8")
        jsonl.write(
            (), file, self._name, None, vocabulary.LEVEL_OF, {**self._run.log_header(), **more}
        )
        file.flush()
        self._size = 0
        return file

    async def go_on(self) -> None:
        """Write what is recorded, until cancelled."""
        while not self.failed:
            await trio.sleep(EVERY_S)
            taken = trio.Event()

            def take(taken: trio.Event = taken) -> None:
                self._take()
                taken.set()

            self._run.world.between_steps(take)
            await taken.wait()
            while self._write_some():
                await trio.lowlevel.checkpoint()

    def _take(self) -> None:
        """Take what was recorded since the last time out of the world, between two steps."""
        try:
            self._events = self._tail.news()
            self._clean = None if self._show_secrets else cleaner_of_lines(self._run)
            if self._spool is not None:
                self._spool.take(self._run.world)
                if self._limit and self._spool.size > self._limit // 2:
                    self._give_up_recording()
        except OSError as error:
            self._fail(error)

    def _give_up_recording(self) -> None:
        assert self._spool is not None
        self._spool.close()
        self._spool = None
        self._run.world.keep_no_recording()
        self._tell(
            f"{self._folder / RECORDING}: given up: it came to more than half of --out-limit"
        )

    def _write_some(self) -> bool:
        """Write some of the events that were taken; whether there were any."""
        if self.failed:
            return False
        text = io.StringIO()
        some = list(islice(self._events, AT_ONCE))
        if not some:
            return False
        jsonl.write(some, text, self._name, self._clean, vocabulary.LEVEL_OF)
        lines = text.getvalue()
        try:
            if self._limit and self._size and self._size + len(lines) > self._limit // PARTS:
                self._turn(some[0].step)
            self._file.write(lines)
            self._file.flush()
        except OSError as error:
            self._fail(error)
        self._size += len(lines.encode())
        return True

    def _turn(self, step: int) -> None:
        """Let the log begin anew with this step; the part before it takes the place of the one before that. OSError."""
        self._file.close()
        (self._folder / NAME).replace(self._folder / OLDER)
        self._file = self._begin({"first_step": step})

    def _fail(self, error: OSError) -> None:
        """Say once that the folder takes no more, and let the session go on without it, in no more memory."""
        self.failed = f"{self._folder}: cannot be written: {error.strerror}"
        self._tell(self.failed)
        self.close()
        self._spool = None
        world = self._run.world
        if self._forget:
            world.keep_no_recording()
            world.log.keep_nothing()

    def close(self) -> None:
        """Let go of the files, of a session that came to nothing or that they cannot take."""
        with suppress(OSError):
            self._file.close()
        if self._spool is not None:
            with suppress(OSError):
                self._spool.close()

    def finish(self) -> tuple[str, ...]:
        """Write the rest of a run that ended; the names of the files that are left. Raises UsageError."""
        if self.failed:
            raise UsageError(self.failed)
        while self._write_some():
            pass
        self._take()
        while self._write_some():
            pass
        if self.failed:
            raise UsageError(self.failed)
        with suppress(OSError):
            self._file.close()
        left = [NAME]
        if (self._folder / OLDER).is_file():
            left.append(OLDER)
        if self._spool is not None:
            with written(self._folder / RECORDING) as draft:
                self._spool.finish(self._run.recording(), draft)
            self._spool.close()
            left.append(RECORDING)
        elif not self._forget:
            with written(self._folder / RECORDING) as draft:
                draft.write_bytes(self._run.recording().to_bytes())
            left.append(RECORDING)
        return (*left, *self._run.save_rest(self._folder, show_secrets=self._show_secrets))


_LEFT_BEFORE: Final = frozenset(
    (NAME, OLDER, RECORDING, "objects.yaml", "metrics.jsonl", "traceback.txt")
)
