"""Calls of the kubelet to the drivers and plugins of its node, with the errors that gRPC would answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken, Timeout

if TYPE_CHECKING:
    from actors import Context

__all__ = ["call_driver"]


async def call_driver(
    ctx: Context, actor: str, message: Any, timeout_ns: int, error: type[Exception], *, point: str
) -> Any:
    """Ask the actor of a driver or plugin. Raises `error` with the text of the gRPC error."""
    try:
        return await ctx.ask(actor, message, timeout_ns, point=point)
    except Timeout:
        text = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        raise error(text) from None
    except LinkBroken as broken:
        text = f"rpc error: code = Unavailable desc = connection error: {broken}"
        raise error(text) from None
