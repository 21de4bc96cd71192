"""Who answers webhooks in the world: an actor for each host, and how a server asks it.

Points: `apiserver.webhook` (at the server: a webhook is asked), `recv` (at the actor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors import LinkBroken, Timeout
from controlplane.api.tree import Tree
from controlplane.apiserver.storage.transactions import Review, Reviewed

if TYPE_CHECKING:
    from actors import Context

__all__ = ["Decide", "actor_of", "answer", "review"]

Decide = Callable[[Tree], Tree]
"""From the `request` of an AdmissionReview to its `response`, without the uid."""


def actor_of(host: str) -> str:
    """The actor that answers for a host."""
    return f"webhook {host}"


async def answer(ctx: Context, decide: Decide) -> None:
    """Main task of an actor that answers webhooks by a function."""
    while True:
        message = await ctx.recv(idle=True)
        review: Review = message.payload
        request = review.body["request"]
        response = {**decide(request), "uid": request["uid"]}
        head = {key: review.body[key] for key in ("apiVersion", "kind")}
        message.reply({**head, "response": response})


async def review(ctx: Context, asked: Review) -> Reviewed:
    """Ask the actor of the host; what it answers, or why it did not."""
    try:
        body = await ctx.ask(actor_of(asked.to), asked, asked.timeout_ns, point="apiserver.webhook")
    except Timeout:
        return Reviewed(None, "context deadline exceeded")
    except LinkBroken:
        return Reviewed(None, "EOF")
    return body if isinstance(body, Reviewed) else Reviewed(body)
