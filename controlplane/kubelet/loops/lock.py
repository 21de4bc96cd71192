"""A mutex between the tasks of one actor, such as the kubelet's allocation mutex."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from actors import Context


class Lock:
    """`async with lock:`; the next owner when it is released is a choice of the schedule."""

    def __init__(self, ctx: Context, point: str) -> None:
        self._free = ctx.condition()
        self._point = point
        self._held = False

    @property
    def held(self) -> bool:
        """Return whether a task is in it."""
        return self._held

    async def __aenter__(self) -> None:
        while self._held:
            await self._free.wait(point=self._point)
        self._held = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held = False
        self._free.notify_all()
