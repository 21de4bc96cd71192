"""The state of a run that the parts of the kernel share: what each of them reads and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actors.process import Actor, Port, Task

if TYPE_CHECKING:
    from actors.choices import ChoiceList
    from actors.inlet import Inlet
    from actors.pace import Pacer
    from actors.strategies.base import Strategy


class Core(Port, Protocol):
    """The kernel, as its parts see it."""

    ready: list[Task]
    reaping: list[Task]
    current: Task | None
    tearing_down: bool
    verdict: str | None
    strategy: Strategy
    inlet: Inlet | None
    pace: Pacer | None
    until_ns: int | None
    choices: ChoiceList

    def make_context(self, task: Task) -> Any:
        """The context of a task."""

    def actor(self, name: str) -> Actor:
        """The actor of that name. Raises UsageError."""

    def task_no(self) -> int:
        """Number of the running task, 0 for the world itself."""

    def move_time(self, at_ns: int) -> None:
        """Let virtual time move on."""

    def settled(self) -> None:
        """End the run, as nothing is left to happen."""
