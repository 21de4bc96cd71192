"""Connections before and after authentication: an unauthenticated one gets few resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

if TYPE_CHECKING:
    from controlplane.apiserver.http.unauthenticated import UnauthenticatedConnections
    from controlplane.apiserver.loops.http_host import Limits

__all__ = ["Guest", "GuestServer"]


class GuestServer(Protocol):
    """The listener, as connections see it."""

    @property
    def unauthenticated(self) -> UnauthenticatedConnections[int]:
        """The unauthenticated connections."""

    @property
    def limits(self) -> Limits:
        """The limits of an unauthenticated connection, such as its time."""

    def trust(self) -> bool:
        """Return whether there is room for another authenticated connection, and count it."""

    def forget(self) -> None:
        """One of those has gone."""


class Guest:
    """One connection: unauthenticated until its client has authenticated."""

    def __init__(self, server: GuestServer, address: str) -> None:
        self._server = server
        self._address = address
        self.known = False
        self.scope = trio.CancelScope()
        """Ends the connection at once."""
        self.deadline = 0.0
        """The time by which an unauthenticated connection must have sent its request."""
        self.wait_anew()
        server.unauthenticated.arrive(address, id(self), self.scope.cancel)

    def wait_anew(self) -> None:
        """The next request may take as long again."""
        self.deadline = trio.current_time() + self._server.limits.unauthenticated_s

    def introduce(self) -> None:
        """Mark the client as authenticated: it may stay, if there is room for another."""
        if not self.known and self._server.trust():
            self.known = True
            self._server.unauthenticated.depart(self._address, id(self))

    def depart(self) -> None:
        """The connection has ended."""
        if self.known:
            self._server.forget()
        else:
            self._server.unauthenticated.depart(self._address, id(self))
