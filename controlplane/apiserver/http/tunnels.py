"""Port forwarding to where something really listens: which bytes belong to which connection.

The three wires of `forwarding`, for connections that take their time: bytes of the client become events of numbered
connections, and data of connections bytes for the client. Upstream: cri-streaming pkg/streaming/portforward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from controlplane.api.validation import parse_int64
from controlplane.apiserver.http.forwarding import CONNECTIONS
from controlplane.apiserver.http.spdy import Frames, Opened, Received, Reset, SpdyError
from controlplane.apiserver.http.websocket import Socket

__all__ = ["Begun", "Channels", "Data", "Dropped", "Event", "Streams", "Tunnelled", "Tunnels"]


class Begun(NamedTuple):
    """The client wants a connection to a port."""

    number: int
    port: int


class Data(NamedTuple):
    """The client has sent data on a connection, perhaps the last."""

    number: int
    data: bytes
    ended: bool


class Dropped(NamedTuple):
    """The client has given a connection up."""

    number: int


Event = Begun | Data | Dropped


class Tunnels(Protocol):
    """The connections of one client."""

    def begin(self) -> tuple[list[Event], bytes]:
        """Return what begins with the request, and what to send first."""

    def receive(self, data: bytes) -> tuple[list[Event], bytes, bool]:
        """Return events, what to send for them, and whether the client is still there (no bytes: it hung up)."""

    def sent(self, number: int, data: bytes) -> bytes:
        """Return the bytes of data on a connection."""

    def finished(self, number: int, error: str) -> bytes:
        """Return the bytes that end a connection, with what went wrong."""


class Streams:
    """SPDY: a stream for the data of each connection, and one for its errors."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._errors: dict[str, int] = {}
        self._requests: dict[int, str] = {}

    def begin(self) -> tuple[list[Event], bytes]:
        """Return nothing: the client opens the streams."""
        return [], b""

    def receive(self, data: bytes) -> tuple[list[Event], bytes, bool]:
        """Return events, what to send for them, and whether the client is still there."""
        if not data:
            return [], b"", False
        found: list[Event] = []
        try:
            frames, reply = self._frames.receive(data)
            for frame in frames:
                if isinstance(frame, Opened):
                    reply += self._frames.accepted(frame.stream)
                    found += self._opened(frame)
                elif isinstance(frame, Reset):
                    if self._requests.pop(frame.stream, None) is not None:
                        found.append(Dropped(frame.stream))
                elif isinstance(frame, Received) and frame.stream in self._requests:
                    found.append(Data(frame.stream, frame.data, frame.ended))
        except SpdyError:
            return found, b"", False
        return found, reply, self._frames.open

    def _opened(self, frame: Opened) -> list[Event]:
        number = frame.headers.get("requestid", "")
        is_error = frame.headers.get("streamtype") == "error"
        if len(self._errors if is_error else self._requests) >= CONNECTIONS:
            raise SpdyError("too many connections at once")
        if is_error:
            self._errors[number] = frame.stream
            return []
        self._requests[frame.stream] = number
        return [Begun(frame.stream, parse_int64(frame.headers.get("port", "")) or 0)]

    def sent(self, number: int, data: bytes) -> bytes:
        """Return the bytes of data on a connection."""
        return self._frames.sent(number, data) if number in self._requests else b""

    def finished(self, number: int, error: str) -> bytes:
        """Return the bytes that end a connection, with what went wrong."""
        request = self._requests.pop(number, None)
        if request is None:
            return b""
        stream = self._errors.pop(request, None)
        told = b"" if stream is None else self._frames.sent(stream, error.encode(), ended=True)
        return told + self._frames.sent(number, b"", ended=True)


class Tunnelled:
    """SPDY within the messages of a WebSocket."""

    def __init__(self) -> None:
        self._socket = Socket()
        self._streams = Streams()

    def begin(self) -> tuple[list[Event], bytes]:
        """Return nothing: the client opens the streams."""
        return [], b""

    def receive(self, data: bytes) -> tuple[list[Event], bytes, bool]:
        """Return events, what to send for them, and whether the client is still there."""
        messages, reply, open_still = self._socket.received(data)
        found: list[Event] = []
        for message in messages:
            if not message:
                continue
            events, answer, goes_on = self._streams.receive(message)
            found += events
            reply += self._wrapped(answer)
            if not goes_on:
                return found, reply + self._socket.broken(), False
        return found, reply, open_still

    def _wrapped(self, data: bytes) -> bytes:
        return self._socket.sent([data]) if data else b""

    def sent(self, number: int, data: bytes) -> bytes:
        """Return the bytes of data on a connection."""
        return self._wrapped(self._streams.sent(number, data))

    def finished(self, number: int, error: str) -> bytes:
        """Return the bytes that end a connection, with what went wrong."""
        return self._wrapped(self._streams.finished(number, error))


class Channels:
    """Numbered channels in a WebSocket: one connection for each port of the request, 2n for data, 2n+1 for errors."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._socket = Socket()
        self._ports = tuple(ports)

    def begin(self) -> tuple[list[Event], bytes]:
        """Return the connections of the request; each channel begins with its port, low byte first."""
        first = [
            bytes([2 * number + part]) + port.to_bytes(2, "little")
            for number, port in enumerate(self._ports)
            for part in (0, 1)
        ]
        begun = [Begun(number, port) for number, port in enumerate(self._ports)]
        return [*begun], self._socket.sent(first)

    def receive(self, data: bytes) -> tuple[list[Event], bytes, bool]:
        """Return events, what to send for them, and whether the client is still there."""
        messages, reply, open_still = self._socket.received(data)
        found: list[Event] = []
        for message in messages:
            number, part = divmod(message[0], 2) if message else (0, 1)
            if not part and number < len(self._ports) and message[1:]:
                found.append(Data(number, message[1:], False))
        return found, reply, open_still

    def sent(self, number: int, data: bytes) -> bytes:
        """Return the bytes of data on a connection."""
        return self._socket.sent([bytes([2 * number]) + data])

    def finished(self, number: int, error: str) -> bytes:
        """Return the bytes that tell what went wrong; nothing tells the end of a connection."""
        return self._socket.sent([bytes([2 * number + 1]) + error.encode()]) if error else b""
