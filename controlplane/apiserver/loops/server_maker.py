"""The memory of an API server's process, made anew at each start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api import identity
from controlplane.apiserver.requests.memory import Account, Memory
from controlplane.apiserver.requests.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.apiserver.options import ServerOptions
    from controlplane.apiserver.requests.caches import CacheMade
    from controlplane.apiserver.storage.store import Store


@frozen
class ServerMaker:
    """Makes an API server's memory at each start of its process: over its store, or what it has heard of one."""

    first_serial: int
    options_now: Callable[[], ServerOptions]
    store: Store | None
    memory: Memory | None
    lives: list[Account]
    running: list[ApiServer]
    """The memory of the life that was begun last."""

    def __call__(
        self, ctx: Context, heard: Store | None = None, cache_made: CacheMade | None = None
    ) -> ApiServer:
        """The memory of this life."""
        first = self.first_serial
        options = self.options_now()
        account = None
        if self.memory is not None:
            account = Account(self.memory, whole=not options.streams_lists)
            self.lives.append(account)
        made = ApiServer(
            self.store if heard is None else heard,
            uid=lambda: identity.uid(first + ctx.serial()),
            suffix=lambda: identity.suffix(first + ctx.serial()),
            options=options,
            shared=heard is not None,
            account=account,
            cache_made=cache_made,
        )
        self.running[:] = [made]
        return made
