"""What emulated containers have written is a function of their pod and the time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.api.container_output import KEPT, KEPT_BYTES, output_of
from controlplane.api.times import SECOND, parse_time

START = parse_time("2026-01-01T00:00:00Z")
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED = {
    "terminated": {
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:03Z",
        "exitCode": 7,
    }
}


def pod(state, last=None, **notes):
    annotations = {
        f"emulate.controlplane/{key.replace('_', '-')}": text for key, text in notes.items()
    }
    return {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"nodeName": "n"},
        "status": {"containerStatuses": [{"name": "c", "state": state, "lastState": last or {}}]},
    }


def texts(tree, after=0, **options):
    return [line.text for line in output_of(tree, "c", START + after, **options).lines]


def test_start_and_end_are_told():
    assert texts(pod(RUNNING)) == ["container c started"]
    assert texts(pod(ENDED)) == ["container c started", "container c ended with exit code 7"]
    assert output_of(pod(ENDED), "c", START).ended
    assert not output_of(pod(RUNNING), "c", START).ended


def test_a_text_is_written_once_or_again_and_again():
    once = pod(RUNNING, log="a\nb {pod} {node}\n")
    assert texts(once, 9 * SECOND) == ["container c started", "a", "b p n"]
    often = pod(RUNNING, log="{n}", log_seconds="0.5")
    assert texts(often, 2 * SECOND) == ["container c started", "1", "2", "3"]
    assert texts(pod(ENDED, log="{n}", log_seconds="2"), 99 * SECOND)[1:3] == ["1", "2"]


def test_an_annotation_of_one_container_goes_before_that_of_all():
    tree = pod(RUNNING, log="all")
    tree["metadata"]["annotations"]["emulate.controlplane/log.c"] = "mine"
    assert texts(tree)[1:] == ["mine"]


def test_who_waits_for_the_next_life_shows_the_last_one():
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert texts(pod(waiting, ENDED)) == texts(pod(ENDED))
    assert texts(pod(RUNNING, ENDED), previous=True) == texts(pod(ENDED))
    assert texts(pod(waiting)) == []


@settings(max_examples=20)
@given(
    st.integers(0, 10**5), st.integers(0, 10**5), st.sampled_from(["0.01", "1", "x", "-1", "1e9"])
)
def test_what_was_written_stays_and_only_so_much_is_kept(one, more, every):
    tree = pod(RUNNING, log="{n}\nb", log_seconds=every)
    early = output_of(tree, "c", START + one * SECOND)
    late = output_of(tree, "c", START + (one + more) * SECOND)
    assert early.count <= late.count
    assert len(late.lines) <= KEPT + 1
    again = {late.first + at: line for at, line in enumerate(late.lines)}
    for at, line in enumerate(early.lines):
        assert again.get(early.first + at, line) == line


@pytest.mark.parametrize("text", ["x" * 200_000, "{pod}" * 40_000, "x\n" * 100_000, "{n}" * 60_000])
def test_the_bytes_that_are_kept_are_bounded(text):
    found = output_of(pod(RUNNING, log=text, log_seconds="0.01"), "c", START + 1000 * SECOND)
    size = sum(len(line.text) + 1 for line in found.lines)
    assert 0 < size <= KEPT_BYTES
    assert found.first + len(found.lines) == found.count
    assert found.lines[-1] == list(found.lines)[-1] == found.lines[len(found.lines) - 1]


def test_lines_are_made_when_they_are_asked_for():
    found = output_of(pod(RUNNING, log="a {n}\nb", log_seconds="1"), "c", START + 4 * SECOND)
    every = list(found.lines)
    assert [line.text for line in every] == [
        "container c started",
        "a 1",
        "b",
        "a 2",
        "b",
        "a 3",
        "b",
        "a 4",
        "b",
    ]
    assert [found.lines[at - len(every)] for at in range(len(every))] == every
    assert found.lines[2:5] == every[2:5]
    with pytest.raises(IndexError):
        found.lines[len(every)]
