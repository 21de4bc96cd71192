"""The record file of kube-scheduler-simulator of a run: its recording is repeated, and the store is watched.

Upstream: kubernetes-sigs/kube-scheduler-simulator, simulator/recorder. What is there at first comes as additions, in
the order of the recorder's informers; a change comes at its own time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.json_text import compact
from controlplane.errors import UsageError
from controlplane.scenarios.inputs.simulator_files import (
    ADD,
    DELETE,
    UPDATE,
    WATCHED,
    change_line,
)
from controlplane.scenarios.search import replaying

if TYPE_CHECKING:
    from pathlib import Path

    from controlplane.apiserver.storage.store import Event
    from controlplane.scenarios.engine.allowed_code import AllowedCode
    from controlplane.scenarios.engine.execution import Execution

__all__ = ["record_lines"]


def record_lines(recording: Path, allowed: AllowedCode) -> list[str]:
    """Return the lines of the record of a recorded run, each with its end.

    `allowed` is the Python code that a recording may run. Raises UsageError.
    """
    found = replaying.load(recording)
    run = replaying.replayed(replaying.plan_of_recording(found, recording, allowed=allowed), found)
    recorder = _Recorder(run)
    result = run.execute("bare")
    if result.verdict == "diverged":
        raise UsageError(f"{recording}: the replay is not the run: {result.reason}")
    recorder.look()
    return recorder.lines


class _Recorder:
    """The changes of one run. `lines` grow while it runs."""

    def __init__(self, run: Execution) -> None:
        self.lines: list[str] = []
        self._store = run.cluster.store
        self._world = run.world
        self._epoch = run.cluster.config.epoch_ns
        self._now = 0
        self._revision = self._store.revision
        for kind in WATCHED:
            for _, entry in sorted(self._store.keyspace(kind.prefix).entries.items()):
                self._add(ADD, entry.object.tree)
        self._world.observe(1, self.look)

    def look(self) -> None:
        """Take in what the last step wrote."""
        if self._store.revision != self._revision:
            self._take()
        self._now = self._world.now

    def _take(self) -> None:
        news: list[Event] = []
        for kind in WATCHED:
            space = self._store.keyspace(kind.prefix)
            if space.latest > self._revision:
                news += space.news_after(self._revision)
        self._revision = self._store.revision
        for event in sorted(news, key=lambda each: each.revision):
            if event.new is None:
                assert event.old is not None
                self._add(DELETE, event.old.tree)
            else:
                self._add(ADD if event.old is None else UPDATE, event.new.tree)

    def _add(self, event: str, tree: dict[str, object]) -> None:
        line = change_line(event, tree, self._epoch + self._now)
        self.lines.append(compact(line).decode() + "\n")
