"""Filters find what a look at every line finds."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.errors import UsageError
from controlplane.logs import open_run
from controlplane.logs.filtering import Filter, span_of
from controlplane.logs.reading import Line, follow
from controlplane.logs.vocabulary import LEVELS

ASKED = {
    "obj": ["", "pod/b", "Pod/default/too-big", "node/node-1", "pod/default/none"],
    "kind": ["", "pod", "Node", "lease"],
    "actor": ["", "scheduler", "node-*", "*"],
    "event": ["", "apiserver.write", "scheduler.*", "start"],
    "level": ["", *LEVELS],
    "text": ["", "binding", "TaintToleration", '"verb":"create pods"', "zzz"],
    "steps": [None, (0, 0), (5, 300), (650, 700), (1000, 10**9)],
    "times": [None, (0.0, 0.0), (8.0, 41.5)],
}
OBJECTS = {
    "pod/b": "Pod/default/b",
    "Pod/default/too-big": "Pod/default/too-big",
    "node/node-1": "Node/node-1",
    "pod/default/none": "",
}
decode = msgspec.json.Decoder(Line).decode


def wanted(text: str, line: Line, asked) -> bool:
    conditions = [
        not asked["obj"] or line.obj == OBJECTS[asked["obj"]] != "",
        not asked["kind"] or line.obj.split("/")[0].lower() == asked["kind"].lower(),
        fnmatchcase(line.actor, asked["actor"] or "*"),
        fnmatchcase(line.event, asked["event"] or "*"),
        not asked["level"] or line.level in LEVELS[LEVELS.index(asked["level"]) :],
        asked["text"] in text,
        asked["steps"] is None or asked["steps"][0] <= line.step <= asked["steps"][1],
        asked["times"] is None or asked["times"][0] <= line.t <= asked["times"][1],
    ]
    return all(conditions)


@pytest.fixture(scope="module")
def texts(log_file):
    return [(text, decode(text)) for text in log_file.read_text().splitlines()]


@settings(max_examples=60)
@given(asked=st.fixed_dictionaries({key: st.sampled_from(each) for key, each in ASKED.items()}))
def test_filters_agree_with_a_look_at_every_line(run_log, texts, asked):
    found = list(Filter(**asked).of(run_log))
    assert found == [line for text, line in texts if wanted(text, line, asked)]


@pytest.mark.parametrize("name", ASKED)
def test_each_filter_alone_agrees_as_well(run_log, texts, name):
    nothing = {key: each[0] for key, each in ASKED.items()}
    for value in ASKED[name]:
        asked = {**nothing, name: value}
        found = list(Filter(**asked).of(run_log))
        assert found == [line for text, line in texts if wanted(text, line, asked)]


def test_a_log_that_is_followed_is_filtered_as_well(log_file, texts):
    found = [line.step for line in follow(log_file, lambda: False, "binding")]
    assert found == [line.step for text, line in texts if "binding" in text]
    filtered = filter(Filter(steps=(5, 9)).wants, follow(log_file, lambda: False))
    assert {line.step for line in filtered} == {5, 6, 7, 8, 9}


def test_in_python_events_are_plain_dicts(log_file):
    (found,) = open_run(log_file).events(event="verdict")
    assert found["data"]["verdict"] == "quiescent"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("3-5", (3, 5)),
        ("3-", (3, float("inf"))),
        ("-5", (0, 5)),
        ("7", (7, 7)),
        ("0.5-1.25", (0.5, 1.25)),
    ],
)
def test_spans(text, span):
    assert span_of(text, "--time") == span


@pytest.mark.parametrize("text", ["", "5-3", "a", "1-2-3", "nan", "nan-4", "4-nan", "inf"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(UsageError, match=r"--time .*: expected FIRST-LAST"):
        span_of(text, "--time")
