"""A campaign of requests, in process or over HTTP: what failed is shrunk and printed as a test.

    python -m tests.chaos.fuzz --requests 10000 --seed 0 [--workers 2]
    python -m tests.chaos.fuzz --requests 10000 --seed 0 --http

The same seed stands for the same requests. Exit status 1 when something was found, 2 for wrong use.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.fuzz import traffic
from tests.chaos.fuzz.process import Process
from tests.chaos.fuzz.shrinking import Shrinking, as_test
from tests.chaos.fuzz.tally import Tally

DURABLE = 5
"""Every so many episodes one has a store in a file."""
SHOWN = 8
"""How many findings of different kinds are shrunk."""


def is_durable(number: int) -> bool:
    """Whether an episode has a store in a file."""
    return number % DURABLE == DURABLE - 1


def episode(seed: int, number: int, length: int) -> Tally:
    """One episode in process."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        process = Process(Path(folder, "store.db") if is_durable(number) else None)
        for at, message in enumerate(traffic.requests(seed, number, length=length)):
            tally.count(message, process.send(message))
            tally.findings += [(number, at, each) for each in process.findings]
            process.findings.clear()
        tally.findings += [(number, -1, each) for each in process.end()]
    return tally


def _episode(given: tuple[int, int, int]) -> Tally:
    return episode(*given)


def episodes(requests: int, seed: int, workers: int) -> Iterator[Tally]:
    """All episodes of a campaign, in order."""
    wanted = [
        (seed, number, min(traffic.EPISODE, requests - start))
        for number, start in enumerate(range(0, requests, traffic.EPISODE))
    ]
    if workers == 1:
        yield from map(_episode, wanted)
        return
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        yield from pool.imap(_episode, wanted, chunksize=4)


def in_process(requests: int, seed: int, workers: int) -> Tally:
    """The campaign in process; progress goes to standard error."""
    total, began, told = Tally(), time.monotonic(), 0.0
    for each in episodes(requests, seed, workers):
        total.add(each)
        for number, at, finding in each.findings:
            told_of = f"{finding.kind}: {finding.text}"
            print(f"episode {number}, request {at}: {told_of}", file=sys.stderr, flush=True)
        took = time.monotonic() - began
        if took - told > 30:
            told = took
            print(
                f"{total.requests} requests, {total.requests / took:.0f}/s,"
                f" {len(total.findings)} findings",
                file=sys.stderr,
                flush=True,
            )
    return total


def explain(total: Tally, seed: int, requests: int) -> None:
    """Print what was found, each kind once and small."""
    shown: dict[tuple[str, str], int] = {}
    for number, at, finding in total.findings:
        kind = (finding.kind, finding.text)
        shown[kind] = shown.get(kind, 0) + 1
        if shown[kind] > 1 or len(shown) > SHOWN:
            continue
        print(
            f"\n== {finding.kind}: {finding.text}\n   seed {seed}, episode {number}, request {at}"
        )
        print(f"   {finding.detail[-1500:]}")
        length = min(traffic.EPISODE, requests - number * traffic.EPISODE)
        messages = traffic.requests(seed, number, length=length)
        if at >= 0:
            messages = messages[: at + 1]
        small = Shrinking(finding, durable=is_durable(number)).shrunk(messages)
        print(as_test(small, finding, durable=is_durable(number)), flush=True)
    for (name, text), often in sorted(shown.items(), key=lambda each: -each[1]):
        print(f"{often:>6} times {name}: {text}")


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.fuzz", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--requests", type=int, default=10_000, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    parser.add_argument("--http", action="store_true", help="over HTTP, to a server that is served")
    parser.add_argument("--workers", type=int, default=1, help="processes (%(default)s)")
    options = parser.parse_args(arguments)
    if options.requests < 1 or options.workers < 1:
        parser.error("--requests and --workers: expected 1 or more")
    began = time.monotonic()
    if options.http:
        from tests.chaos.fuzz.wire import over_http

        total = over_http(options.requests, options.seed)
    else:
        total = in_process(options.requests, options.seed, options.workers)
    took = time.monotonic() - began
    resources = [f"{each.group}/{each.resource}" for each in traffic.served()]
    resources += [
        f"{each.group}/{each.resource}/{sub[0]}"
        for each in traffic.served()
        for sub in each.subresources
    ]
    print(total.table(sorted(dict.fromkeys(resources))))
    if total.findings and not options.http:
        explain(total, options.seed, options.requests)
    elif total.findings:
        for number, at, finding in total.findings[:40]:
            print(
                f"\n== {finding.kind}: {finding.text} (connection {number}, request {at})\n{finding.detail[-1500:]}"
            )
    print(
        f"{total.requests} requests in {took:.0f} s, {total.requests / took:.0f}/s: {len(total.findings)} findings"
    )
    return int(bool(total.findings))
