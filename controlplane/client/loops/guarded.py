"""A request whose failure has no effect on its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from actors import LinkBroken
from controlplane.client.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    T = TypeVar("T")


async def attempted(call: Coroutine[Any, Any, T]) -> T | None:
    """Return the server's answer; None when it refuses, or cannot be reached."""
    try:
        return await call
    except (ApiError, LinkBroken):
        return None
