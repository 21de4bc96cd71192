"""Follow: the recorded options by their names, over code that may have changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.choices import ChoiceList
    from actors.footprint import Footprint
    from actors.strategies.base import Option

SHOWN = 6
"""The number of option labels that a departure shows."""


class Follow:
    """Takes the option that has the recorded name, wherever it stands; from the first that is missing on, the default.

    Unlike a strict replay it does not compare how many options there are, or where the trace goes.
    """

    name = "follow"
    seed: int | None = None
    footprint: Footprint | None = None
    exhausted = False

    def __init__(self, choices: ChoiceList) -> None:
        self._choices = list(choices)
        self.begin()

    def begin(self) -> None:
        """Start at the first choice again."""
        self._index = 0
        self.departed = ""
        """Where the recorded choices could not be followed any more; "" if they were followed to the end."""

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The option with the recorded name, else the first."""
        if self.departed or self._index >= len(self._choices):
            return 0
        then = self._choices[self._index]
        self._index += 1
        if then.kind == kind:
            if then.value < len(options) and options[then.value].label == then.label:
                return then.value  # of options with one name, as draws have them, the same one
            for number, option in enumerate(options):
                if option.label == then.label:
                    return number
        there = ", ".join(option.label for option in options[:SHOWN])
        more = f", ... ({len(options)} in all)" if len(options) > SHOWN else ""
        self.departed = (
            f"step {step}: recorded {then.kind} {then.label!r}, now {kind} among {there}{more}"
        )
        return 0

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """The number of recorded choices."""
        return {"choices": len(self._choices)}
