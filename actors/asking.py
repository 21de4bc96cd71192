"""Invariants asked after each step of one actor, without those whose inputs have not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Check = Callable[[], str | None]
    Asked = tuple[str, Check]


class _Sight:
    """Something that checks look at: what was there at the last look, and whether it is something else now."""

    __slots__ = ("changed", "seen")

    def __init__(self) -> None:
        self.seen: Any = self  # a placeholder that `looks_at` never returns
        self.changed = False


class Checks:
    """The checks of one actor, in the order in which they were declared."""

    __slots__ = ("_all", "_always", "_sights")

    def __init__(self) -> None:
        self._all: list[tuple[Asked, _Sight | None]] = []
        self._always: list[Asked] = []
        self._sights: dict[Callable[[], Any], _Sight] = {}

    def add(self, name: str, check: Check, looks_at: Callable[[], Any] | None) -> None:
        """One more check. Those that look at the same thing share one look."""
        if looks_at is None:
            self._all.append(((name, check), None))
            self._always.append((name, check))
            return
        sight = self._sights.get(looks_at)
        if sight is None:
            sight = self._sights[looks_at] = _Sight()
        self._all.append(((name, check), sight))

    def due(self) -> Sequence[Asked]:
        """Return the invariants to ask now: those without declared inputs, and those whose inputs have changed."""
        any_changed = False
        for look, sight in self._sights.items():
            seen = look()
            if seen == sight.seen:
                sight.changed = False
            else:
                sight.seen = seen
                sight.changed = any_changed = True
        if not any_changed:
            return self._always
        return [asked for asked, sight in self._all if sight is None or sight.changed]
