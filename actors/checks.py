"""Invariants: after each step of an actor, without those whose inputs have not changed, or once the run has settled."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from actors.strategies.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core import Core

    Check = Callable[[], str | None]
    Asked = tuple[str, Check]


class _Look:
    """The value that checks look at, as it was at the last look, and whether it is another one now."""

    __slots__ = ("changed", "seen")

    def __init__(self) -> None:
        self.seen: Any = self  # a placeholder that `looks_at` never returns
        self.changed = False


class Checks:
    """The checks of one actor, in the order in which they were declared."""

    __slots__ = ("_all", "_always", "_looks")

    def __init__(self) -> None:
        self._all: list[tuple[Asked, _Look | None]] = []
        self._always: list[Asked] = []
        self._looks: dict[Callable[[], Any], _Look] = {}

    def add(self, name: str, check: Check, looks_at: Callable[[], Any] | None) -> None:
        """One more check. Those that look at the same thing share one look."""
        if looks_at is None:
            self._all.append(((name, check), None))
            self._always.append((name, check))
            return
        last = self._looks.get(looks_at)
        if last is None:
            last = self._looks[looks_at] = _Look()
        self._all.append(((name, check), last))

    def due(self) -> Sequence[Asked]:
        """Return the invariants to ask now: those without declared inputs, and those whose inputs have changed."""
        any_changed = False
        for look, last in self._looks.items():
            seen = look()
            if seen == last.seen:
                last.changed = False
            else:
                last.seen = seen
                last.changed = any_changed = True
        if not any_changed:
            return self._always
        return [asked for asked, last in self._all if last is None or last.changed]


class Invariants:
    """The invariants and reachability goals of one run, asked in the order in which they were declared."""

    __slots__ = ("_kernel", "at_end", "by_actor", "goals", "reached", "sharing")

    def __init__(self, kernel: Core) -> None:
        self._kernel = kernel
        self.by_actor: dict[str, Checks] = {}
        """Asked after each step of that actor."""
        self.at_end: list[tuple[str, Check]] = []
        """Asked once the run has settled."""
        self.goals: dict[str, Callable[[], bool]] = {}
        """Reachability goals: states that some run of a search should reach, asked at the end of each."""
        self.reached: list[str] = []
        self.sharing: Check | None = None
        """The debug check for what actors share: a line when it finds something."""

    def check(self, checks: Checks) -> None:
        """Ask the invariants of an actor that are due after its step; the first that breaks ends the run."""
        try:
            due = checks.due()
        except Exception as error:
            self._raised("what invariants look at", error)
            return
        for name, check in due:
            if self.ask(name, check):
                return

    def ask(self, name: str, check: Check) -> bool:
        """Return whether an invariant ended the run: it broke, or it raised, which is a defect of the invariant."""
        try:
            violation = check()
        except Exception as error:
            self._raised(name, error)
            return True
        if violation is None:
            return False
        self.violated(name, violation)
        return True

    def _raised(self, name: str, error: Exception) -> None:
        where = "".join(traceback.format_exception_only(error)).strip()
        self._kernel.finish("invariant-error", f"{name}: {where}", error)

    def violated(self, name: str, violation: str) -> None:
        """An invariant broke: the run ends with verdict "violated"."""
        self._kernel.finish("violated", f"{name}: {violation}")

    def check_sharing(self) -> bool:
        """Return whether the debug check for shared mutable objects ended the run."""
        return self.sharing is not None and self.ask("actors share nothing", self.sharing)

    def run_end_checks(self) -> None:
        """Ask what holds once the run has settled, and note the goals it reached, however it ended."""
        kernel = self._kernel
        self.reached = [name for name, reached in self.goals.items() if reached()]
        if kernel.verdict != "quiescent":
            return
        kernel.verdict = None
        if self.check_sharing():
            return
        for name, check in self.at_end:
            if self.ask(name, check):
                return
        kernel.verdict = "quiescent"
        strategy = kernel.strategy
        if isinstance(strategy, Replay) and not strategy.clamp and strategy.left_over():
            kernel.verdict = None
            kernel.finish(
                "diverged", f"the run settled with {strategy.left_over()} recorded choices unused"
            )
