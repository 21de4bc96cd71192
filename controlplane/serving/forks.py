"""Forks of a running session: saved at a step, and gone on with otherwise in a process of their own.

The session goes on meanwhile. A fork is a recording of the session, repeated up to the step by
`controlplane fork`; what comes of it is a run like any other, which the page shows beside the session.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, field

from actors.strategies import NAMES
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from controlplane.serving.live import Live

__all__ = ["Forks"]

NS: Final = 1_000_000_000
AT_ONCE: Final = 2
MOST: Final = 20
"""The number of forks that are kept; the oldest are dropped."""
SECONDS: Final = 600.0
"""A fork that is not done by then is given up."""
RUNNING, DONE, FAILED = "running", "done", "failed"
_EXPECTED: Final[dict[str, tuple[type, ...]]] = {
    "step": (int,),
    "seed": (int,),
    "strategy": (str,),
    "seconds": (int, float),
    "add": (str,),
}


@define
class Fork:
    """One fork: what was asked, and how it went."""

    number: int
    step: int
    seed: int
    strategy: str
    state: str = RUNNING
    message: str = ""
    model: str = field(default="", repr=False)

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        return {
            "id": self.number,
            "step": self.step,
            "seed": self.seed,
            "strategy": self.strategy,
            "state": self.state,
            "message": self.message,
        }


class Forks:
    """The forks of one session: they outlive the requests that begin them, and end when `serve` does."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._forks: dict[int, Fork] = {}
        self._number = 0
        self._nursery: trio.Nursery | None = None
        self._folder = Path()

    async def serve(self) -> None:
        """Hold what is under way, in a folder for this user alone."""
        with tempfile.TemporaryDirectory(prefix="controlplane-") as folder:
            self._folder = Path(folder)
            async with trio.open_nursery() as self._nursery:
                await trio.sleep_forever()

    def listed(self) -> list[dict[str, Any]]:
        """All of them, the oldest first."""
        return [fork.to_json() for fork in self._forks.values()]

    def model(self, number: int) -> str | None:
        """Both runs and how they differ, as `logs report --format json` prints it; None if there is none."""
        fork = self._forks.get(number)
        return None if fork is None or fork.state != DONE else fork.model

    async def begin(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Begin one; how it is listed. Raises UsageError."""
        _check(asked)
        if self._nursery is None:
            raise UsageError("the session has not begun")
        if sum(fork.state == RUNNING for fork in self._forks.values()) >= AT_ONCE:
            raise UsageError(f"{AT_ONCE} forks are under way already")
        self._number += 1
        fork = Fork(
            self._number,
            asked.get("step", 0),
            asked.get("seed", 1),
            asked.get("strategy", "random-walk"),
        )
        recording = await self._live.recording()
        if not 0 <= fork.step <= recording.steps:
            raise UsageError(f"step {fork.step}: the session has steps 1 to {recording.steps}")
        place = self._folder / str(fork.number)
        place.mkdir(mode=0o700)
        recording.save(place / "session.rec")
        if asked.get("add"):
            (place / "added.yaml").write_text(asked["add"], encoding="utf-8")
        while len(self._forks) >= MOST:
            self._forks.pop(next(iter(self._forks)))
        self._forks[fork.number] = fork
        until = self._live.time_of(fork.step) / NS + asked.get("seconds", 60)
        self._nursery.start_soon(self._run, fork, place, until)
        return fork.to_json()

    async def _run(self, fork: Fork, place: Path, until: float) -> None:
        out, model = place / "out", place / "model.json"
        added = ["--add", str(place / "added.yaml")] if (place / "added.yaml").exists() else []
        forking = [
            "fork",
            str(place / "session.rec"),
            "--at",
            str(fork.step),
            "--seed",
            str(fork.seed),
            "--strategy",
            fork.strategy,
            "--until",
            str(until),
            "--out",
            str(out),
            "--format",
            "json",
            *added,
        ]
        telling = [
            "logs",
            "report",
            str(place / "session.rec"),
            str(out),
            "--format",
            "json",
            "-o",
            str(model),
        ]
        with trio.move_on_after(SECONDS) as scope:
            done = await _done(forking)
            if not (out / "run.rec").exists():
                fork.state, fork.message = FAILED, _said(done)
                return
            fork.message = _came_to(done)
            done = await _done(telling)
            if not model.exists():
                fork.state, fork.message = FAILED, _said(done)
                return
            fork.model = await trio.Path(model).read_text(encoding="utf-8")
            fork.state = DONE
        if scope.cancelled_caught:
            fork.state, fork.message = FAILED, f"not done within {SECONDS:g} s"


async def _done(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end."""
    return await trio.run_process(
        [sys.executable, "-m", "controlplane", *arguments],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last line on standard error: what was wrong."""
    said = done.stderr.decode("utf-8", "replace").strip()
    return said.splitlines()[-1] if said else f"exit status {done.returncode}"


def _came_to(done: subprocess.CompletedProcess[bytes]) -> str:
    """The verdict of a fork, and the refusals of objects that were to be added."""
    told = json.loads(done.stdout)
    refused = [each["message"] for each in told["applied"] if not 200 <= each["code"] < 300]
    return "; ".join([f"{told['verdict']}: {told['reason']}", *refused])


def _check(asked: dict[str, Any]) -> None:
    for name, value in asked.items():
        kind = _EXPECTED.get(name)
        if kind is None:
            raise UsageError(f"{name}: unknown; known: {', '.join(_EXPECTED)}")
        if isinstance(value, bool) or not isinstance(value, kind):
            raise UsageError(f"{name}: {value!r} is of another type")
    if asked.get("strategy", NAMES[0]) not in NAMES:
        raise UsageError(f"strategy: expected one of {', '.join(NAMES)}")
    if not 0 <= asked.get("seconds", 0) <= 1e6:
        raise UsageError("seconds: expected a number between 0 and 1000000")
    if abs(asked.get("seed", 0)) >= 1 << 63:
        raise UsageError("seed: expected a number of 64 bits")
