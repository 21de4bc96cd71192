"""Tries on several processes: handed out a few at a time, and taken in their order."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import ProcessPoolExecutor, wait
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.check.campaign import Check, Outcome, outcome_of
from controlplane.scenarios.engine.plan import plan_of_header
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.parallel import begin_worker, cut_short, start_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from controlplane.scenarios.check.campaign import Try
    from controlplane.scenarios.check.events import Event

__all__ = ["shared"]

AHEAD: Final = 2
"""The number of tries that each process has at hand."""
LOOK_S: Final = 0.5


def shared(
    jobs: int,
    check: Check,
    tries: Sequence[Try],
    over: Callable[[], bool],
    progress: Callable[[Try], None],
    restless: Sequence[Event],
) -> Iterator[tuple[Try, Outcome]]:
    """Carry out tries on `jobs` processes; each with what it came to, in their order (`campaign.in_order`)."""
    context = start_context()
    told: Any = context.RawValue("b", 0)
    header = json.dumps({**check.plan.header(), "seed": check.plan["seed"]})
    waiting: deque[tuple[Try, Future[Outcome] | None]] = deque()
    left = iter(tries)
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=begin_worker, initargs=(told,)
    ) as pool:
        while True:
            while len(waiting) < AHEAD * jobs and (each := next(left, None)) is not None:
                skipped = each.is_vain(restless)
                waiting.append((each, None if skipped else pool.submit(work, header, each)))
            if not waiting:
                return
            each, future = waiting.popleft()
            progress(each)
            while future is not None and not future.done() and not over():
                wait((future,), LOOK_S)
            if over():
                told.value = 1
                pool.shutdown(wait=True, cancel_futures=True)
                return
            yield each, Outcome(()) if future is None else future.result()


def work(header: str, each: Try) -> Outcome:
    """Carry out a try in a worker; nothing if the search is to end."""
    return Outcome(()) if cut_short() else outcome_of(_check_of(header).executed(each))


@lru_cache(maxsize=1)
def _check_of(header: str) -> Check:
    from controlplane.scenarios.check import scenario

    return Check(plan_of_header(loading.from_module(scenario.__name__), json.loads(header)))
