"""Cron schedules against the package cronsim.

Both take five fields. What robfig/cron, upstream's, reads otherwise is left out of the texts: 7 for Sunday, which it
refuses, and a star with a step beside a restricted other day field.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.controllers.workloads.cronjob.schedule import parse

cronsim = pytest.importorskip("cronsim")

BOUNDS = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))


@st.composite
def fields(draw, low: int, high: int, *, stars: bool = True) -> str:
    """A field: a list of numbers, ranges and steps; or a star."""
    if stars and draw(st.booleans()):
        return "*"
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(low, high))
        last, step = draw(st.integers(first, high)), draw(st.integers(1, 7))
        forms = [f"{first}-{last}", f"{first}-{last}/{step}"] if last > first else [str(first)]
        parts.append(draw(st.sampled_from(forms)))
    return ",".join(parts)


TEXTS = st.tuples(*(fields(low, high) for low, high in BOUNDS)).map(" ".join)
MOMENTS = st.integers(0, 3 * 365 * 24 * 60).map(
    lambda minutes: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)


@pytest.mark.slow
@settings(max_examples=300)
@given(TEXTS, MOMENTS)
def test_the_next_times_are_the_same(text, moment):
    schedule = parse(text)
    at = int(moment.timestamp()) * 1_000_000_000
    for wanted in islice(cronsim.CronSim(text, moment), 3):
        at = schedule.next(at)
        assert at == int(wanted.timestamp()) * 1_000_000_000


@given(st.integers(2, 20), MOMENTS)
def test_steps_from_a_star_are_the_same(step, moment):
    text = f"*/{step} */{step} * * *"
    wanted = next(cronsim.CronSim(text, moment))
    at = parse(text).next(int(moment.timestamp()) * 1_000_000_000)
    assert at == int(wanted.timestamp()) * 1_000_000_000
