"""Signals: conditions that keep a notification until the next wait."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import controlplane
from actors import Context, World

SECOND = 1_000_000_000
both = pytest.mark.parametrize("driver", ["bare", "trio"])


def passes_of(driver, *, before: bool = False, during: bool = False, remembers: bool = True):
    """How many passes a loop makes, notified before its first wait or during its first pass."""
    made: list[int] = []

    async def main(ctx: Context) -> None:
        signal = ctx.signal()
        condition = ctx.condition()

        async def loop(ctx: Context) -> None:
            while True:
                await (signal if remembers else condition).wait(idle=True, point="loop")
                await ctx.sleep(SECOND, point="loop.pass")
                made.append(ctx.now)

        def notify() -> None:
            signal.notify()
            condition.notify_all()

        ctx.spawn(loop)
        if before:
            notify()
        await ctx.sleep(5 * SECOND)
        if not before:
            notify()
        if during:
            await ctx.sleep(SECOND // 2)
            notify()

    world = World()
    world.actor("main", main)
    assert world.run(driver).verdict == "quiescent"
    return len(made)


@both
def test_a_signal_keeps_a_notification_that_comes_before_the_first_wait(driver):
    assert passes_of(driver, before=True) == 1
    assert passes_of(driver, before=True, remembers=False) == 0


@both
def test_a_signal_keeps_a_notification_that_comes_during_a_pass(driver):
    assert passes_of(driver, during=True) == 2
    assert passes_of(driver, during=True, remembers=False) == 1


@both
def test_a_signal_that_timed_out_wakes_on_the_next_notification(driver):
    ended: list[bool] = []

    async def main(ctx: Context) -> None:
        signal = ctx.signal()
        ended.append(await signal.wait(SECOND))
        signal.notify()
        signal.notify()
        ended.append(await signal.wait(SECOND))
        ended.append(await signal.wait(SECOND))

    world = World()
    world.actor("main", main)
    world.run(driver)
    assert ended == [False, True, False]


def _memoryless(tree: ast.AST) -> list[int]:
    """Lines of loops that wait before they have read any state.

    The first statement of such a `while True` is a wait: a notification during the pass before is lost.
    """
    return [
        loop.lineno
        for loop in ast.walk(tree)
        if isinstance(loop, ast.While)
        and isinstance(loop.test, ast.Constant)
        and isinstance(loop.body[0], ast.Expr)
        and isinstance(wait := loop.body[0].value, ast.Await)
        and isinstance(call := wait.value, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "wait"
    ]


def _signals(tree: ast.AST) -> set[str]:
    """The attributes and variables that hold a signal."""
    return {
        target.attr if isinstance(target, ast.Attribute) else target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "signal"
        for target in node.targets
        if isinstance(target, ast.Attribute | ast.Name)
    }


@pytest.mark.slow
def test_no_loop_of_a_component_waits_on_a_condition_without_reading_state():
    home = Path(controlplane.__file__).parent
    trees = {path: ast.parse(path.read_text()) for path in sorted(home.rglob("loops/*.py"))}
    signals = set().union(*(_signals(tree) for tree in trees.values()))
    found = []
    for path, tree in trees.items():
        for line in _memoryless(tree):
            source = path.read_text().splitlines()[line]
            if not any(f"{name}.wait(" in source for name in signals):
                found.append(f"{path.relative_to(home)}:{line}")
    assert found == []
