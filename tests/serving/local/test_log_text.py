"""The lines of log files: two formats, and what options leave of them."""

from __future__ import annotations

import pytest

from controlplane.api.host_access import LogOptions
from controlplane.api.times import parse_time
from controlplane.serving.local.log_text import LogError, LogText

ONE = b"2026-01-01T00:00:01.5Z stdout F one\n"
TWO = b"2026-01-01T00:00:02+01:00 stderr F two\n"


def shown(*lines, **options):
    text = LogText(LogOptions(**options))
    found = []
    for line in lines:
        if text.done:
            break
        found.append(text.of(line))
    return [each for each in found if each is not None]


def test_lines_of_cri_have_a_stream_and_a_text():
    assert shown(ONE, TWO) == [("stdout", b"one\n"), ("stderr", b"two\n")]


def test_lines_of_docker_have_a_stream_and_a_text():
    line = b'{"log":"x\\n","stream":"stderr","time":"2026-01-01T00:00:01Z"}\n'
    assert shown(line) == [("stderr", b"x\n")]


def test_a_partial_line_goes_on_in_the_next_and_has_one_time():
    part = b"2026-01-01T00:00:01Z stdout P:x half \n"
    rest = b"2026-01-01T00:00:02Z stdout F whole\n"
    dated = shown(part, rest, ONE, timestamps=True)
    assert b"".join(data for _, data in dated) == (
        b"2026-01-01T00:00:01.000000000Z half whole\n2026-01-01T00:00:01.500000000Z one\n"
    )


def test_a_time_keeps_its_zone():
    assert shown(TWO, timestamps=True) == [("stderr", b"2026-01-01T00:00:02.000000000+01:00 two\n")]


def test_older_lines_are_left_out():
    assert shown(ONE, TWO, since=parse_time("2026-01-01T00:00:01Z")) == [("stdout", b"one\n")]


def test_a_limit_cuts_the_last_line():
    assert shown(ONE, TWO, ONE, limit=6) == [("stdout", b"one\n"), ("stderr", b"tw")]


def test_of_a_tail_no_more_lines_are_sent_than_were_asked_for():
    assert shown(ONE, TWO, tail=1) == [("stdout", b"one\n")]
    assert shown(ONE, tail=0) == []


def test_the_first_line_decides_on_the_format():
    with pytest.raises(LogError, match='unsupported log format: "hello'):
        shown(b"hello\n")
    assert shown(ONE, b"hello\n", b"{}\n", TWO) == shown(ONE, TWO)


@pytest.mark.parametrize(
    "line",
    [
        b"\xff stdout F x\n",
        b"2026-01-01T00:00:01Z nowhere F x\n",
        b"2026-01-01T00:00:01Z stdout F\n",
        b'{"log":5}\n',
        b"[1]\n",
        b"[" * 100_000 + b"\n",
        b"\n",
    ],
)
def test_no_line_of_another_form_is_read(line):
    with pytest.raises(LogError, match="unsupported log format"):
        shown(line)


def test_a_line_of_docker_without_a_stream_is_an_error():
    with pytest.raises(LogError, match='unexpected stream type ""'):
        shown(b'{"log":"x"}\n')
