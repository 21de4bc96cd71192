"""Steps touch what they say: the debug check, and that it fails where it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors import Context, DebugChecks, EventLog, World
from actors.sharing import CHECK_FOOTPRINTS, Budget

if TYPE_CHECKING:
    from collections.abc import Callable


class Shelf:
    """Something that tasks of an actor share."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.limit = 3

    def put(self, item: str) -> None:
        self.items.append(item)

    def full(self) -> bool:
        return len(self.items) >= self.limit


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


def verdict(step: Callable[[Context, Shelf, Slotted], None], **options: bool) -> tuple[str, str]:
    """What comes of one step that shares a shelf and a number."""

    async def main(ctx: Context) -> None:
        shelf, slotted = Shelf(), Slotted()
        ctx.part("shelf", shelf, apart={"limit": ""})
        ctx.part("number", slotted)
        await ctx.point("work")
        step(ctx, shelf, slotted)
        await ctx.point("over")
        ctx.reads()

    world = World(log=EventLog(), checks=DebugChecks(footprints=True), **options)
    world.actor("one", main)
    result = world.run("bare")
    return result.verdict, result.reason


def test_a_step_that_says_what_it_touches_passes() -> None:
    def step(ctx: Context, shelf: Shelf, slotted: Slotted) -> None:
        ctx.writes("shelf")
        ctx.reads("number")
        shelf.put(str(slotted.value))

    assert verdict(step)[0] == "quiescent"


def test_a_step_that_says_nothing_may_touch_everything() -> None:
    def step(_ctx: Context, shelf: Shelf, slotted: Slotted) -> None:
        slotted.value = 1
        shelf.put("a")

    assert verdict(step)[0] == "quiescent"


def test_a_read_that_was_not_declared_ends_the_run() -> None:
    def step(ctx: Context, shelf: Shelf, slotted: Slotted) -> None:
        ctx.writes("shelf")
        shelf.put(str(slotted.value))

    assert verdict(step) == (
        "violated",
        "steps touch what they say: step 2 of one/main from 'work' looks at 'number'"
        " of its actor's memory, and does not say so",
    )


def test_a_write_to_what_was_to_be_read_ends_the_run() -> None:
    def step(ctx: Context, _shelf: Shelf, slotted: Slotted) -> None:
        ctx.reads("number")
        slotted.value = 1

    assert "writes 'number'" in verdict(step)[1]


def test_a_change_within_what_was_to_be_read_ends_the_run() -> None:
    def step(ctx: Context, shelf: Shelf, _slotted: Slotted) -> None:
        ctx.reads("shelf")
        shelf.put("a")

    assert "changes 'shelf'" in verdict(step)[1]


def test_looking_at_what_was_to_be_read_is_no_change() -> None:
    def step(ctx: Context, shelf: Shelf, _slotted: Slotted) -> None:
        ctx.reads("shelf")
        assert not shelf.full()

    assert verdict(step)[0] == "quiescent"


def test_what_does_not_change_needs_no_saying() -> None:
    def step(ctx: Context, shelf: Shelf, _slotted: Slotted) -> None:
        ctx.reads()
        assert shelf.limit == 3

    assert verdict(step)[0] == "quiescent"


def test_code_that_says_nothing_makes_a_step_blunt() -> None:
    def step(ctx: Context, shelf: Shelf, _slotted: Slotted) -> None:
        ctx.reads()
        ctx.undeclared()
        shelf.put("a")

    assert verdict(step)[0] == "quiescent"


def test_a_library_does_not_speak_for_its_caller() -> None:
    def step(ctx: Context, shelf: Shelf, _slotted: Slotted) -> None:
        ctx.touches("queue of a library")
        shelf.put("a")

    assert verdict(step)[0] == "quiescent"


def test_after_the_run_nothing_is_watched() -> None:
    shelves = []

    def step(_ctx: Context, shelf: Shelf, _slotted: Slotted) -> None:
        shelves.append(shelf)

    verdict(step)
    assert type(shelves[0]) is Shelf


@pytest.mark.parametrize("worlds", [0, 1])
def test_tests_have_worlds_checked_by_a_budget(worlds: int) -> None:
    token = CHECK_FOOTPRINTS.set(Budget(worlds))

    async def main(ctx: Context) -> None:
        shelf = Shelf()
        ctx.part("shelf", shelf)
        ctx.reads()
        shelf.put("a")

    try:
        world = World(log=EventLog())
        world.actor("one", main)
        assert world.run("bare").ok is (worlds == 0)
    finally:
        CHECK_FOOTPRINTS.reset(token)


def test_who_looks_from_outside_is_no_step() -> None:
    shelf = Shelf()
    seen = []

    async def main(ctx: Context) -> None:
        ctx.part("shelf", shelf)
        await ctx.point("work")
        ctx.reads()  # of the shelf nothing
        await ctx.point("over")
        ctx.reads()

    world = World(log=EventLog(), checks=DebugChecks(footprints=True))
    world.actor("one", main)
    world.observe(1, lambda: seen.append(shelf.full()))
    result = world.run("bare")
    assert (result.verdict, len(seen)) == ("quiescent", result.steps)
