"""WebSocket on a connection that HTTP has been spoken on: messages from bytes, and bytes of messages."""

from __future__ import annotations

from collections.abc import Iterable

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token

__all__ = ["Socket", "accepted"]

MESSAGE_LIMIT = 4 << 20
"""Bytes of one message; clients send some 32 KiB."""
_PROTOCOL_ERROR = 1002
GONE = (LocalProtocolError, RemoteProtocolError)


def accepted(key: str) -> str:
    """Return the server's answer to a client's key; "" for a request without one."""
    return generate_accept_token(key.encode("latin-1")).decode() if key else ""


class Socket:
    """One WebSocket."""

    ready = True
    """The client accepts messages: over WebSocket, at once."""

    def __init__(self) -> None:
        self._connection = Connection(ConnectionType.SERVER)
        self._parts: list[bytes] = []
        self._size = 0

    def received(self, data: bytes) -> tuple[list[bytes], bytes, bool]:
        """Whole messages in some bytes (none: the client hung up), what to send for them, and whether it is open."""
        if not data:
            return [], b"", False
        messages: list[bytes] = []
        reply = b""
        try:
            self._connection.receive_data(data)
            for event in self._connection.events():
                if isinstance(event, Ping):
                    reply += self._connection.send(event.response())
                elif isinstance(event, CloseConnection):
                    return messages, reply + self._connection.send(event.response()), False
                elif isinstance(event, Message):
                    given = event.data
                    content = given.encode() if isinstance(given, str) else bytes(given)
                    self._size += len(content)
                    if self._size > MESSAGE_LIMIT:
                        goodbye = self._connection.send(CloseConnection(1009, "message too big"))
                        return messages, reply + goodbye, False
                    self._parts.append(content)
                    if event.message_finished:
                        messages.append(b"".join(self._parts))
                        self._parts.clear()
                        self._size = 0
        except GONE:
            return messages, reply + self.broken(), False
        return messages, reply, True

    def broken(self) -> bytes:
        """Return the bytes that close the connection for a violation of the protocol spoken on it."""
        try:
            return bytes(self._connection.send(CloseConnection(_PROTOCOL_ERROR)))
        except LocalProtocolError:  # a goodbye was said already
            return b""

    def sent(self, messages: Iterable[bytes], *, text: bool = False) -> bytes:
        """The bytes of some messages; none for a client that has said goodbye."""
        found = b""
        for message in messages:
            event = TextMessage(message.decode()) if text else BytesMessage(message)
            try:
                found += self._connection.send(event)
            except LocalProtocolError:
                break
        return found

    def closed(self) -> bytes:
        """The bytes of a goodbye; none where it was said before."""
        try:
            return bytes(self._connection.send(CloseConnection(1000)))
        except LocalProtocolError:
            return b""
