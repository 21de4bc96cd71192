"""The lives of actors and tasks: how they begin, end, fail and are torn down.

A task is born lazily: `spawn` only puts it among the ready tasks; the driver starts the coroutine when the task is
picked for its first step. A task that ends early is never dropped where it stands: it goes on once more, and Killed or
Cancelled is raised there, so that its `finally` blocks run in an order that every run shares.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from actors.disk import Disk
from actors.errors import Abandoned, Cancelled, Divergence, Killed, LinkBroken, UsageError
from actors.log import ERROR, TASK_DECLARED
from actors.process import DONE, NEW, PARKED, READY, Actor, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actors.core import Core
    from actors.timers import Timers
    from actors.transport import Transport

    Body = Callable[..., Coroutine[Any, Any, Any]]


class Lifecycle:
    """The actors and tasks of one run, from start to end."""

    __slots__ = ("_kernel", "_task_no", "_timers", "_transport")

    def __init__(self, kernel: Core, transport: Transport, timers: Timers) -> None:
        self._kernel = kernel
        self._transport = transport
        self._timers = timers
        self._task_no = 0

    def add(self, name: str, main: Body) -> Actor:
        """Declare an actor. It starts with `start`."""
        kernel = self._kernel
        if name in kernel.actors:
            raise UsageError(f"actor {name!r} exists already")
        actor = Actor(len(kernel.actors) + 1, name, main, Disk())
        kernel.actors[name] = actor
        return actor

    def start(self, actor: Actor) -> Task:
        """Start an actor, or start it again: a new incarnation with empty memory and the disk it left."""
        kernel = self._kernel
        if actor.alive:
            raise UsageError(f"actor {actor.name!r} is running already")
        if kernel.footprint is not None:
            kernel.footprint.everything()
        actor.incarnation += 1
        actor.alive = True
        actor.tasks = {}
        actor.names = {}
        actor.process = {}
        actor.open_streams = {}
        actor.waiting_for = {}
        actor.mailbox = self._transport.new_mailbox(actor, "recv")
        return self.spawn(actor, "main", actor.main)

    def spawn(self, actor: Actor, name: str, body: Body, *args: Any, **kwargs: Any) -> Task:
        """A new task of `actor`, ready for its first step. Equal names get a number: "worker", "worker#2"."""
        kernel = self._kernel
        count = actor.names.get(name, 0) + 1
        actor.names[name] = count
        if count > 1:
            name = f"{name}#{count}"
        self._task_no += 1

        def start() -> Coroutine[Any, Any, Any]:
            return body(kernel.make_context(task), *args, **kwargs)

        task = Task(self._task_no, actor, name, start)
        actor.tasks[task.no] = task
        task.cause = kernel.step
        declared = {"no": task.no, "actor": actor.name, "task": name, "inc": actor.incarnation}
        kernel.log.emit(
            ERROR,
            kernel.step,
            kernel.now,
            kernel.task_no(),
            TASK_DECLARED,
            kernel.step,
            data=declared,
        )
        if kernel.footprint is not None:
            kernel.footprint.woke(task.label)
            kernel.footprint.shared(f"names {actor.name}/{name.partition('#')[0]}", write=True)
        kernel.ready.append(task)
        return task

    def end(self, actor: Actor) -> None:
        """Take an actor out of the world: its tasks and its connections end. It is no fault."""
        kernel = self._kernel
        if not actor.alive:
            return
        if kernel.footprint is not None:
            kernel.footprint.everything()
        self.end_tasks(actor)
        self.reset_peers(actor)

    def end_tasks(self, actor: Actor) -> None:
        """End the tasks of an actor: those that have begun get Killed where they stand."""
        kernel = self._kernel
        actor.alive = False
        for task in list(actor.tasks.values()):
            if task.state == DONE:
                continue
            task.dead = True
            if task.state == NEW:
                if task in kernel.ready:
                    kernel.ready.remove(task)
                self.task_done(task, None)
            elif task is not kernel.current:
                self.condemn(task)

    def reset_peers(self, actor: Actor) -> None:
        """Reset the connections that other actors have to this one."""
        for other in self._kernel.actors.values():
            if other is not actor and other.alive:
                self.reset(other, actor.name)

    def reset(self, actor: Actor, peer: str) -> None:
        """Fail what `actor` has under way with `peer`: requests and streams."""
        for number, (task, wait_no, to) in list(actor.waiting_for.items()):
            if to == peer:
                del actor.waiting_for[number]
                self._kernel.wake(
                    task, wait_no, None, LinkBroken(f"connection to {peer} was reset")
                )
        for mailbox in list(actor.open_streams.values()):
            if mailbox.peer is not None and mailbox.peer.name == peer:
                del actor.open_streams[mailbox.no]
                mailbox.break_now()

    def condemn(self, task: Task) -> None:
        """Let a task's next step be its last: it gets Killed where it stands, before any other task runs."""
        kernel = self._kernel
        task.dead = True
        if task.state == READY and not kernel.tearing_down:
            kernel.ready.remove(task)
        self._timers.disarm(task)
        task.wait_no += 1
        task.value = None
        task.error = Killed()
        kernel.reaping.append(task)

    def cancel(self, task: Task) -> None:
        """Throw Cancelled into a task where it is parked; a task that has not begun never will."""
        kernel = self._kernel
        if kernel.footprint is not None:
            kernel.footprint.everything()
        if task.state == NEW:
            kernel.ready.remove(task)
            self.task_done(task, None)
        elif task.state == PARKED:
            kernel.wake(task, task.wait_no, None, Cancelled())
        elif task.state == READY:
            task.error = Cancelled()

    def task_done(self, task: Task, result: Any) -> None:
        """A task ended; a task that joins it is woken."""
        kernel = self._kernel
        task.end(result)
        self._timers.disarm(task)
        task.actor.tasks.pop(task.no, None)
        for joiner, wait_no in task.joiners:
            if kernel.footprint is not None:
                kernel.footprint.woke(joiner.label)
            kernel.wake(joiner, wait_no, result)

    def task_failed(self, task: Task, error: BaseException) -> None:
        """A task raised. Killed and Cancelled end it quietly; anything else ends the run."""
        kernel = self._kernel
        self.task_done(task, None)
        if isinstance(error, Killed | Cancelled) or task.dead:
            return
        if isinstance(error, Divergence):
            kernel.finish("diverged", str(error), error)
            return
        if isinstance(error, Abandoned):
            kernel.finish("abandoned", str(error))
            return
        where = "".join(traceback.format_exception_only(error)).strip()
        kernel.finish("failed", f"{task.label} at {task.point}: {where}", error)

    def tear_down(self) -> None:
        """After the verdict: cancel every task, in actor order. Drivers then step until none is left."""
        kernel = self._kernel
        kernel.tearing_down = True
        kernel.log.close()
        kernel.ready.clear()
        for actor in kernel.actors.values():
            actor.alive = False
            for task in list(actor.tasks.values()):
                if task.state == NEW:
                    self.task_done(task, None)
                elif task.state != DONE:
                    self.condemn(task)
