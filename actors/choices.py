"""The choice list: every undetermined decision of a run, in the order in which it was taken.

A choice is one call `choose(kind, n, options) -> value` with 0 <= value < n. Forced choices (n = 1)
are not kept. Option 0 is always the default one, so the all-zero list is the plain first-in-first-out
run.

One kept choice is packed into 64 bits: label number (24 bits), n (20), value (20); the label table
gives the kind and the name of the option that was taken, which is what a strict replay compares.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

N_BITS = 20
N_MAX = (1 << N_BITS) - 1
LABEL_MAX = (1 << 24) - 1
TASK = "task"
"""The kind of a choice of the next task."""


class Choice(NamedTuple):
    """One decision: what was asked (`kind`, `n`), the answer (`value`), and the name of the option taken."""

    kind: str
    n: int
    value: int
    label: str


class ChoiceList:
    """An append-only, compact list of choices."""

    __slots__ = ("_handed", "_label_no", "labels", "packed")

    def __init__(self) -> None:
        self._handed = 0
        self.packed = array("Q")
        self.labels: list[tuple[str, str]] = []
        self._label_no: dict[tuple[str, str], int] = {}

    def append(self, kind: str, n: int, value: int, label: str) -> None:
        """Add one choice. Raises UsageError beyond 2**20 - 1 options or 2**24 - 1 different labels."""
        key = (kind, label)
        number = self._label_no.get(key)
        if number is None:
            number = self._add_label(key)
        if n > N_MAX:
            raise UsageError(f"choice {kind!r}: {n} options, at most {N_MAX} are possible")
        self.packed.append((number << (2 * N_BITS)) | (n << N_BITS) | value)

    def _add_label(self, key: tuple[str, str]) -> int:
        number = self._handed + len(self.labels)
        if number > LABEL_MAX:
            raise UsageError(f"more than {LABEL_MAX} different choice labels")
        self.labels.append(key)
        self._label_no[key] = number
        return number

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> Choice:
        word = self.packed[index]
        kind, label = self._label(word >> (2 * N_BITS))
        return Choice(kind, (word >> N_BITS) & N_MAX, word & N_MAX, label)

    def _label(self, number: int) -> tuple[str, str]:
        if number >= self._handed:
            return self.labels[number - self._handed]
        return next(key for key, known in self._label_no.items() if known == number)

    def hand_over(self, tasks: Container[str]) -> tuple[array[int], list[tuple[str, str]]]:
        """Return the choices and the new labels since the last call, and drop them.

        The numbers of labels stay known, except for tasks that are not in `tasks`: each request has a task of its
        own, so their number grows without bound. A forgotten label gets a new number when it is used again.
        """
        packed, labels = self.packed, self.labels
        self.packed, self.labels = array("Q"), []
        self._handed += len(labels)
        self._label_no = {
            (kind, label): number
            for (kind, label), number in self._label_no.items()
            if kind != TASK or label in tasks
        }
        return packed, labels

    def __iter__(self) -> Iterator[Choice]:
        return (self[index] for index in range(len(self.packed)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChoiceList) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> ChoiceList:
        """A list with these choices."""
        made = cls()
        for choice in choices:
            made.append(*choice)
        return made

    def copy(self) -> ChoiceList:
        """A list of its own with the same choices."""
        made = ChoiceList()
        made.packed = self.packed[:]
        made._handed = self._handed
        made.labels = list(self.labels)
        made._label_no = dict(self._label_no)
        return made

    def deviations(self) -> int:
        """Return the number of choices that are not the default option 0."""
        return sum(1 for word in self.packed if word & N_MAX)


class Unkept(ChoiceList):
    """A list that stays empty: no recording is wanted, as of a server that runs for months."""

    __slots__ = ()

    def append(self, kind: str, n: int, value: int, label: str) -> None:
        """Nothing."""


def name_of(options: Sequence[Any], index: int) -> str:
    """Return the name of an option among the others: its label, with a number where labels are equal."""
    label: str = options[index].label
    alike = [at for at, option in enumerate(options) if option.label == label]
    return label if len(alike) == 1 else f"{label} {alike.index(index)}"
