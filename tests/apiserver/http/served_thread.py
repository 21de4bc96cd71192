"""A served cluster in a thread of its own, for clients that block."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

from actors.pace import MAX, Pacer
from controlplane.apiserver.loops.http_host import Limits
from controlplane.scenarios.engine.execution import Execution
from controlplane.serving.session import Rim, serve_async
from tests.apiserver.http.session import prepared, request

SECONDS = 20.0
http.client._MAXHEADERS = 10_000  # type: ignore[attr-defined]  # a body may earn many warnings


class Served:
    """A served cluster. `defects` are exceptions of ours that ended a connection, `panics` a request."""

    def __init__(self, serving: Execution, port: int, listeners: list[Any]) -> None:
        self.serving = serving
        self.port = port
        self._listeners = listeners

    @property
    def defects(self) -> int:
        return sum(listener.defects for listener in self._listeners)

    @property
    def panics(self) -> list[Any]:
        log = self.serving.cluster.world.log
        return [event.data for event in log if event.event == "apiserver.panic"]

    def ask(
        self, method: str, target: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Code and body of one request; of a watch only its code."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.connect()
            assert connection.sock is not None
            raw = request(method, target, body, Connection="close", **headers)
            connection.sock.sendall(raw)
            answer = http.client.HTTPResponse(connection.sock, method=method)
            answer.begin()
            watch = answer.chunked and "watch" in target
            return answer.status, b"" if watch else answer.read()
        finally:
            connection.close()


@contextmanager
def served_thread(*, keep: bool = True, limits: Limits | None = None) -> Iterator[Served]:
    """The server runs until the block ends. Everybody is the administrator."""
    from controlplane.apiserver.loops.http_listener import Listener

    listeners: list[Any] = []

    class Known(Listener):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            listeners.append(self)

    import controlplane.serving.session as module

    before, module.Listener = module.Listener, Known  # type: ignore[misc]
    serving = prepared(keep=keep, seed=3, nodes=0)
    ready = threading.Event()
    port: list[int] = []
    stop: list[Any] = []

    async def main() -> None:
        done = trio.Event()
        stop.extend((trio.lowlevel.current_trio_token(), done))

        def tell(address: Any) -> None:
            port.append(int(address.url.rpartition(":")[2]))
            ready.set()

        rim = Rim(tls=False, limits=limits or Limits(linger_s=0.05))
        await serve_async(serving, rim, Pacer(MAX), tell, done, keep)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield Served(serving, port[0], listeners)
    finally:
        module.Listener = before  # type: ignore[misc]
        token, done = stop
        token.run_sync_soon(done.set)
        thread.join(SECONDS)
