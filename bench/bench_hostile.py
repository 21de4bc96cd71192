"""Bodies made to take long, and the processor time of each: `python -m bench.bench_hostile [WORD]`."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from pathlib import Path

from actors import collector
from tests.chaos.hostile import hostile, prepared

_PATIENCE = 4
"""After so many seconds a request is given up."""


def _give_up(*_: object) -> None:
    raise TimeoutError("still not answered")


def _where(error: BaseException) -> str:
    """The innermost place in our own code."""
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if "/controlplane/" in each.filename
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def main(word: str = "") -> int:
    """Print the slow ones first; 1 if any takes a second or answers what it must not."""
    world = prepared()
    collector.rest()  # as serve does
    signal.signal(signal.SIGALRM, _give_up)
    measured = []
    for request in hostile():
        if word not in request.name:
            continue
        started = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        try:
            found = request.send(world)
            code, told = found.code, str((found.tree or {}).get("message", ""))[:100]
        except Exception as error:
            code, told = 0, f"{type(error).__name__} in {_where(error)}: {str(error)[:60]}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.process_time() - started
        measured.append((took, code in request.codes, code, request.name, told))
    measured.sort(reverse=True)
    slow = [row for row in measured if row[0] >= 1]
    wrong = [row for row in measured if not row[1]]
    for took, fine, code, name, told in measured:
        if took >= 0.1 or not fine:
            print(f"{took:8.3f} s  {code} {' ' if fine else '!'} {name:55} {told!r}")
    print(
        f"{len(measured)} requests, {len(slow)} of a second or more, {len(wrong)} answered wrongly"
    )
    return 1 if slow or wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
