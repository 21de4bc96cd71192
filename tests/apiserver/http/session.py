"""A served cluster inside a test, and a client that speaks HTTP by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors import EventLog, strategies
from actors.pace import MAX, Pacer
from controlplane.apiserver.http.kubeconfig import Address
from controlplane.apiserver.loops.http_host import Limits
from controlplane.controllers.common.selection import STANDARD
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.serving.scenario import SCENARIO
from controlplane.serving.session import Rim, serve_async

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def more(stream: trio.SocketStream) -> bytes:
    """What comes next on a connection that is to go on: its end, or half a minute of nothing, is a failure."""
    with trio.fail_after(120):
        piece = await stream.receive_some(65536)
    assert piece, "the connection was ended"
    return bytes(piece)


class Session:
    def __init__(self, serving: Execution, pace: Pacer, address: Address, stop: trio.Event) -> None:
        self.serving = serving
        self.pace = pace
        self.address = address
        self.stop = stop
        self.port = int(address.url.rpartition(":")[2])

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def raw(self, data: bytes, *, half_close: bool = False, seconds: float = 5.0) -> bytes:
        """Everything that comes back on a connection of its own, to its end or the time limit."""
        stream = await self.connect()
        found = b""
        async with stream:
            await stream.send_all(data)
            if half_close:
                await stream.send_eof()
            with trio.move_on_after(seconds):
                while piece := await stream.receive_some(65536):
                    found += piece
        return found

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = await self.raw(request(method, path, body, Connection="close", **headers))
        return Answer(data)


class Answer:
    def __init__(self, raw: bytes) -> None:
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.code = int(lines[0].split()[1])
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])
        }
        if self.headers.get("transfer-encoding") == "chunked":
            body = b"".join(chunks(body))
        self.body = body

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


def chunks(body: bytes) -> Iterator[bytes]:
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        yield body[:length]
        body = body[length + 2 :]


def request(method: str, path: str, body: Any = None, **headers: str) -> bytes:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"Host": "test", "Content-Type": "application/json", **named}
    if data or method in {"POST", "PUT", "PATCH"}:
        given.setdefault("Content-Length", str(len(data)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + data


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Lines:
    """The events of a watch, one after the other."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._raw = b""
        self._body = b""
        self.head = b""
        self.ended = False

    async def start(self) -> Lines:
        while b"\r\n\r\n" not in self._raw:
            self._raw += await more(self._stream)
        self.head, _, self._raw = self._raw.partition(b"\r\n\r\n")
        return self

    async def half_close(self) -> None:
        await self._stream.send_eof()

    async def next(self) -> Any:
        """The next event; None at the clean end of the stream."""
        while b"\n" not in self._body:
            self._unchunk()
            if b"\n" in self._body:
                break
            if self.ended:
                return None
            self._raw += await more(self._stream)
        line, _, self._body = self._body.partition(b"\n")
        return json.loads(line)

    def _unchunk(self) -> None:
        while b"\r\n" in self._raw:
            size, _, rest = self._raw.partition(b"\r\n")
            length = int(size, 16)
            if len(rest) < length + 2:
                return
            self._body += rest[:length]
            self._raw = rest[length + 2 :]
            self.ended = self.ended or length == 0


@asynccontextmanager
async def watching(session: Session, path: str) -> AsyncIterator[Lines]:
    stream = await session.connect()
    async with stream:
        await stream.send_all(request("GET", path))
        yield await Lines(stream).start()


def prepared(
    *, keep: bool = False, strategy: str = "fifo", seed: int = 0, **options: Any
) -> Execution:
    """A session that has not begun."""
    made = strategies.named(strategy, seed)
    return Execution(plan_of(SCENARIO, **options), made, log=EventLog(keep=keep))


@asynccontextmanager
async def served(
    pace: Pacer | None = None,
    *,
    nodes: int = 0,
    files: tuple[str, ...] = (),
    token: str = "",
    keep: bool = False,
    strategy: str = "fifo",
    limits: Limits | None = None,
    without: tuple[str, ...] = (),
    record_token_key: bool = True,
    origins: tuple[str, ...] = (),
    tls: bool = False,
    http2: bool = True,
    lacking: str = "",
    goaway_chance: float = 0.0,
    **options: Any,
) -> AsyncIterator[Session]:
    """A session; unless asked for more, its few controllers write nothing of their own accord."""
    options.setdefault("controllers", ",".join(STANDARD))
    if lacking:
        options["without"] = lacking
    serving = prepared(
        keep=keep,
        strategy=strategy,
        seed=3,
        files=files,
        nodes=nodes,
        without_fix=without,
        **options,
    )
    pace = pace or Pacer(MAX)
    stop = trio.Event()
    ready = trio.Event()
    told: list[Address] = []

    def tell(address: Address) -> None:
        told.append(address)
        ready.set()

    rim = Rim(
        tls=tls,
        http2=http2,
        token=token,
        limits=limits or Limits(),
        record_token_key=record_token_key,
        origins=origins,
        goaway_chance=goaway_chance,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_async, serving, rim, pace, tell, stop, keep)
        await ready.wait()
        yield Session(serving, pace, told[0], stop)
        stop.set()
