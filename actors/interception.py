"""Interception: something that looks at every message and answer as it is sent, and may keep it for later.

A fault on a link concerns all messages of two actors. An interceptor picks single ones, by what they say: it holds a
request until another one has been answered, say. It must decide by the messages alone, so that a run stays
deterministic. Runs without one pay a comparison per message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.process import Mailbox, Message, Request


class Interceptor(Protocol):
    """Decides about each message of a run. Whatever it takes it passes on itself, or never."""

    def takes(self, message: Message, target: Mailbox, key: object) -> bool:
        """Return whether a message stays with the interceptor; `Transport.carry` sends it on its way later."""

    def takes_answer(
        self, request: Request, value: object, error: BaseException | None, cause: int
    ) -> bool:
        """Return whether an answer stays with the interceptor; `Transport.carry_answer` sends it on later."""


class Listener(Protocol):
    """Hears of each message and answer of a run as it is sent, and decides nothing."""

    def hears(self, message: Message, target: Mailbox) -> None:
        """Note a message."""

    def hears_answer(self, request: Request, value: object, error: BaseException | None) -> None:
        """Note an answer."""


class Overheard:
    """An interceptor that tells listeners first, and leaves all decisions to another interceptor, if there is one."""

    __slots__ = ("listeners", "then")

    def __init__(self, listener: Listener, then: Interceptor | None) -> None:
        self.listeners = [listener]
        self.then = then

    def takes(self, message: Message, target: Mailbox, key: object) -> bool:
        """Tell the listeners (`Interceptor`)."""
        for listener in self.listeners:
            listener.hears(message, target)
        return self.then is not None and self.then.takes(message, target, key)

    def takes_answer(
        self, request: Request, value: object, error: BaseException | None, cause: int
    ) -> bool:
        """Tell the listeners (`Interceptor`)."""
        for listener in self.listeners:
            listener.hears_answer(request, value, error)
        return self.then is not None and self.then.takes_answer(request, value, error, cause)
