"""A client of exec and attach over WebSocket."""

from __future__ import annotations

from typing import Any

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from tests.apiserver.http.session import Session, more


def asked(path: str, protocol: str = "v5.channel.k8s.io") -> bytes:
    """A request for a connection in WebSocket."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    ).encode()


async def connected(session: Session, path: str, *said: bytes, during: Any = None) -> list[bytes]:
    """All messages of a connection, to its end; `during` is awaited once it is open."""
    stream = await session.connect()
    async with stream:
        await stream.send_all(asked(path))
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += await more(stream)
        head, _, rest = raw.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), raw
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        socket = Connection(ConnectionType.CLIENT, trailing_data=rest)
        if during is not None:
            await during()
        for message in said:
            await stream.send_all(socket.send(BytesMessage(message)))
        found = []
        while True:
            for event in socket.events():
                if isinstance(event, CloseConnection):
                    return found
                found.append(bytes(event.data))
            socket.receive_data(await more(stream))


async def run(session: Session, pod: str, script: str, *, namespace: str = "default") -> str:
    """The standard output of a script in a pod."""
    from urllib.parse import quote

    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?command=sh&command=-c&command={quote(script)}"
    told = await connected(session, path)
    return b"".join(each[1:] for each in told if each[:1] == b"\x01").decode()
