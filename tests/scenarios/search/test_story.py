"""A finding of the catalogue is shrunk and told: few decisions, and which read went wrong."""

from __future__ import annotations

from functools import cache

import pytest
from attrs import evolve

from controlplane.scenarios.search.shrinking import shorten
from controlplane.scenarios.search.story import LINES, story_of
from tests.races.findings import finding


@cache
def short_of(number: str):
    campaign, found = finding(number)
    return shorten(campaign.plan, found.result.choices, runs=300)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["138324", "93044"])
def test_a_race_comes_down_to_three_decisions_and_replays(number: str) -> None:
    short = short_of(number)
    assert short.shrunk.deviations <= 3
    assert short.failing.result.trace_hash == short.shrunk.result.trace_hash
    assert short.failing.result.verdict == "violated"
    assert short.passing is not None
    assert short.passing.result.ok


@pytest.mark.slow
def test_the_story_names_the_decision_the_parting_and_the_objects() -> None:
    told = story_of(short_of("93044"))
    lines = told.lines()
    assert len(lines) <= LINES
    assert lines[0].startswith("violated at step ")
    assert any("pods." in line and "waits" in line for line in lines)
    assert "where all is well" in told.parting
    assert any("Pod/default/big-" in line and "uid " in line for line in lines)


@pytest.mark.slow
def test_a_story_is_the_same_every_time() -> None:
    once, again = (story_of(of("138324")) for of in (short_of, short_of.__wrapped__))
    assert once.lines() == again.lines()
    assert once.to_json() == again.to_json()


def test_a_notebook_shows_the_story_as_a_table_with_texts_escaped() -> None:
    told = story_of(short_of("93044"))
    events = told.events()
    html = evolve(told, violation="a < b & c")._repr_html_()
    assert html.startswith("<p>a &lt; b &amp; c<br>decision: ")
    assert html.count("<tr>") == 1 + len(events)
    assert all(f"<td>{each.step}</td>" in html for each in events)
