"""A run that was recorded, as a model: its log, and what a replay of its recording shows beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from actors import RecordingError
from controlplane.errors import UsageError
from controlplane.logs import reading
from controlplane.logs.reading import RunLog
from controlplane.page.findings import findings
from controlplane.page.model import Model
from controlplane.page.watching import Watching
from controlplane.scenarios.engine.allowed_code import NO_CODE, AllowedCode
from controlplane.scenarios.search import replaying

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors import Recording
    from controlplane.logs.reading import Line

__all__ = ["MOST_EVENTS", "Recorded", "recorded"]

MOST_EVENTS = 2_000_000
"""More than a page can show in a browser's memory."""
TOLD_EVERY = 2000
LONGEST_S = 1e7
"""Virtual seconds; nanoseconds of longer runs are no whole numbers in a browser any more."""


Tell = Callable[[int], None]


def _ignore_progress(_events: int) -> None:
    """No reader follows it."""


@frozen
class Recorded:
    """A run's model, and the log that it was made from."""

    model: Model
    log: RunLog


def recorded(
    place: Path,
    *,
    repeating: bool = True,
    tell: Tell = _ignore_progress,
    allowed: AllowedCode = NO_CODE,
) -> Recorded:
    """The run in a folder that `run --out` left, of a log, or of a recording. Raises UsageError.

    Without a recording, or with one that cannot be repeated, the model has what the log has and says what
    it lacks; and so it does unless `repeating`, for a recording names the scenario whose code it runs.
    `tell` hears now and then how many events were taken in. `allowed` is the Python code that a recording may run.
    """
    if not repeating:
        return _of_log(RunLog(reading.find(place), str(place)), "nothing was repeated", tell)
    if place.suffix == ".rec" and place.is_file():
        with tempfile.TemporaryDirectory(prefix="controlplane-") as folder:
            return _of_recording(place, Path(folder), tell, allowed)
    recording = place / reading.RECORDING if place.is_dir() else None
    if recording is not None and not recording.is_file():
        recording = None
    if recording is not None and not any((place / name).is_file() for name in reading.NAMES):
        return recorded(recording, tell=tell, allowed=allowed)
    log = RunLog(reading.find(place), str(place))
    if recording is None:
        return _of_log(log, "there is no recording (run.rec) beside the log", tell)
    try:
        return _watched(log, recording, replaying.load(recording), tell, allowed)
    except (UsageError, RecordingError) as error:
        return _of_log(log, f"its recording cannot be repeated: {error}", tell)


def _of_recording(recording: Path, folder: Path, tell: Tell, allowed: AllowedCode) -> Recorded:
    """Only the recording is there: it is repeated twice, first for its log."""
    found = replaying.load(recording)
    run = replaying.replayed(replaying.plan_of_recording(found, recording, allowed=allowed), found)
    run.execute("bare")
    run.save(folder, found)
    return _watched(RunLog(folder / reading.NAME, str(recording)), recording, found, tell, allowed)


def _of_log(log: RunLog, why: str, tell: Tell) -> Recorded:
    model = Model(name=log.name)
    lines = _InOrder(log, tell)
    for line in lines:
        model.add_line(line)
    model.lacks.append(
        f"{why}, so objects, queues, watch caches, tables of plugins and the choices of the schedule"
        " are not shown; diagram, search and what the log itself tells are"
    )
    return _told(model, log, lines)


class _InOrder:
    """The events of a log, in order of steps and times; events out of order, as in an edited log, are
    left out. Raises UsageError for too many events or steps.
    """

    def __init__(self, log: RunLog, tell: Tell) -> None:
        self._log = log
        self._tell = tell
        self.left_out = 0

    def __iter__(self) -> Iterator[Line]:
        step, t = 0, 0.0
        for count, line in enumerate(self._log):
            if max(count, line.step) >= MOST_EVENTS:
                raise UsageError(
                    f"{self._log.name}: a page shows runs of up to {MOST_EVENTS:,} events;"
                    " `--until` makes a shorter one, and `logs export` writes forms for larger tools"
                )
            if line.step < step or not t <= line.t < LONGEST_S:
                self.left_out += 1
                continue
            step, t = line.step, line.t
            if not count % TOLD_EVERY:
                self._tell(count)
            yield line


def _watched(
    log: RunLog, path: Path, recording: Recording, tell: Tell, allowed: AllowedCode
) -> Recorded:
    """Repeat a run and watch it. Raises UsageError when it does not repeat, or is not the log's."""
    run = replaying.replayed(
        replaying.plan_of_recording(recording, path, allowed=allowed), recording
    )
    first = next(iter(log), None)
    if first is not None and first.run and first.run != run.log_name(recording.trace_hash):
        raise UsageError(f"{path}: it is of another run than the log beside it")
    model = Model(name=log.name)
    lines = _InOrder(log, tell)
    watching = Watching(run, model, lines)
    watching.begin()
    result = run.execute("bare")
    if result.verdict == "diverged":
        raise UsageError(f"{path}: the replay is not the run: {result.reason}")
    watching.end()
    model.run["release"] = recording.header["release"]
    return _told(model, log, lines)


def _told(model: Model, log: RunLog, lines: _InOrder) -> Recorded:
    model.lacks += log.damage
    if lines.left_out:
        model.lacks.append(f"events of the log that are out of order, left out: {lines.left_out:,}")
    model.findings = findings(log)
    return Recorded(model, log)
