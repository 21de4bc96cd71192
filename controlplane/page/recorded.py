"""A run that was recorded, as a model: its log, and what a replay of its recording shows beside it."""

from __future__ import annotations

import tempfile
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
from controlplane.scenarios import replaying

if TYPE_CHECKING:
    from actors import Recording

__all__ = ["Recorded", "recorded"]


@frozen
class Recorded:
    """A run's model, and the log that it was made from."""

    model: Model
    log: RunLog


def recorded(place: Path) -> Recorded:
    """The run in a folder that `run --out` left, of a log, or of a recording. Raises UsageError.

    Without a recording, or with one that cannot be repeated, the model has what the log has and says what
    it lacks.
    """
    if place.suffix == ".rec" and place.is_file():
        with tempfile.TemporaryDirectory(prefix="controlplane-") as folder:
            return _of_recording(place, Path(folder))
    recording = place / reading.RECORDING if place.is_dir() else None
    if recording is not None and not recording.is_file():
        recording = None
    if recording is not None and not any((place / name).is_file() for name in reading.NAMES):
        return recorded(recording)
    log = RunLog(reading.find(place), str(place))
    if recording is None:
        return _of_log(log, "there is no recording (run.rec) beside the log")
    try:
        return _watched(log, recording, replaying.load(recording))
    except (UsageError, RecordingError) as error:
        return _of_log(log, f"its recording cannot be repeated: {error}")


def _of_recording(recording: Path, folder: Path) -> Recorded:
    """Only the recording is there: it is repeated twice, first for its log."""
    found = replaying.load(recording)
    run = replaying.replayed(replaying.plan_of_recording(found, recording), found)
    run.execute("bare")
    run.save(folder, found)
    return _watched(RunLog(folder / reading.NAME, str(recording)), recording, found)


def _of_log(log: RunLog, why: str) -> Recorded:
    model = Model(name=log.name)
    for line in log:
        model.add_line(line)
    model.lacks.append(
        f"{why}, so objects, queues, watch caches, tables of plugins and the choices of the schedule"
        " are not shown; diagram, search and what the log itself tells are"
    )
    return _told(model, log)


def _watched(log: RunLog, path: Path, recording: Recording) -> Recorded:
    """Repeat a run and watch it. Raises UsageError when it does not repeat."""
    model = Model(name=log.name)
    run = replaying.replayed(replaying.plan_of_recording(recording, path), recording)
    watching = Watching(run, model, log)
    watching.begin()
    result = run.execute("bare")
    if result.verdict == "diverged":
        raise UsageError(f"{path}: the replay is not the run: {result.reason}")
    watching.end()
    model.run["release"] = recording.header["release"]
    return _told(model, log)


def _told(model: Model, log: RunLog) -> Recorded:
    model.lacks += log.damage
    model.findings = findings(log)
    return Recorded(model, log)
