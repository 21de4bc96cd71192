"""Workers: the tasks that do requests in parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors import Context

    Work = Callable[[Context], Coroutine[Any, Any, None]]
    """The function that a worker runs."""


class Workers:
    """The workers of one server, and the requests that wait for one."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._waiting: deque[Work] = deque()
        self._work = ctx.condition()
        self._idle_workers = 0

    def hand_over(self, work: Work) -> None:
        """Let a worker do it; there are as many workers as were ever needed at once."""
        self._waiting.append(work)
        if self._idle_workers:
            self._work.notify()
        else:
            self._ctx.spawn(self._worker, name="request")

    async def _worker(self, ctx: Context) -> None:
        while True:
            while not self._waiting:
                self._idle_workers += 1
                await self._work.wait(idle=True, point="apiserver.request")
                self._idle_workers -= 1
            await self._waiting.popleft()(ctx)
