"""Objects and requests made to stop a served world for all other clients, and the longest stop that each causes.

    python -m tests.chaos.stalls [--only WORD] [--verbose]

Each case gets a served world of its own. One client sends what the case says; another one asks
`/healthz` all the time. Measured is the processor time between two of its answers, and the longest
turn of one Trio task, with the places where the longest turn spent its time. Exit status 1 if
another client waits for more than a second of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import trio
from attrs import Factory, define

from actors import collector
from tests.apiserver.http.session import Session, served
from tests.chaos.stalling_objects import Case, cases

LIMIT_S: Final = 1.0
"""Processor seconds that another client may wait."""
PATIENCE_S: Final = 4.0
"""A turn that takes longer is interrupted: the case has failed."""
SAMPLE_S: Final = 0.02
QUIET: Final = 25
"""After so many cheap answers in a row nothing more is going on."""
CHEAP_S: Final = 0.02
BUDGET_S: Final = 8.0
"""Processor seconds that are looked at after the last request of a case."""
NODES: Final = 2
MEMORY: Final = 6 << 30
"""Bytes that one case may take."""


@define(eq=False)
class Watch(trio.abc.Instrument):
    """The longest turn of one Trio task, in processor seconds, and where it was spent."""

    give_up: Callable[[], None]
    longest: float = 0.0
    where: Counter[str] = Factory(Counter)
    begun: float | None = None
    _now: Counter[str] = Factory(Counter)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A turn begins."""
        self.begun = time.process_time()
        self._now = Counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A turn is over."""
        if self.begun is not None:
            took = time.process_time() - self.begun
            if took > self.longest:
                self.longest, self.where = took, self._now
        self.begun = None

    def sample(self, _signal: int, frame: FrameType | None) -> None:
        """Note which of our own functions are on the stack."""
        if self.begun is None:
            return
        stack = [
            f"{Path(each.filename).name}:{each.name}"
            for each in traceback.extract_stack(frame)
            if "/controlplane/" in each.filename or "/actors/" in each.filename
        ]
        self._now[" < ".join(list(dict.fromkeys(reversed(stack)))[:6])] += 1
        if time.process_time() - self.begun > PATIENCE_S:
            self.longest, self.where = PATIENCE_S, self._now
            self.give_up()


@define
class Prober:
    """A client that asks `/healthz` again and again."""

    session: Session
    longest: float = 0.0
    answers: int = 0
    cheap: int = 0
    """The answers in a row that came quickly."""

    async def run(self) -> None:
        """Ask for as long as the process lives."""
        stream = await self.session.connect()
        ask = b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
        async with stream:
            before = time.process_time()
            while True:
                await stream.send_all(ask)
                await stream.receive_some(65536)
                now = time.process_time()
                took, before = now - before, now
                self.answers += 1
                self.longest = max(self.longest, took)
                self.cheap = self.cheap + 1 if took < CHEAP_S else 0
                await trio.sleep(0.001 if took > CHEAP_S else 0.01)


@define
class Outcome:
    """The effect of a case on the other client."""

    name: str
    waited: float = 0.0
    turn: float = 0.0
    codes: tuple[int, ...] = ()
    where: Counter[str] = Factory(Counter)
    failed: str = ""

    @property
    def fine(self) -> bool:
        """True if no other client waited too long."""
        return not self.failed and max(self.waited, self.turn) < LIMIT_S


async def tried(case: Case, outcome: Outcome, watch: Watch, over: Callable[[], NoReturn]) -> None:
    """Send what the case says to a served world, and let it go on until it is quiet."""
    sent = [
        each if callable(each) else (*each[:2], _raw(each[2]), each[3]) for each in case.requests
    ]
    async with served(nodes=NODES, controllers="*") as session, trio.open_nursery() as nursery:
        prober = Prober(session)
        nursery.start_soon(prober.run)
        await _quiet(prober, 5.0)
        prober.longest = 0.0
        watch.longest = 0.0
        for each in sent:
            outcome.codes += (await (each(session) if callable(each) else _sent(session, *each)),)
        prober.cheap = 0
        await _quiet(prober, BUDGET_S)
        outcome.waited, outcome.turn, outcome.where = prober.longest, watch.longest, watch.where
        over()


def _raw(body: Any) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    assert len(raw) <= 3 << 20, len(raw)
    return raw


async def _sent(session: Session, method: str, path: str, raw: bytes, media: str) -> int:
    with trio.move_on_after(30):
        answer = await session.ask(method, path, raw, Content_Type=media)
        if answer.code >= 400:
            print("   ", answer.code, answer.body[:160], file=sys.stderr)
        return answer.code
    return 0


async def _quiet(prober: Prober, budget: float) -> None:
    until = time.process_time() + budget
    with trio.move_on_after(30):
        while prober.cheap < QUIET and time.process_time() < until:
            await trio.sleep(0.05)


def measured(case: Case) -> Outcome:
    """Return the result of one case, tried in a process of its own; errors are part of the result."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _try(case, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as given:
        raw = given.read()
    os.waitpid(child, 0)
    return pickle.loads(raw) if raw else Outcome(case.name, failed="the process ended")


def _try(case: Case, writing: int) -> NoReturn:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    outcome = Outcome(case.name)

    def finish() -> NoReturn:
        with os.fdopen(writing, "wb") as taken:
            pickle.dump(outcome, taken)
        os._exit(0)

    def give_up() -> None:
        outcome.failed = "given up"
        outcome.waited, outcome.turn, outcome.where = watch.longest, watch.longest, watch.where
        finish()

    watch = Watch(give_up)
    signal.signal(signal.SIGPROF, watch.sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    try:
        trio.run(tried, case, outcome, watch, finish, instruments=[watch])
    except BaseException as error:
        outcome.failed = "".join(traceback.format_exception(error)).strip()[-600:]
        outcome.waited = max(outcome.waited, watch.longest)
        outcome.turn, outcome.where = watch.longest, watch.where
    finish()


def main() -> int:
    """Measure; 1 if another client of any case waits too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--verbose", action="store_true", help="where the longest turns went")
    asked = parser.parse_args()
    collector.rest()
    bad = 0
    for case in cases():
        if asked.only not in case.name:
            continue
        outcome = measured(case)
        bad += not outcome.fine
        print(
            f"{outcome.waited:8.3f} s waited {outcome.turn:8.3f} s turn {'  ' if outcome.fine else '!!'} "
            f"{case.name} {outcome.codes} {outcome.failed}",
            flush=True,
        )
        if asked.verbose and outcome.turn > LIMIT_S / 4:
            for place, count in outcome.where.most_common(4):
                print(f"      {count * SAMPLE_S:6.2f} s {place}", flush=True)
    print(f"{bad} of the cases stop other clients for a second or more")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
