"""The servers of webhooks: actors of the world, one for each host, or servers outside of it.

Points: `apiserver.webhook` (at the server: a webhook is called), `recv` (at the actor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from actors import LinkBroken, Timeout
from actors.inlet import ExternalMessage, Outlet
from controlplane.api.tree import Tree
from controlplane.apiserver.storage.transactions import Review, Reviewed

if TYPE_CHECKING:
    from actors import Context

__all__ = ["OUTSIDE", "Decide", "Hosts", "actor_of", "answer", "pass_on", "review"]

Decide = Callable[[Tree], Tree]
"""From the `request` of an AdmissionReview to its `response`, without the uid."""
OUTSIDE: Final = "webhooks outside"
"""The actor that asks servers outside of the world."""


def actor_of(host: str) -> str:
    """The actor that answers for a host."""
    return f"webhook {host}"


@frozen
class Hosts:
    """The servers of webhook hosts: actors of the world for `own`, and servers outside of it, if there are any.

    The latter serve every host of a URL, and those `services` whose address is known.
    """

    own: dict[str, None] = field(factory=dict)
    outside: bool = False
    services: tuple[str, ...] = ()

    def actor(self, host: str) -> str:
        """Return the actor that answers for a host; "" if there is none."""
        if host in self.own:
            return actor_of(host)
        if self.outside and (not host.endswith(".svc") or host in self.services):
            return OUTSIDE
        return ""


async def answer(ctx: Context, decide: Decide) -> None:
    """Main task of an actor that answers webhooks by a function."""
    while True:
        message = await ctx.recv(idle=True)
        review: Review = message.payload
        request = review.body["request"]
        response = {**decide(request), "uid": request["uid"]}
        head = {key: review.body[key] for key in ("apiVersion", "kind")}
        message.reply({**head, "response": response})


async def pass_on(ctx: Context, outlet: Outlet) -> None:
    """Main task of the actor that asks servers outside: what they answer comes back as input.

    So a replay needs none of them. What goes out is the time, a number and a `Review`, an input is the number and
    the fields of a `Reviewed`.
    """
    asked: dict[int, Any] = {}
    number = 0
    while True:
        message = await ctx.recv(idle=True)
        if isinstance(message.payload, ExternalMessage):
            which, *answered = message.payload.value
            waiting = asked.pop(which, None)
            if waiting is not None:
                waiting.reply(Reviewed(*answered))
            continue
        number += 1
        asked[number] = message
        outlet.put((ctx.now, number, message.payload))


async def review(ctx: Context, asked: Review) -> Reviewed:
    """Ask the actor that answers; what it says, or why it said nothing."""
    actors = (asked.to,) if isinstance(asked.to, str) else asked.to
    which = ctx.choose("endpoint", len(actors), asked.label) if len(actors) > 1 else 0
    try:
        body = await ctx.ask(actors[which], asked, asked.timeout_ns, point="apiserver.webhook")
    except Timeout:
        return Reviewed(None, "context deadline exceeded")
    except LinkBroken:
        return Reviewed(None, "EOF")
    return body if isinstance(body, Reviewed) else Reviewed(body)
