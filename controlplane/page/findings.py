"""The findings of a run: the story of a violation, the stale reads, and the unordered writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.errors import UsageError
from controlplane.logs.answers import VIOLATION, why
from controlplane.logs.races import find

if TYPE_CHECKING:
    from controlplane.logs.reading import RunLog

__all__ = ["findings"]

MOST = 500
"""The number of stale reads and pairs of writes shown; those that a write depends on come first."""


def findings(log: RunLog) -> dict[str, Any]:
    """The sentence and the events of a violation, stale reads with the newer writes, unordered writes."""
    races = find(log)
    wrote = _written(log)
    told: dict[str, Any] = {}
    try:
        story = why(log, VIOLATION)
    except UsageError:  # it ended well, or does not say how
        focus: set[tuple[int, str]] = set()
    else:
        focus = {(each.step, each.actor) for each in story.entries}
        told["sentence"] = story.sentence
        told["entries"] = [[each.step, each.actor, each.what] for each in story.entries]
        told["causes"] = [each.step for each in story.causes]
    reads = sorted(races.stale, key=lambda each: (not each.used, each.step))[:MOST]
    told["stale"] = [
        {
            **each.to_json(),
            "overtaken_by": wrote.get((each.obj, each.newest), 0),
            "in_story": (each.step, each.actor) in focus,
        }
        for each in reads
    ]
    told["unordered"] = [each.to_json() for each in races.unordered[:MOST]]
    return told


def _written(log: RunLog) -> dict[tuple[str, int], int]:
    """The step of each version's write."""
    return {
        (line.obj, line.rv): line.step
        for line in log.mentioning('"apiserver.write"')
        if line.event == "apiserver.write" and line.rv and line.data.get("code", 0) < 300
    }
