"""Transport: messages and answers between mailboxes, over links where there are any.

Without a link a message arrives at once; in which order a mailbox is read is a choice all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.disk import Disk
from actors.errors import LinkBroken
from actors.link import Link
from actors.process import Actor, Mailbox, Message, Request, Task

if TYPE_CHECKING:
    from actors.core import Core
    from actors.interception import Interceptor


async def _nothing(_ctx: Any) -> None:
    """Do nothing: the main task of the actor that stands for the outside, which is never started."""


class Transport:
    """The mailboxes, links, messages and requests of one run."""

    __slots__ = (
        "_kernel",
        "_mailbox_no",
        "_outside",
        "_request_no",
        "_send_no",
        "interceptor",
        "links",
    )

    def __init__(self, kernel: Core) -> None:
        self._kernel = kernel
        self.links: dict[tuple[str, str], Link] = {}
        self.interceptor: Interceptor | None = None
        self._mailbox_no = 0
        self._send_no = 0
        self._request_no = 0
        self._outside: Actor | None = None

    def new_mailbox(self, actor: Actor, name: str) -> Mailbox:
        """One more mailbox of an actor."""
        self._mailbox_no += 1
        return Mailbox(self._kernel, self._mailbox_no, actor, name)

    def send(
        self,
        sender: Actor,
        target: Mailbox,
        payload: Any,
        *,
        key: Any = None,
        request: Request | None = None,
        stream: Mailbox | None = None,
    ) -> None:
        """Put a message on its way. To a dead incarnation it is lost, as on a closed socket."""
        kernel = self._kernel
        self._send_no = send_no = self._send_no + 1
        message = Message(kernel, send_no, sender, payload, kernel.step, request, stream)
        if kernel.footprint is not None:
            message.origin = kernel.footprint.sent(
                target.owner.name, target.name, sender.name, send_no, ordered=key is None
            )
        if key is None:
            key = sender.name
        if self.interceptor is None or not self.interceptor.takes(message, target, key):
            self.carry(message, target, key)

    def tell(self, name: str, payload: Any) -> None:
        """Send an actor a message from outside of the world. Nothing happens when it has not started."""
        target = self._kernel.actor(name).mailbox
        if target is not None:
            self.send(self.outside(), target, payload)

    def carry(self, message: Message, target: Mailbox, key: Any) -> None:
        """Take a message to its mailbox, over the link if there is one."""
        if self.links:
            link = self.links.get((message.sender.name, target.owner.name))
            if link is not None:
                self._crosses(link)
                link.carry(target, key, message)
                return
        self.deliver(target, key, message)

    def _crosses(self, link: Link) -> None:
        """Note that a message crosses a link: where the link counts or holds messages, their order matters."""
        footprint = self._kernel.footprint
        if footprint is not None and (link.losing or link.answers or link.cut):
            footprint.everything()

    def deliver(self, target: Mailbox, key: Any, message: Message) -> None:
        """The message arrives."""
        owner = target.owner
        if owner.alive and target.incarnation == owner.incarnation and not target.broken:
            target.put(key, message)
        elif message.request is not None:
            self.answer(message.request, None, LinkBroken(f"{owner.name} is down"))
        elif message.stream is not None:
            message.stream.break_now()

    def unordered_key(self) -> int:
        """The key of a channel for one message."""
        return self._send_no + 1

    def new_request(self, asker: Task, wait_no: int, peer: Actor) -> Request:
        """Register a request, so that a reset link can fail it."""
        self._request_no += 1
        request = Request(self._request_no, asker, wait_no, peer)
        asker.actor.waiting_for[request.number] = (asker, wait_no, peer.name)
        return request

    def answer(self, request: Request, value: Any, error: BaseException | None) -> None:
        """Send the answer of a request back along its link."""
        cause = self._kernel.step
        taken = self.interceptor is not None and self.interceptor.takes_answer(
            request, value, error, cause
        )
        if not taken:
            self.carry_answer(request, value, error, cause)

    def carry_answer(
        self, request: Request, value: Any, error: BaseException | None, cause: int
    ) -> None:
        """Take an answer back to the asker, over the link if there is one."""
        if self.links:
            link = self.links.get((request.peer.name, request.asker.actor.name))
            if link is not None:
                self._crosses(link)
                link.carry_answer(request, value, error, cause)
                return
        self.answered(request, value, error, cause)

    def answered(
        self, request: Request, value: Any, error: BaseException | None, cause: int
    ) -> None:
        """The answer arrives; dropped when the asker is gone or gave up."""
        asker = request.asker
        if asker.actor.waiting_for.pop(request.number, None) is not None:
            kernel = self._kernel
            if kernel.footprint is not None:
                kernel.footprint.woke(asker.label)
            kernel.wake(asker, request.wait_no, value, error, cause)

    def link_between(self, one: str, other: str) -> Link:
        """The link from one actor to another, made when first asked for."""
        kernel = self._kernel
        link = self.links.get((one, other))
        if link is None:
            kernel.actor(one), kernel.actor(other)
            link = self.links[one, other] = Link(kernel, f"{one}->{other}")
        return link

    def outside(self) -> Actor:
        """The sender of external input: an actor without tasks."""
        if self._outside is None:
            self._outside = Actor(0, "outside", _nothing, Disk())
        return self._outside
