"""ShiViz: two lines for each event, the second with its host and vector clock.

Hosts are actors, events are their steps: every one is written, as clocks may not skip. Rules:
DistributedClocks/shiviz, js/model/parser.js and modelGraph.js: a clock has its own host, whose value
begins with 1 and rises by 1 with every event; every host of a clock has events; no zeros.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from controlplane.logs.phrases import phrase
from controlplane.logs.reading import Events, Line

PATTERN = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"


def lines(log: Events) -> Iterator[str]:
    """The text of the file, piece by piece: first the expression, and a line for the delimiter of runs."""
    yield f"{PATTERN}\n\n"
    clocks: dict[str, dict[str, int]] = {}
    at: dict[int, dict[str, int]] = {}
    for step in _steps(log):
        first = step[0]
        host = _host(first.actor)
        clock = dict(clocks.get(host, ()))
        for line in step:
            if line.is_step or line.event == "message":
                for cause in line.cause:
                    for name, value in at.get(cause, {}).items():
                        if name != host and clock.get(name, 0) < value:
                            clock[name] = value
        clock[host] = clock.get(host, 0) + 1
        clocks[host] = at[first.step] = clock
        said = [text for line in step if (text := phrase(line))]
        text = "; ".join([f"{first.task}: {first.event}", *said])
        yield f"step {first.step} {' '.join(text.split())}\n{host} {json.dumps(clock)}\n"


def _steps(log: Events) -> Iterator[list[Line]]:
    """The lines of each step; what is said before the first step and after the last is left out."""
    found: list[Line] = []
    for line in log:
        if line.is_step:
            if found:
                yield found
            found = [line]
        elif found and line.step == found[0].step and line.actor == found[0].actor:
            found.append(line)
    if found:
        yield found


def _host(actor: str) -> str:
    """A host's name has no blanks."""
    return "_".join(actor.split())
