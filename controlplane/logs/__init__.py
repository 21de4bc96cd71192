"""The log of a run, read and explained: for the command line, and for notebooks.

from controlplane import logs

run = logs.open_run("out")
run.summary()                        # plain dicts
run.why("pod/shop/web-1")
run.metrics("scheduler_pending_pods", queue="active")
run.sql("SELECT event, count(*) FROM events GROUP BY 1").df()   # a pandas frame, with the extra `sql`
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.logs.notebooks import Fields, Records, html

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import duckdb

    from controlplane.logs.reading import RunLog

__all__ = ["Run", "open_run"]


def open_run(place: str | os.PathLike[str]) -> Run:
    """The log in a folder that `run --out` left, or a log.jsonl, packed or not. Raises UsageError."""
    from controlplane.logs.reading import RunLog, find

    return Run(RunLog(find(Path(place))))


class Run:
    """One run. Answers are dicts and lists, as `--format json` prints them; notebooks draw them as tables."""

    def __init__(self, log: RunLog) -> None:
        self.log = log

    def _repr_html_(self) -> str:
        """Return the summary as notebooks show it."""
        return html(self.summary())

    def events(self, **wanted: Any) -> Iterator[dict[str, Any]]:
        """Events as plain dicts; `wanted` are the fields of `controlplane.logs.filtering.Filter`."""
        from controlplane.logs.difference import as_json
        from controlplane.logs.filtering import Filter

        chosen = Filter(**wanted)
        return map(as_json, chosen.of(self.log))

    def summary(self) -> dict[str, Any]:
        """Return the work of each actor, the failures, and the pods that took longest."""
        from controlplane.logs.summary import summarise

        return Fields(summarise(self.log).to_json())

    def why(self, about: str | int) -> dict[str, Any]:
        """Return the history of an object with its causes, or the causes of a step. Raises UsageError."""
        from controlplane.logs.answers import why

        return Fields(why(self.log, str(about)).to_json())

    def timeline(self, about: str) -> dict[str, Any]:
        """The life of an object, each incarnation apart. Raises UsageError."""
        from controlplane.logs.timeline import timeline

        return Fields(timeline(self.log, about).to_json())

    def races(self) -> dict[str, Any]:
        """Stale reads, and writes in no order."""
        from controlplane.logs.races import find

        return Fields(find(self.log).to_json())

    def stats(self) -> dict[str, Any]:
        """Return durations, in virtual seconds."""
        from controlplane.logs.stats import measure

        return Fields(measure(self.log).to_json())

    def metrics(self, name: str = "", **labels: str) -> list[dict[str, Any]]:
        """Return the metrics of components over virtual time, by name (`*` is a wildcard) and labels.

        Raises UsageError if the run did not keep it.
        """
        from controlplane.logs.series import beside, read

        return Records(each.to_json() for each in read(beside(self.log.path), name, labels))

    def diff(self, other: Run) -> dict[str, Any] | None:
        """Return the first difference from another run; None if there is none."""
        from controlplane.logs.difference import compare

        found = compare(self.log, other.log)
        return None if found is None else Fields(found.to_json())

    def sql(self, text: str) -> duckdb.DuckDBPyRelation:
        """A query over the tables of `controlplane.logs.sql`; `.df()`, `.fetchall()` and so on give its rows."""
        from controlplane.logs.sql import connect

        return connect([self.log]).sql(text)
