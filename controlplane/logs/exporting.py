"""Writing a log in another form."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from controlplane.errors import UsageError
from controlplane.logs.export import FORMATS, klog
from controlplane.logs.reading import Events, Line, RunLog


class _OfActor:
    """A log of which only one actor's events are seen; the first line stays, as it says when the run began."""

    def __init__(self, log: RunLog, actor: str) -> None:
        self._log = log
        self._actor = actor

    def __iter__(self) -> Iterator[Line]:
        return (
            line
            for line in self._log
            if line.event == "log" or fnmatchcase(line.actor, self._actor)
        )

    def between(self, first: int, last: int) -> Iterator[Line]:
        """The events of these steps."""
        return self._log.between(first, last)


def pieces(
    log: RunLog, form: str, *, actor: str = "", verbosity: int = klog.VERBOSITY
) -> Iterator[str]:
    """The text of a log in a form of `FORMATS`, piece by piece. Raises UsageError where there is nothing to show."""
    if form == "klog":
        return klog.lines(log, verbosity, actor)
    chosen: Events = _OfActor(log, actor) if actor else log
    if form == "shiviz" and not any(line.is_step for line in chosen):
        whose = f" of {actor}" if actor else ""
        raise UsageError(
            f"{log.name}: it has no steps{whose}, which are ShiViz's events; runs keep them unless"
            " --log-level says otherwise"
        )
    return FORMATS[form](chosen)


def to_parquet(log: RunLog, target: Path) -> None:
    """Write the table of events as Parquet, by DuckDB. Raises UsageError."""
    from controlplane.logs.sql import connect

    database = connect([log])
    import duckdb

    quoted = str(target).replace("'", "''")
    try:
        database.execute(f"COPY (SELECT * FROM events) TO '{quoted}' (FORMAT parquet)")  # noqa: S608
    except duckdb.Error as error:
        raise UsageError(f"{target}: cannot be written: {str(error).splitlines()[0]}") from None
    finally:
        database.close()
    target.chmod(0o600)
