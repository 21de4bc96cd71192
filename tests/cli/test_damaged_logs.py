"""Every question of `controlplane logs` to a log with damaged lines is answered from the rest of it."""

from __future__ import annotations

import json
import random

import pytest

from tests.cli.test_logs_commands import out as out

VALUES = (
    b"null",
    b"true",
    b"-1",
    b"1.5",
    b"1" + b"0" * 30,
    b"1e300",
    b'"x"',
    b'""',
    b"[]",
    b"[1]",
    b"{}",
    b'{"a":1}',
    b'"\xff"',
    b'"\\ud800"',
)
"""Values of each type of JSON, and text that is not JSON."""
QUESTIONS = (
    ("summary", "LOG"),
    ("stats", "LOG", "--format", "json"),
    ("events", "LOG", "--format", "json"),
    ("races", "LOG", "--all"),
    ("why", "pod/small", "--log", "LOG"),
    ("why", "violation", "--log", "LOG"),
    ("timeline", "pod/small", "--log", "LOG", "--all"),
    ("diff", "LOG", "RUN"),
    ("sql", "SELECT count(*) FROM writes", "--log", "LOG"),
    ("report", "LOG", "--log-only", "--format", "json", "-o", "OUT"),
    *(
        ("export", "LOG", "--format", form, "-o", "OUT")
        for form in ("perfetto", "shiviz", "otlp", "audit", "klog", "lnav")
    ),
)


def damaged_lines(lines, seed):
    """The lines of a log; of every kind of event one has a field, or a part of its data, of another type."""
    draw = random.Random(seed)
    of_kind: dict[str, list[int]] = {}
    for number, line in enumerate(lines[1:], 1):
        of_kind.setdefault(json.loads(line)["event"], []).append(number)
    made = list(lines)
    for numbers in of_kind.values():
        number = draw.choice(numbers)
        event = json.loads(lines[number])
        place = event
        if event.get("data") and draw.random() < 0.7:
            place = event["data"]
        place[draw.choice(sorted(place))] = "HERE"
        made[number] = json.dumps(event).encode().replace(b'"HERE"', draw.choice(VALUES)) + b"\n"
    return made


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: "-".join(question[:1]))
def test_no_damaged_line_ends_a_question(logs, out, tmp_path, question):
    lines = (out / "log.jsonl").read_bytes().splitlines(keepends=True)
    for seed in range(3):
        log = tmp_path / "log.jsonl"
        log.write_bytes(b"".join(damaged_lines(lines, seed)))
        places = {"LOG": log, "RUN": out, "OUT": tmp_path / "made"}
        status, _, said = logs(*(places.get(each, each) for each in question))
        assert status in (0, 1, 2), said
        assert "defect" not in said


def test_damaged_lines_are_said_after_the_answer(logs, out, tmp_path):
    lines = (out / "log.jsonl").read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b'"actor":"', b'"actor":"\xff')
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(lines))
    status, _, said = logs("summary", log)
    assert (status, said) == (
        0,
        f"controlplane: {log}: 1 line is no event, first line 6; the rest was read\n",
    )


def test_a_damaged_line_of_metrics_is_refused_with_its_number(logs, out, tmp_path):
    (tmp_path / "log.jsonl").write_bytes((out / "log.jsonl").read_bytes())
    lines = (out / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"name":"', b'"name":"\xff')
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(lines))
    status, _, said = logs("metrics", "--log", tmp_path)
    assert status == 2
    assert said.startswith(f"controlplane: {tmp_path / 'metrics.jsonl'}, line 2: ")


def test_a_text_that_is_not_utf_8_is_found_nowhere(logs, out):
    assert logs("events", out, "--text", "\udcff") == (0, "", "")
