"""Logs: steps per second with the log off, normal and full, writing lines, and questions to a million events.

The million is the log of one real run told over and over, each time with later steps and other names, as
runs of that size take minutes. Questions are asked of the file, no index is made first.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path

from actors import EventLog, LogEvent
from actors.jsonl import write
from actors.log import INFO
from actors.strategies.fifo import Fifo
from bench.harness import Row, rate, resident, seconds
from controlplane.logs import races, stats, summary
from controlplane.logs.answers import why
from controlplane.logs.reading import RunLog
from controlplane.logs.sql import query
from controlplane.logs.vocabulary import LEVEL_OF
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.manifest_run import SCENARIO

SHOP = Path(__file__).parents[1] / "examples" / "shop.yaml"
EVENTS = 1_000_000
MIB = 1 << 20


def execution(log: EventLog | None) -> Execution:
    """The shop on two nodes."""
    plan = plan_of(SCENARIO, files=(str(SHOP),), nodes=2)
    return Execution(plan, Fifo(), log=log)


def steps_per_second(log: EventLog | None, *, sampled: bool = False) -> int:
    run = execution(log)
    if sampled:
        run.sample()
    return run.execute("bare").steps


def written(events: list[LogEvent]) -> int:
    """Events as lines, and how many."""
    return write(events, StringIO(), "run", None, LEVEL_OF)


def told_again(lines: list[dict[str, object]]) -> Iterator[str]:
    """Events of a run of `EVENTS` events."""
    last = max(int(str(line["step"])) for line in lines)
    count = turn = 0
    while count < EVENTS:
        for line in lines:
            if line["event"] in ("log", "verdict"):
                continue
            moved = {**line, "step": int(str(line["step"])) + turn * last}
            if "cause" in line:
                moved["cause"] = [each + turn * last for each in line["cause"]]  # type: ignore[attr-defined]
            if "obj" in line:
                moved["obj"] = f"{line['obj']}-{turn}"
            yield json.dumps(moved, separators=(",", ":"), sort_keys=True) + "\n"
            count += 1
        turn += 1


def with_violation(path: Path, log: RunLog, pod: str) -> RunLog:
    """The same log, with an end that names a pod."""
    last = log.last()
    assert last is not None
    verdict = {
        "actor": "world",
        "data": {"verdict": "violated", "reason": f"law: {pod} waits for ever"},
        "event": "verdict",
        "level": "info",
        "run": "run",
        "step": last.step,
        "t": last.t,
        "task": "world",
    }
    ended = path.with_name("ended.jsonl")
    ended.write_bytes(path.read_bytes() + json.dumps(verdict).encode() + b"\n")
    return RunLog(ended)


def rows(repeat: int) -> list[Row]:
    found = [
        rate("steps, log off", "steps/s", repeat, lambda: steps_per_second(EventLog(keep=False))),
        rate(
            "steps, log of level info", "steps/s", repeat, lambda: steps_per_second(EventLog(INFO))
        ),
        rate("steps, full log", "steps/s", repeat, lambda: steps_per_second(None)),
        rate(
            "steps, full log and metrics over time",
            "steps/s",
            repeat,
            lambda: steps_per_second(None, sampled=True),
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        run = execution(None)
        run.execute("bare")
        one = Path(folder) / "one"
        events = list(run.world.log)
        run.save(one)
        found.append(rate("log.jsonl written", "events/s", repeat, partial(written, events)))
        text = (one / "log.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        size = len(text.encode()) / len(lines)
        found.append(Row("log.jsonl", "bytes/event", (size,)))
        path = Path(folder) / "log.jsonl"
        with path.open("w") as file:
            file.writelines(told_again(lines))
        del run, text, lines, events
        found += list(questions(path, repeat))
    return found


def questions(path: Path, repeat: int) -> Iterator[Row]:
    """What is asked of a million events, in seconds."""
    log = RunLog(path)
    pod = next(line for line in log if line.event == "scheduler.assumed").obj.removeprefix("Pod/")
    step = next(log.between(200_000, 1 << 60)).step
    ended = with_violation(path, log, pod)
    group = "SELECT actor, event, count(*) FROM events GROUP BY ALL"
    asked = {
        "summary": lambda: summary.summarise(log),
        "stats": lambda: stats.measure(log),
        "races": lambda: races.find(log),
        "why OBJECT": lambda: why(log, f"pod/{pod}"),
        "why STEP": lambda: why(log, str(step)),
        "why violation": lambda: why(ended, "violation"),
        "sql, group by": lambda: query([log], group),
    }
    for name, ask in asked.items():
        taken = tuple(seconds(ask)[0] for _ in range(repeat))
        yield Row(f"a million events: {name}", "s", taken)
    yield Row("a million events: memory afterwards", "MiB", (resident(os.getpid()) / MIB,))
