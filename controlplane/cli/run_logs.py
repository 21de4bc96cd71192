"""The logs that `controlplane logs` reads: named by an argument or by `--log`, opened, or repeated from a recording."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import output
from controlplane.cli.options import allowed_code
from controlplane.errors import UsageError, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.logs.reading import RunLog

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

RUN = click.Path(path_type=Path)


def run_option() -> Decorator:
    """One run: the last argument, or `--log`; this folder by default. The command gets it as `place`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(runs: tuple[Path, ...], logged: tuple[Path, ...], **values: Any) -> Any:
            places = (*runs, *logged)
            if len(places) > 1:
                raise UsageError(f"expected one RUN, found {', '.join(map(str, places))}")
            return function(place=places[0] if places else Path(), **values)

        return _declared(call, "[RUN]")

    return decorate


def runs_option(metavar: str = "[RUN]...", *, least: int = 0, most: int = 0) -> Decorator:
    """Several runs: the last arguments, or `--log` several times. The command gets them as `places`.

    Args:
        metavar: the arguments, as help shows them.
        least: the least number of runs; with 0, this folder is the run when none is named.
        most: the greatest number of runs, 0 for any.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(runs: tuple[Path, ...], logged: tuple[Path, ...], **values: Any) -> Any:
            places = (*runs, *logged)
            if len(places) < least or 0 < most < len(places):
                raise UsageError(f"expected {metavar}, found {plural(len(places), 'run')}")
            return function(places=places or (Path(),), **values)

        return _declared(call, metavar)

    return decorate


def _declared(function: Callable[..., Any], metavar: str) -> Callable[..., Any]:
    option = click.option(
        "--log", "logged", type=RUN, multiple=True, metavar="RUN",
        help="The run, another way to name it. [default: this folder]",
    )  # fmt: skip
    return click.argument("runs", metavar=metavar, nargs=-1, type=RUN)(option(function))


def opened(place: Path) -> RunLog:
    """The log of a run; when the command ends it says what of it could not be read. Raises UsageError."""
    log = _found(place)
    click.get_current_context().call_on_close(lambda: _say_damage(log))
    return log


def _found(place: Path) -> RunLog:
    from controlplane.logs import reading

    if place.is_dir() and not any((place / name).is_file() for name in reading.NAMES):
        recording = place / reading.RECORDING
        place = recording if recording.is_file() else place
    if place.suffix == ".rec" and place.is_file():
        return _repeated(place)
    return reading.RunLog(reading.find(place), str(place))


def _repeated(recording: Path) -> RunLog:
    """The log of a recorded run, which runs once more for it."""
    import tempfile

    from controlplane.logs.reading import NAME, RunLog
    from controlplane.scenarios.search import replaying

    found = replaying.load(recording)
    plan = replaying.plan_of_recording(found, recording, allowed=allowed_code())
    run = replaying.replayed(plan, found)
    run.execute("bare")
    with tempfile.TemporaryDirectory(prefix="controlplane-") as folder:
        run.save(Path(folder), found)
        return RunLog(Path(folder) / NAME, str(recording))


def _say_damage(log: RunLog) -> None:
    for said in log.damage:
        output.complain(f"controlplane: {said}")
