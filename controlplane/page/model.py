"""The page's model of a run, in the form in which it is sent: JSON, column by column, by step.

Rows are added in order of steps. `Model.since` gives what came after a step, so a page that has a part
asks only for the rest; `since(-1)` is everything. Texts are sent once and named by their number.
The other side of this is `static/model.js`; `FORMAT` is the version of what passes between the two.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import msgspec

from controlplane.api.redaction import cleaner, redacted
from controlplane.logs.phrases import phrase
from controlplane.page.columns import Columns, steps_apart
from controlplane.page.tree_changes import changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.api.tree import Tree
    from controlplane.logs.reading import Line

__all__ = ["ALL", "FORMAT", "Model", "encode"]

FORMAT = 1
ALL = -1
"""`Model.since` of it gives everything."""
NS = 1_000_000_000
WHOLE, CHANGED, GONE = 0, 1, 2
"""Forms of a version: the whole tree, what changed since the version before, nothing (a deletion)."""
_CLEAN = cleaner()
_json = msgspec.json.Encoder().encode


def encode(chunk: Mapping[str, Any]) -> bytes:
    """A part of a model as JSON."""
    return _json(chunk)


class _Table:
    """Values with numbers, in the order in which they came first; and the step at which they did."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._steps: list[int] = []

    def number(self, value: Any, step: int) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
            self._steps.append(step)
        return found

    def __len__(self) -> int:
        return len(self.values)

    def after(self, step: int, known: int | None = None, end: int | None = None) -> list[Any]:
        """[number of the first, the values up to number `end`].

        The first is that after a step, or the one at index `known`.
        """
        start = bisect_right(self._steps, step) if known is None else known
        return [start, self.values[start:end]]


class Model:
    """A run as far as it went.

    `run` says what was run and how it ended; `lacks` is what the page cannot show, a sentence each.
    """

    def __init__(self, **run: Any) -> None:
        self.run: dict[str, Any] = run
        self.lacks: list[str] = []
        self.findings: dict[str, Any] = {}
        """The findings, see `findings`."""
        self.step = 0
        """The last step that something is known of."""
        self._texts = texts = _Table()
        self._tasks = _Table()
        self.events = Columns(
            texts, "t", "task", "event", "level", "obj", "uid", "rv", "cause", "said", "data"
        )
        self.versions = Columns(texts, "key", "obj", "uid", "rv", "form", "body")
        self.queues = Columns(texts, "place", "obj", "uid", "there", "attempts", "until", "plugins")
        self.caches = Columns(texts, "server", "resource", "rv", "behind")
        self.choices = Columns(texts, "index", "kind", "n", "value", "label")
        self.cpus = Columns(texts, "node", "body")
        self.attempts = Columns(texts, "obj", "uid", "body")
        self._trees: dict[str, Tree] = {}
        self._text("", 0)

    def __len__(self) -> int:
        """The number of its events."""
        return len(self.events)

    # ------------------------------------------------------------------ adding

    def _text(self, text: str, step: int) -> int:
        self.step = max(self.step, step)
        return self._texts.number(text, self.step)

    def add_line(self, line: Line) -> None:
        """An event of the log."""
        step, text = line.step, self._text
        task = (text(line.actor, step), text(line.task, step))
        cause = line.cause[0] if line.cause else 0
        self.events.add(
            step,
            round(line.t * NS),
            self._tasks.number(task, self.step),
            text(line.event, step),
            text(line.level, step),
            text(line.obj, step),
            text(line.uid, step),
            line.rv or 0,
            step - cause + 1 if cause else 0,
            text(_said(line), step),
            text(_CLEAN(_json(line.data).decode()), step) if line.data else 0,
        )
        if line.event == "log":
            self.run.update(line.data)
        elif line.event == "verdict":
            self.run.update(line.data, steps=step, t_ns=round(line.t * NS))

    def add_version(
        self, step: int, key: str, revision: int, obj: str, uid: str, tree: Tree | None
    ) -> None:
        """An object was written, or deleted (`tree` is None). What is secret in it is left out."""
        text = self._text
        named = (text(key, step), text(obj, step), text(uid, step), revision)
        if tree is None:
            self._trees.pop(key, None)
            self.versions.add(step, *named, GONE, None)
            return
        tree = redacted(tree)
        before = self._trees.get(key)
        self._trees[key] = tree
        form, body = (WHOLE, tree) if before is None else (CHANGED, changes(before, tree))
        packed = msgspec.Raw(_CLEAN(_json(body).decode()).encode())
        self.versions.add(step, *named, form, packed)

    def add_queued(
        self,
        step: int,
        place: str,
        obj: str,
        uid: str,
        *,
        there: bool,
        attempts: int = 0,
        until_ns: int = 0,
        plugins: Sequence[str] = (),
    ) -> None:
        """A pod came to a queue of the scheduler, left it (`there` is False), or waits otherwise than before."""
        text = self._text
        self.queues.add(
            step,
            text(place, step),
            text(obj, step),
            text(uid, step),
            int(there),
            attempts,
            until_ns,
            text(" ".join(plugins), step),
        )

    def add_cache(self, step: int, server: str, resource: str, revision: int, behind: int) -> None:
        """The position of a watch cache: its `revision`, and the number of its resource's writes that it lacks."""
        text = self._text
        self.caches.add(step, text(server, step), text(resource, step), revision, behind)

    def add_choice(self, step: int, index: int, kind: str, n: int, value: int, label: str) -> None:
        """A non-default choice of the run."""
        text = self._text
        self.choices.add(step, index, text(kind, step), n, value, text(label, step))

    def add_cpus(self, step: int, node: str, body: Mapping[str, Any]) -> None:
        """The CPUs and the memory per NUMA node that containers hold."""
        self.cpus.add(step, self._text(node, step), body)

    def add_attempt(self, step: int, obj: str, uid: str, tables: Mapping[str, Any]) -> None:
        """The plugins' answers: tables of `attempts`, whose texts are numbered here."""
        text = self._text
        body: dict[str, Any] = {}
        for name, value in tables.items():
            if isinstance(value, dict) and "cells" in value:
                body[name] = {
                    "plugins": [text(each, step) for each in value["plugins"]],
                    "nodes": [text(each, step) for each in value["nodes"]],
                    "cells": [
                        text(each, step) if isinstance(each, str) else each
                        for each in value["cells"]
                    ],
                }
            else:
                body[name] = value
        self.attempts.add(step, text(obj, step), text(uid, step), body)

    # ------------------------------------------------------------------ answers

    def text(self, number: int) -> str:
        """The text with this number."""
        found: str = self._texts.values[number]
        return found

    def since(
        self,
        step: int = ALL,
        most: int = 0,
        known: tuple[int, int] | None = None,
        until: int | None = None,
    ) -> dict[str, Any]:
        """The changes after a step; all for `ALL`. `run`, `lacks` and `findings` are sent whole each time.

        With `most`, of a part with more events only the first steps that have that many are returned; with `until`,
        nothing of later steps. `more` says that there are others. A caller that continues from such a part passes
        the number of texts and tasks that are `known`.
        """
        last = self._last(step, most, until)
        texts, tasks = known or (None, None)
        events = self.events.after(step, last)
        events["t"] = steps_apart(events["t"])
        named = {
            "versions": self.versions,
            "queues": self.queues,
            "caches": self.caches,
            "choices": self.choices,
            "cpus": self.cpus,
            "attempts": self.attempts,
        }
        needed = None
        if last is not None:
            needed = max(each.texts(last) for each in (self.events, *named.values()))
        return {
            "format": FORMAT,
            "after": step,
            "step": self.step if last is None else last,
            "more": last is not None and last < (self.step if until is None else until),
            "run": self.run,
            "lacks": self.lacks,
            "findings": self.findings,
            "texts": self._texts.after(step, texts, needed),
            "tasks": self._tasks.after(step, tasks, max(events["task"], default=-1) + 1),
            "events": events,
            **{name: table.after(step, last) for name, table in named.items()},
        }

    def _last(self, step: int, most: int, until: int | None) -> int | None:
        """The step that a part ends with; None if it is the last one of all."""
        at = bisect_right(self.events.step, step) + most
        if not most or at >= len(self.events) or self.events.step[at] == self.events.step[-1]:
            return until
        return self.events.step[at] if until is None else min(self.events.step[at], until)


def _said(line: Line) -> str:
    """The text of an event; for a step only its point."""
    said = phrase(line)
    if not said and line.event == "message":
        return f"takes {line.data.get('message', '')} from {line.data.get('from', '')}"
    if not said and line.event == "choice":
        data = line.data
        return f"draws {data.get('value')} of {data.get('n')} ({data.get('label', '')})"
    if not said and line.event == "task":
        return f"starts {line.data.get('actor', '')}/{line.data.get('task', '')}"
    return said
