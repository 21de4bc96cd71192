"""Choices, inputs and events that a long run handed over on the way make the same recording in the end."""

from __future__ import annotations

import stat

import pytest

from actors import Context, EventLog, RandomWalk, Replay, World, record
from actors.jsonl import write
from actors.log import INFO, Tail
from actors.recording import Recording, load
from actors.spool import Spool
from tests.actors.test_so_far import build, look


async def asked(ctx: Context) -> None:
    while True:
        message = await ctx.recv(idle=True)
        ctx.log("asked", data={"what": str(message.payload.value)})
        ctx.note("noted", data={"what": "more"})


def run(world: World, every: int, call) -> Recording:
    world.actor("asked", asked)
    for number in range(5):
        world.inlet().put_after(number * 20, "asked", f"input {number}")
    if every:
        look(world, every, call)
    result = world.run("bare")
    return record(result, package="1", header={"of": "test"}, strategy=world.strategy)


@pytest.mark.parametrize("level", [None, INFO])
@pytest.mark.parametrize("every", [1, 7, 1_000])
def test_a_recording_made_from_files_is_the_same_to_the_byte(tmp_path, every, level):
    options = {} if level is None else {"log": EventLog(level)}
    whole = run(build(RandomWalk(3), **options), 0, None)
    options = {} if level is None else {"log": EventLog(level)}
    world = build(RandomWalk(3), **options)
    spool, tail = Spool(tmp_path), Tail(world.log, forget=True)
    events = []

    def take():
        events.extend(tail.news())
        spool.take(world)

    recording = run(world, every, take)
    take()
    assert len(recording.choices) == 0
    target = tmp_path / "run.rec"
    target.touch()
    spool.finish(recording, target)
    assert target.read_bytes() == whole.to_bytes()
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.glob("*.part")} == {0o600}
    spool.close()
    assert [each.name for each in tmp_path.iterdir()] == ["run.rec"]
    found = load(target)
    again = build(Replay(found.choices, marks=found.marks), inputs=found.inputs)
    again.actor("asked", asked)
    assert again.run("bare").trace_hash == whole.trace_hash
    if level is None:
        lines, wanted = tmp_path / "a", tmp_path / "b"
        with lines.open("w") as file:
            write(events, file, "r")
        with wanted.open("w") as file:
            write(again.log, file, "r")
        assert lines.read_text() == wanted.read_text()


def test_a_log_that_was_read_keeps_nothing():
    world = build(RandomWalk(3))
    tail = Tail(world.log, forget=True)
    kept = []
    look(world, 5, lambda: (list(tail.news()), kept.append(len(world.log.chunks()))))
    world.run("bare")
    assert set(kept) == {0}


def test_a_log_told_to_keep_nothing_goes_on_hashing():
    world = build(RandomWalk(3))
    world.log.keep_nothing()
    assert world.run("bare").trace_hash == build(RandomWalk(3)).run("bare").trace_hash
    assert list(world.log) == []
