"""OpenTelemetry's log data model in the JSON form of its protobuf."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.logs.export import otlp
from tests.logs.made import Made, event, logs

RANGES = {"TRACE": 1, "DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17, "FATAL": 21}
RECORD = {
    "timeUnixNano",
    "observedTimeUnixNano",
    "severityNumber",
    "severityText",
    "eventName",
    "body",
    "attributes",
    "traceId",
    "spanId",
}
UINT64 = 1 << 64


def check_value(value: dict) -> None:
    """One AnyValue: exactly one of its fields, of the right type."""
    ((kind, what),) = value.items()
    if kind == "stringValue":
        assert isinstance(what, str)
    elif kind == "boolValue":
        assert isinstance(what, bool)
    elif kind == "intValue":
        assert isinstance(what, str)
        assert -(1 << 63) <= int(what) < 1 << 63
    elif kind == "doubleValue":
        assert isinstance(what, float)
    elif kind == "arrayValue":
        for each in what["values"]:
            check_value(each)
    else:
        assert kind == "kvlistValue"
        check_attributes(what["values"])


def check_attributes(attributes: list[dict]) -> None:
    for each in attributes:
        assert set(each) == {"key", "value"}
        assert each["key"]
        check_value(each["value"])
    keys = [each["key"] for each in attributes]
    assert len(keys) == len(set(keys))


def check(text: str) -> list[tuple[str, dict]]:
    """Whether each line is a request that keeps the rules; its records with their service's name."""
    found = []
    for line in text.split("\n")[:-1]:
        for group in json.loads(line)["resourceLogs"]:
            attributes = group["resource"]["attributes"]
            check_attributes(attributes)
            names = {each["key"]: each["value"]["stringValue"] for each in attributes}
            for scope in group["scopeLogs"]:
                assert scope["scope"]["name"]
                for record in scope["logRecords"]:
                    check_record(record)
                    found.append((names["service.name"], record))
    return found


def check_record(record: dict) -> None:
    assert set(record) <= RECORD
    for key in ("timeUnixNano", "observedTimeUnixNano"):
        assert isinstance(record[key], str)  # 64 bits: a text
        assert 0 < int(record[key]) < UINT64
    assert record["severityNumber"] == RANGES[record["severityText"]]
    assert re.fullmatch("[0-9a-f]{32}", record["traceId"])
    assert int(record["traceId"], 16)
    if "spanId" in record:
        assert re.fullmatch("[0-9a-f]{16}", record["spanId"])
        assert int(record["spanId"], 16)
    assert record["eventName"]
    check_value(record["body"])
    check_attributes(record["attributes"])


def test_a_real_run_keeps_the_rules_and_every_event_is_a_record(run_log, run_lines):
    found = check("".join(otlp.lines(run_log)))
    lines = [line for line in run_lines if line.event != "log"]
    assert [(name, record["eventName"]) for name, record in found] == [
        (line.actor, line.event) for line in lines
    ]
    assert len({record["traceId"] for _, record in found}) == 1
    epoch = run_lines[0].data["epoch_ns"]
    for (_, record), line in zip(found, lines, strict=True):
        assert int(record["timeUnixNano"]) == epoch + round(line.t * 1e9)
        assert int(record.get("spanId", "0"), 16) == line.step


def test_levels_are_severities(run_log, run_lines):
    found = check("".join(otlp.lines(run_log)))
    texts = {"": "TRACE", "trace": "TRACE", "debug": "DEBUG", "info": "INFO", "warning": "WARN"}
    lines = (line for line in run_lines if line.event != "log")
    for (_, record), line in zip(found, lines, strict=True):
        assert record["severityText"] == texts[line.level]


@settings(max_examples=50)
@given(logs())
def test_any_log_keeps_the_rules(log):
    check("".join(otlp.lines(log)))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=4))
def test_data_of_any_shape_keeps_the_rules(data):
    line = event(1, "node.error", uid="u", rv=3, cause=(1, 2))
    line.data.update(data)
    check("".join(otlp.lines(Made((line,)))))


def test_batches_are_of_one_actor_and_bounded():
    lines = [event(n, "node.error", actor="a" if n < 700 else "b") for n in range(1, 1000)]
    requests = [json.loads(text) for text in otlp.lines(Made(tuple(lines)))]
    sizes = [len(r["resourceLogs"][0]["scopeLogs"][0]["logRecords"]) for r in requests]
    assert sizes == [512, 187, 300]
