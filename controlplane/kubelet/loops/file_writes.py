"""Files that programs of containers write some time after their start: a task for each such container.

The emulated shell has run the program when its container started; here each write is done when its time comes, as
long as the container runs. A write that makes or removes a file is something that the world waits for; further
writes to a file are periodic work. How far a program has come outlives the kubelet, as the program does; but it stands
still while there is none. Point: `pod.file-write`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.log import WARNING
from controlplane.shell.files import NoSpace

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.container_runtime import Container, Sandbox
    from controlplane.shell.running import FileWrite, Life

POINT = "pod.file-write"


class FileWrites:
    """The file writes of one kubelet's pods; `changed` is called with the UID of a pod whose files changed."""

    def __init__(self, shared: Shared, changed: Callable[[str], None]) -> None:
        self._shared = shared
        self._changed = changed
        self._running: dict[str, None] = {}
        """Containers that have a task, by id."""

    def look_at(self, sandbox: Sandbox) -> None:
        """A container of a pod may have been started."""
        for container in sandbox.containers.values():
            life = container.life
            known = container.container_id
            if life is not None and life.writes and known not in self._running:
                self._running[known] = None
                self._shared.ctx.spawn(self._write, sandbox.uid, container, life, name="files")

    async def _write(self, ctx: Context, uid: str, container: Container, life: Life) -> None:
        known = container.container_id
        seen: dict[tuple[str, str], bool] = {}
        awaited = [_is_news(each, seen) for each in life.writes]
        left = awaited.count(True)
        for is_news in awaited:
            each = life.writes[0]
            wait = max(life.started + each.at - self._shared.now(), 0)
            await ctx.sleep(wait, idle=not left, point=POINT)
            if container.container_id != known or container.running_since is None:
                life.writes.clear()
                break
            life.writes.popleft()
            left -= is_news
            self._put(ctx, each)
            if is_news:
                self._changed(uid)
        self._running.pop(known, None)

    def _put(self, ctx: Context, each: FileWrite) -> None:
        try:
            self._shared.host.disks.put(each.place, each.path, each.data, hides=each.hides)
        except NoSpace:
            what = {"message": f"{each.place}/{each.path}: No space left on device"}
            ctx.log("kubelet.error", level=WARNING, data=what)


def _is_news(each: FileWrite, seen: dict[tuple[str, str], bool]) -> bool:
    """Return whether a write makes or removes a file, as far as the writes `seen` tell."""
    place, there = (each.place, each.path), each.data is not None
    news = seen.get(place) is not there
    seen[place] = there
    return news
