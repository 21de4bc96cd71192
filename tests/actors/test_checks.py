"""Which invariants are asked after a step."""

from __future__ import annotations

import pytest

from actors import Context, World


def asked_of(steps, *invariants, **options):
    """The names of invariants in the order in which they were asked, step by step, while a number counts up."""
    seen = [0]
    asked = []

    async def main(ctx: Context) -> None:
        for number in steps:
            seen[0] = number
            asked.append([])
            await ctx.point("next")

    world = World()
    world.actor("one", main)
    for name, looks_at in invariants:
        look = None if looks_at is None else lambda looks_at=looks_at: looks_at(seen[0])
        world.invariant(
            name, lambda name=name: asked and asked[-1].append(name), after="one", looks_at=look
        )
    result = world.run("bare")
    assert result.ok, result.reason
    return asked


def test_one_that_looks_at_something_is_asked_when_that_has_changed():
    asked = asked_of((1, 1, 2, 2, 1), ("always", None), ("tells", lambda number: number))
    both = ["always", "tells"]
    assert asked == [both, ["always"], both, ["always"], [*both, "always"]]


def test_they_are_asked_in_the_order_of_their_declaration_whatever_they_look_at():
    asked = asked_of(
        (1, 2, 3), ("a", lambda n: n // 2), ("b", None), ("c", lambda n: n), ("d", lambda n: n // 2)
    )
    assert asked == [["a", "b", "c", "d"], ["a", "b", "c", "d"], ["b", "c", "b"]]


def test_those_that_look_at_the_same_share_one_look():
    looks = []

    async def main(ctx: Context) -> None:
        await ctx.point("here")
        await ctx.point("there")

    def look():
        looks.append(None)

    world = World()
    world.actor("one", main)
    for name in ("a", "b", "c"):
        world.invariant(name, lambda: None, after="one", looks_at=look)
    assert world.run("bare").steps == len(looks) == 3


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_look_that_raises_ends_the_run_as_an_invariant_that_raises_does(driver):
    async def main(ctx: Context) -> None:
        await ctx.point("here")

    def look():
        raise KeyError("no such thing")

    world = World()
    world.actor("one", main)
    world.invariant("asks", lambda: None, after="one", looks_at=look)
    result = world.run(driver)
    assert result.verdict == "invariant-error"
    assert "KeyError" in result.reason
