"""Requests of a served session itself to its API server.

They enter the world and its recording as those of any client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import frozen

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer

if TYPE_CHECKING:
    from controlplane.api.request import User
    from controlplane.api.tree import Tree

__all__ = ["AGENT", "Ask", "InnerRequests", "Pending"]

Ask = Callable[
    [str, str, dict[str, list[str]], list[tuple[str, str]], bytes, "User", Callable[[Any], None]],
    int,
]
"""The entrance of requests into the world (`Listener.ask`)."""
JSON: Final = "application/json"
AGENT: Final = "controlplane-simulator"
"""The user agent of requests for kube-scheduler-simulator's interfaces."""


@frozen
class Pending:
    """A request that has entered the world; its answer is awaited apart, so that several can be under way."""

    _answers: trio.MemoryReceiveChannel[Any]

    async def answer(self) -> tuple[int, Tree]:
        """The status code and the body, 503 if the API server is down."""
        answer = await self._answers.receive()
        if not isinstance(answer, HttpAnswer):
            return 503, {"message": "the API server is down"}
        return answer.code, answer.tree if isinstance(answer.tree, dict) else {}


@frozen
class InnerRequests:
    """Requests under the name of `agent`."""

    _ask: Ask
    _agent: str

    def begin(
        self,
        method: str,
        path: str,
        body: Tree | None = None,
        *,
        query: dict[str, list[str]] | None = None,
        content_type: str = JSON,
        user: User = ADMIN,
    ) -> Pending:
        """Let a request enter the world."""
        send, receive = trio.open_memory_channel[Any](1)
        headers = [("content-type", content_type), ("user-agent", self._agent)]
        data = b"" if body is None else json.dumps(body).encode()
        self._ask(method, path, query or {}, headers, data, user, send.send_nowait)
        return Pending(receive)
