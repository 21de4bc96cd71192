"""Recordings: what a file brings back, and what is refused."""

from __future__ import annotations

import zlib
from hashlib import blake2b

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    Choice,
    ChoiceList,
    Context,
    EventLog,
    PrefixThenContinue,
    RandomWalk,
    RecordingError,
    Replay,
    Strategy,
    World,
    record,
)
from actors.kernel import Named
from actors.recording import CHECKSUM_BYTES, MAGIC, from_bytes, load
from tests.actors.worlds import lost_update


def recorded(seed: int = 4):
    strategy = RandomWalk(seed)
    result = lost_update(strategy).run("bare")
    return record(result, package="1.2.3", header={"scenario": "lost update"}, strategy=strategy)


def test_a_recording_comes_back_from_its_bytes():
    recording = recorded()
    again = from_bytes(recording.to_bytes(), "x")
    assert again == recording
    assert again.to_bytes() == recording.to_bytes()


def test_saved_and_loaded(tmp_path):
    recording = recorded()
    recording.save(tmp_path / "run.rec")
    assert load(tmp_path / "run.rec", package="1.2.3") == recording
    assert [path.name for path in tmp_path.iterdir()] == ["run.rec"]


def test_a_recording_of_another_version_is_refused(tmp_path):
    recorded().save(tmp_path / "run.rec")
    with pytest.raises(
        RecordingError, match=r"run\.rec: recorded by version '1\.2\.3', this is '2\.0'"
    ):
        load(tmp_path / "run.rec", package="2.0")


def sealed(packed: bytes) -> bytes:
    """As a file begins whose content is this."""
    return MAGIC + blake2b(packed, digest_size=CHECKSUM_BYTES).digest() + packed


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not a recording"),
        (b"hello", "not a recording"),
        (b"\x81\xa6format\x01", "not a recording of this version"),
        (sealed(b"\x81\xa6format\x63"), "format 99"),
        (sealed(b"\x81\xa6format\x02"), "damaged"),
        (sealed(b"hello"), "not a recording"),
        (sealed(b"\x81\xa6format\x02")[:-1] + b"\x03", "checksum is wrong"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_line(raw, message):
    with pytest.raises(RecordingError, match=message) as caught:
        from_bytes(raw, "f.rec")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("f.rec: ")


def test_any_cut_of_a_recording_is_refused():
    raw = recorded().to_bytes()
    for length in range(0, len(raw), 7):
        with pytest.raises(RecordingError):
            from_bytes(raw[:length], "cut")


def test_a_flipped_bit_is_named_as_damage():
    raw = bytearray(recorded().to_bytes())
    for at in range(len(raw) // 2, len(raw), 97):
        raw[at] ^= 4
        with pytest.raises(RecordingError, match="checksum is wrong"):
            from_bytes(bytes(raw), "bent")
        raw[at] ^= 4


def drifting(strategy: Strategy, offset: int, *, points: int = 400, keep: bool = True) -> World:
    """A world that logs a number that no choice decides, as one does that uses id()."""
    world = World(strategy=strategy, log=EventLog(keep=keep))

    async def main(ctx: Context) -> None:
        for number in range(points):
            await ctx.point("work")
            if number == points - 100:
                ctx.log("number", data={"value": offset})

    world.actor("main", main)
    return world


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("points", [50 + 100, 400, 1000])
def test_a_replay_with_another_trace_is_refused_at_the_step_that_differs(points, keep):
    first = drifting(RandomWalk(1), 1, points=points, keep=keep).run("bare")
    again = drifting(Replay(first.choices, marks=first.marks), 1, points=points).run("bare")
    assert again.verdict == "quiescent"
    other = drifting(Replay(first.choices, marks=first.marks), 2, points=points).run("bare")
    assert other.verdict == "diverged"
    if keep:
        assert f"step {points - 98}: the trace differs" in other.reason
        assert "'number'" in other.reason
    else:
        assert "the trace differs from the recording between steps" in other.reason


def test_reading_the_log_half_way_moves_no_mark():
    def run(look: bool):
        world = drifting(RandomWalk(1), 1, points=1000)
        if look:
            world.observe(100, lambda: [*world.log][:1] and None)
        return world.run("bare")

    assert run(look=True).marks == run(look=False).marks


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(RecordingError, match="cannot be read"):
        load(tmp_path / "none.rec")


def test_a_strict_replay_stops_at_the_first_difference_and_shows_both_sides():
    first = lost_update(RandomWalk(4)).run("bare")
    choices = list(first.choices)
    wrong = choices[5]._replace(label="somebody/else")
    world = lost_update(Replay(ChoiceList.of([*choices[:5], wrong, *choices[6:]])))
    result = world.run("bare")
    assert result.verdict == "diverged"
    assert "choice 5" in result.reason
    assert "somebody/else" in result.reason
    assert "client-" in result.reason


def test_a_strict_replay_notices_a_list_that_is_too_short_or_too_long():
    first = lost_update(RandomWalk(4)).run("bare")
    choices = list(first.choices)
    short = lost_update(Replay(ChoiceList.of(choices[:-3]))).run("bare")
    assert short.verdict == "diverged"
    assert "ends after" in short.reason
    clean = World()

    async def nothing(ctx: Context) -> None:
        await ctx.point("done")

    clean = World(strategy=Replay(ChoiceList.of(choices[:2])))
    clean.actor("only", nothing)
    result = clean.run("bare")
    assert result.verdict == "diverged"
    assert "2 recorded choices unused" in result.reason


def test_a_clamping_replay_takes_what_fits_and_counts():
    strategy = Replay(ChoiceList.of([Choice("task", 99, 98, "nobody")] * 500), clamp=True)
    result = lost_update(strategy).run("bare")
    assert result.verdict in {"quiescent", "violated"}
    assert strategy.clamped > 0


def test_a_prefix_is_followed_and_then_left():
    first = lost_update(RandomWalk(4)).run("bare")
    strategy = PrefixThenContinue(first.choices, RandomWalk(9), length=10)
    other = lost_update(strategy).run("bare")
    assert list(other.choices)[:10] == list(first.choices)[:10]
    assert other.trace_hash != first.trace_hash
    same = lost_update(PrefixThenContinue(first.choices, RandomWalk(9))).run("bare")
    assert same.trace_hash == first.trace_hash


def test_a_prefix_may_end_with_a_step():
    first = lost_update(RandomWalk(4)).run("bare")
    strategy = PrefixThenContinue(first.choices, RandomWalk(9), until_step=5)
    world = lost_update(strategy)
    world.run("bare")
    other = lost_update(RandomWalk(4))
    other.run("bare")
    here = [event for event in world.log if event.step <= 5]
    assert here == [event for event in other.log if event.step <= 5]
    assert strategy.parameters()["until_step"] == 5


def test_after_a_prefix_dull_choices_are_answered_so():
    walk = RandomWalk(9)
    strategy = PrefixThenContinue(ChoiceList(), walk, default_kinds=("task",))
    strategy.begin()
    options = [Named("one"), Named("two"), Named("three")]
    assert {strategy.choose("task", options, 1) for _ in range(20)} == {0}
    assert {strategy.choose("message", options, 1) for _ in range(40)} == {0, 1, 2}


choice = st.builds(
    lambda kind, n, value, label: Choice(kind, n, value % n, label),
    st.sampled_from(["task", "message", "fault"]),
    st.integers(2, 2**20 - 1),
    st.integers(0, 2**20),
    st.text(max_size=5),
)


@pytest.mark.slow
@given(st.lists(choice, max_size=30))
def test_a_choice_list_keeps_what_it_is_given(choices):
    assert list(ChoiceList.of(choices)) == choices


def resealed(data: object) -> bytes:
    return sealed(msgpack.packb(data))


def content() -> dict[str, object]:
    start = len(MAGIC) + CHECKSUM_BYTES
    found: dict[str, object] = msgpack.unpackb(recorded().to_bytes()[start:])
    return found


WHOLE = recorded().to_bytes()


@given(st.data())
def test_whatever_bytes_are_damaged_it_is_read_or_refused_in_one_line(data):
    packed = bytearray(WHOLE[len(MAGIC) + CHECKSUM_BYTES :])
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)) | st.just(len(packed)))
    try:
        from_bytes(sealed(bytes(packed[:cut])), "f.rec")  # the checksum does not betray it
    except RecordingError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("f.rec: ")


@pytest.mark.parametrize(
    "packed",
    [
        b"\x81\xa6format" + b"\x91" * 100_000 + b"\xc0",
        b"\x81" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\xa6format\x02",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\x81\x90\x01",
        b"\x81\x80\x01",
    ],
    ids=[
        "deep",
        "deep keys",
        "long list",
        "long map",
        "long bytes",
        "long text",
        "list key",
        "map key",
    ],
)
def test_depths_and_lengths_that_are_none_are_refused_in_one_line(packed):
    with pytest.raises(RecordingError, match="not a recording") as caught:
        from_bytes(sealed(packed), "f.rec")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "part",
    [
        {"checks": zlib.compress(bytes(1 << 26), 9)},
        {"checks": zlib.compress(b"1" * 100)[:-3]},
        {"steps": float("inf")},
        {"steps": "9" * 5000},
        {"inputs": [[1, 2]]},
        {"inputs": [["1", 2, "a", b""]]},
        {"choices": [1 << 63, 1, 0]},
        {"choices": [0, "x", 0]},
        {"labels": [["a\nb"]]},
        {"header": 7},
        {"digests": 1},
    ],
    ids=lambda part: next(iter(part)),
)
def test_parts_of_another_form_are_refused_in_one_line(part):
    with pytest.raises(RecordingError, match="damaged recording") as caught:
        from_bytes(resealed({**content(), **part}), "f.rec")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
