"""The answers of a real server, asked twice, and ours: what agrees, and what cannot be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from attrs import define, field, frozen

from tests.differential.asking import Server
from tests.differential.corpus import Conversation
from tests.golden.masks import compare, differs

Json = Any

_NUMBERED = re.compile(r"<(\w+):\d+>|\b\d+\b|\[\d+\]")


@frozen
class Verdict:
    """The comparison of one conversation.

    `dropped`: two real servers disagree. `wrong`: the index of each answer that differs, with the
    difference. `order`: all answers agree, but not the order of the versions in them.
    """

    told: Conversation
    answers: int = 0
    dropped: bool = False
    wrong: tuple[tuple[int, str], ...] = ()
    order: str = ""

    @property
    def agrees(self) -> bool:
        """Return True if the whole conversation agrees."""
        return not self.wrong and not self.order

    @property
    def first(self) -> str:
        """The first difference."""
        return self.wrong[0][1] if self.wrong else self.order

    @property
    def cause(self) -> str:
        """The first difference without what is particular to it: a group of like ones."""
        return _NUMBERED.sub("#", self.first)[:160]


def judged(told: Conversation, real: Server, again: Server, ours: Server) -> Verdict:
    """Ask all three, and compare."""
    wanted, repeated = real.ask(told), again.ask(told)
    if _pairs(wanted, repeated) or compare(wanted, repeated):
        return Verdict(told, dropped=True)
    try:
        got = ours.ask(told)
    except Exception as error:
        return Verdict(told, len(told.steps), wrong=((0, f"{type(error).__name__}: {error}"),))
    return verdict(told, wanted, got)


def verdict(told: Conversation, wanted: Json, got: Json) -> Verdict:
    """Compare the answers of a real server with ours."""
    wrong = tuple(_pairs(wanted, got))
    order = "" if wrong else compare(wanted, got) or ""
    return Verdict(told, len(wanted["responses"]), wrong=wrong, order=order)


def _pairs(wanted: Json, got: Json) -> list[tuple[int, str]]:
    found = []
    for index, (want, have) in enumerate(zip(wanted["responses"], got["responses"], strict=True)):
        problem = differs(want, have, f"[{index}]")
        if problem:
            found.append((index, problem))
    return found


@define
class Figures:
    """The agreement of one class."""

    conversations: int = 0
    agreed: int = 0
    answers: int = 0
    right: int = 0
    dropped: int = 0

    def add(self, each: Verdict) -> None:
        """Count one conversation."""
        if each.dropped:
            self.dropped += 1
            return
        self.conversations += 1
        self.agreed += each.agrees
        self.answers += each.answers
        self.right += each.answers - len(each.wrong)

    def tree(self) -> Json:
        """As JSON."""
        return {
            "conversations": self.conversations,
            "agreed": self.agreed,
            "answers": self.answers,
            "right": self.right,
            "dropped": self.dropped,
        }


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


@define
class Report:
    """All verdicts, by class and by cause."""

    classes: dict[str, Figures] = field(factory=dict)
    causes: dict[str, list[Verdict]] = field(factory=dict)

    def add(self, each: Verdict) -> None:
        """Count one conversation."""
        self.classes.setdefault(each.told.of, Figures()).add(each)
        if not each.dropped and not each.agrees:
            self.causes.setdefault(each.cause, []).append(each)

    def whole(self) -> Figures:
        """The sum of all classes."""
        total = Figures()
        for each in self.classes.values():
            total.conversations += each.conversations
            total.agreed += each.agreed
            total.answers += each.answers
            total.right += each.right
            total.dropped += each.dropped
        return total

    def table(self) -> str:
        """A table in Markdown."""
        rows = [
            "| class | conversations | agree | answers | agree | dropped |",
            "|---|---|---|---|---|---|",
        ]
        named: Iterable[tuple[str, Figures]] = [
            *sorted(self.classes.items()),
            ("all", self.whole()),
        ]
        for name, each in named:
            whole, single = (
                _share(each.agreed, each.conversations),
                _share(each.right, each.answers),
            )
            rows.append(
                f"| {name} | {each.conversations} | {whole} | {each.answers} | {single} | {each.dropped} |"
            )
        return "\n".join(rows)

    def tree(self) -> Json:
        """As JSON: figures by class, and the conversations of each cause, the most frequent cause first."""
        causes = sorted(self.causes.items(), key=lambda each: (-len(each[1]), each[0]))
        return {
            "classes": {name: each.tree() for name, each in sorted(self.classes.items())},
            "all": self.whole().tree(),
            "causes": [
                {
                    "cause": cause,
                    "count": len(each),
                    "examples": [
                        {
                            "difference": one.first,
                            "at": [i for i, _ in one.wrong],
                            **one.told.tree(),
                        }
                        for one in each[:3]
                    ],
                }
                for cause, each in causes
            ],
        }
