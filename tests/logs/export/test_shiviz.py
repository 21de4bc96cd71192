"""ShiViz's rules, as its parser and its graph of events check them."""

from __future__ import annotations

import json
import re
from collections import Counter

from hypothesis import given, settings

from controlplane.logs.export import shiviz
from tests.logs.made import Made, event, logs, step


def parsed(text: str) -> list[tuple[str, str, dict[str, int]]]:
    """Text, host and clock of each event: line 1 is the expression, line 2 delimits runs, as in an upload."""
    expression, delimiter, body = text.split("\n", 2)
    assert delimiter == ""
    pattern = re.compile(expression.replace("(?<", "(?P<"))
    assert {"event", "host", "clock"} <= set(pattern.groupindex)
    found, at = [], 0
    while at < len(body):
        match = pattern.match(body, at)
        assert match is not None, body[at : at + 200]
        found.append((match["event"], match["host"], json.loads(match["clock"])))
        at = match.end()
        assert body[at] == "\n"
        at += 1
    return found


def check(events: list[tuple[str, str, dict[str, int]]]) -> None:
    counts = Counter(host for _, host, _ in events)
    own: Counter[str] = Counter()
    for _, host, clock in events:
        own[host] += 1
        assert clock[host] == own[host]  # begins with 1 and rises by 1
        for name, value in clock.items():
            assert isinstance(value, int)
            assert 1 <= value <= counts[name]  # no zeros; of events that there are
    clocks = {(host, clock[host]): clock for _, host, clock in events}
    for key, clock in clocks.items():
        for heard in clock.items():
            if heard == key:
                continue
            # What led here knows less, and nothing of this event: no circle.
            before = clocks[heard]
            assert all(clock.get(name, 0) >= value for name, value in before.items())
            assert before.get(key[0], 0) < key[1]


def test_a_real_run_keeps_the_rules_and_every_step_is_an_event(run_log):
    events = parsed("".join(shiviz.lines(run_log)))
    check(events)
    steps = [line for line in run_log if line.is_step]
    assert [host for _, host, _ in events] == [line.actor for line in steps]
    assert any(len(clock) > 3 for _, _, clock in events)


@settings(max_examples=50)
@given(logs())
def test_any_log_keeps_the_rules(log):
    check(parsed("".join(shiviz.lines(log))))


@settings(max_examples=50)
@given(logs())
def test_a_step_knows_of_what_led_to_it_and_of_nothing_else(log):
    steps = [line for line in log if line.is_step]
    led: dict[int, set[int]] = {}
    last: dict[str, int] = {}
    for line in steps:
        causes = [c for other in log.between(line.step, line.step) for c in other.cause]
        causes += [last[line.actor]] if line.actor in last else []
        led[line.step] = {line.step}.union(*(led[cause] for cause in causes))
        last[line.actor] = line.step
    events = parsed("".join(shiviz.lines(log)))
    numbers = {(host, clock[host]): at for at, (_, host, clock) in enumerate(events, 1)}
    for at, (_, _, clock) in enumerate(events, 1):
        known = {numbers[name, n] for name, value in clock.items() for n in range(1, value + 1)}
        assert known == led[at]


def test_what_a_message_brings_is_known_and_texts_stay_on_their_line():
    log = Made(
        (
            step(1, "user"),
            step(2, "apiserver"),
            event(2, "message", actor="apiserver", level="trace", cause=(1,), message="get"),
            event(2, "node.error", actor="apiserver", message="two\nlines {}"),
        )
    )
    events = parsed("".join(shiviz.lines(log)))
    assert events[1] == (
        "step 2 main: p; node.error: two lines {}",
        "apiserver",
        {"apiserver": 1, "user": 1},
    )
