"""Small forms: a scenario reduced to the few steps that its race needs, so that every schedule can be run.

A scenario offers its small form by the option `SMALL` and reads it where it builds its world and
does its work. Explored is one virtual second of it (`WINDOW`): before, the world gets ready, and
after, it comes to rest, both with default choices. What matters happens in one instant if it can: when
time moves on, all that was before is over, which multiplies the schedules of one instant by those of
the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.scenarios.engine.option import Option

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.scenarios.engine.scenario import Window
    from controlplane.scenarios.engine.setting import Setting

__all__ = ["SMALL", "START_S", "WINDOW", "explored", "explored_from", "is_small"]

SMALL: Final = Option(
    "small",
    type=bool,
    default=False,
    help="The small form, whose schedules --strategy dpor exhausts.",
)
START_S: Final = 2.0
"""The virtual second at which the exploration of a small form begins."""
WINDOW: Final = (START_S, START_S + 1)


def is_small(setting: Setting) -> bool:
    """Return whether the small form is asked for."""
    return bool(setting.options.get(SMALL.key))


def explored(setting: Setting) -> Window:
    """`Scenario.explored` of a scenario with a small form."""
    return WINDOW if is_small(setting) else None


def explored_from(start_s: float, seconds: float) -> Callable[[Setting], Window]:
    """The same with another beginning and length."""

    def window(setting: Setting) -> Window:
        return (start_s, start_s + seconds) if is_small(setting) else None

    return window
