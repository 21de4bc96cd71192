"""Replay: answer from a recorded choice list.

Three modes. *Strict* stops at the first difference, naming step and both contexts. *Clamping* takes
what fits (value modulo nothing: the largest option when the recorded one no longer exists) and
counts how often it had to; it is what shrinking needs. *Prefix then continue* follows the list for
a while and then hands over to another strategy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import Divergence

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.choices import ChoiceList
    from actors.footprint import Footprint
    from actors.log import Marks
    from actors.strategies.base import Option, Strategy

SHOWN = 6
"""The number of option labels that an error message shows."""


def _context(options: Sequence[Option]) -> str:
    shown = ", ".join(option.label for option in options[:SHOWN])
    return shown + (f", ... ({len(options)} in all)" if len(options) > SHOWN else "")


class Replay:
    """Answers from `choices`. Strict unless `clamp` is set; after the end of the list it answers 0 when clamping.

    With `marks`, those of the recorded run, the run's trace is compared with that one's all along.
    """

    name = "replay"
    footprint: Footprint | None = None
    exhausted = False
    seed: int | None = None

    def __init__(
        self, choices: ChoiceList, *, clamp: bool = False, marks: Marks | None = None
    ) -> None:
        self.choices = choices
        self.clamp = clamp
        self.marks = marks
        self.clamped = 0
        self.index = 0

    def begin(self) -> None:
        """Start at the first choice again."""
        self.index = 0
        self.clamped = 0

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The recorded answer. Raises Divergence (strict) when the question is another one than then."""
        index = self.index
        self.index = index + 1
        if index >= len(self.choices):
            if self.clamp:
                return 0
            raise Divergence(
                f"step {step}: the recording ends after {index} choices, but this run asks for"
                f" one more: {kind} among {_context(options)}",
                index=index,
                step=step,
            )
        then = self.choices[index]
        n = len(options)
        if self.clamp:
            if then.value >= n:
                self.clamped += 1
                return n - 1
            return then.value
        if then.kind != kind or then.n != n or options[then.value].label != then.label:
            raise Divergence(
                f"step {step}, choice {index}: recorded {then.kind} {then.label!r}"
                f" ({then.value} of {then.n}), but this run asks for {kind} among {_context(options)}",
                index=index,
                step=step,
            )
        return then.value

    def end(self) -> None:
        """Strict replays check that the list was used up through `left_over`."""

    def left_over(self) -> int:
        """Return the number of recorded choices that the run did not ask for."""
        return max(0, len(self.choices) - self.index)

    def parameters(self) -> dict[str, int | str | float]:
        """The mode."""
        return {"clamp": int(self.clamp)}


class PrefixThenContinue:
    """Follows `choices` strictly for a while, then asks `then` for the rest.

    For the first `length` choices (all by default), and none that is asked for after step `until_step`.
    `default_kinds`: kinds of choices that `then` is not asked for; they are answered 0. The prefix has them all.
    """

    name = "prefix-then-continue"
    footprint: Footprint | None = None
    exhausted = False

    def __init__(
        self,
        choices: ChoiceList,
        then: Strategy,
        *,
        length: int | None = None,
        until_step: int | None = None,
        default_kinds: Collection[str] = (),
    ) -> None:
        self._prefix = Replay(choices)
        self._then = then
        self._length = len(choices) if length is None else min(length, len(choices))
        self._until_step = until_step
        self._default_kinds = default_kinds
        self.seed: int | None = then.seed

    def begin(self) -> None:
        """Start both parts again."""
        self._prefix.begin()
        self._then.begin()

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """From the prefix while it lasts, then from the other strategy."""
        if self._prefix.index < self._length and (
            self._until_step is None or step <= self._until_step
        ):
            return self._prefix.choose(kind, options, step)
        return 0 if kind in self._default_kinds else self._then.choose(kind, options, step)

    def end(self) -> None:
        """Close the second part."""
        self._then.end()

    def parameters(self) -> dict[str, int | str | float]:
        """The length of the prefix, and the strategy that goes on."""
        step = {} if self._until_step is None else {"until_step": self._until_step}
        return {"length": self._length, **step, "then": self._then.name}
