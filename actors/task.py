"""Tasks and actors as the kernel sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actors.disk import Disk
    from actors.kernel import Kernel
    from actors.mailbox import Mailbox

NEW, READY, RUNNING, PARKED, DONE = range(5)


class Task:
    """One task of an actor: a coroutine that runs from one point to the next.

    `label` ("actor/task") names it the same way in every run; `no` counts births in this run.
    `point` is where it stands, `cause` the step that made it ready. `wait_no` grows with every
    park, so that a late wake-up of an earlier wait is recognised and dropped.
    """

    __slots__ = (
        "actor",
        "armed",
        "awaiting",
        "body",
        "cause",
        "coro",
        "dead",
        "error",
        "handle",
        "idle",
        "incarnation",
        "joiners",
        "label",
        "name",
        "no",
        "point",
        "result",
        "state",
        "value",
        "wait_no",
    )

    def __init__(
        self, no: int, actor: Actor, name: str, body: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        self.no = no
        self.actor = actor
        self.incarnation = actor.incarnation
        self.name = name
        self.label = f"{actor.name}/{name}"
        self.body = body
        self.coro: Coroutine[Any, Any, Any] | None = None
        self.handle: Any = None
        self.state = NEW
        self.point = "start"
        self.cause = 0
        self.wait_no = 0
        self.value: Any = None
        self.error: BaseException | None = None
        self.result: Any = None
        self.idle = False
        self.armed = False
        self.dead = False
        self.awaiting: str | None = None
        self.joiners: list[tuple[Task, int]] = []

    @property
    def done(self) -> bool:
        """Whether it has returned, raised or been killed."""
        return self.state == DONE


class Actor:
    """One emulated process: its tasks, its mailboxes, its disk. `incarnation` counts its starts from 1."""

    __slots__ = (
        "alive",
        "disk",
        "incarnation",
        "kernel",
        "mailbox",
        "main",
        "name",
        "names",
        "no",
        "open_streams",
        "process",
        "tasks",
        "waiting_for",
    )

    def __init__(
        self, kernel: Kernel, no: int, name: str, main: Callable[..., Any], disk: Disk
    ) -> None:
        self.kernel = kernel
        self.no = no
        self.name = name
        self.main = main
        self.disk = disk
        self.incarnation = 0
        self.alive = False
        self.tasks: dict[int, Task] = {}
        self.names: dict[str, int] = {}
        self.mailbox: Mailbox | None = None
        self.process: dict[Any, Any] = {}
        """What the process keeps for all of its tasks; lost when it crashes."""
        self.open_streams: dict[int, Mailbox] = {}
        self.waiting_for: dict[int, tuple[Task, int, str]] = {}
        """Requests on their way: number -> (asking task, its wait, the peer's name)."""
