"""Exec and attach over SPDY: the numbered channels of a session, each a stream of its own.

Upstream: kubelet pkg/cri/streaming/remotecommand/httpstream.go; the client opens the streams.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.apiserver.http.channels import CLOSED, ERROR, RESIZE, STDERR, STDIN, STDOUT
from controlplane.apiserver.http.spdy import Frames, Opened, Received, SpdyError

__all__ = ["PROTOCOL", "Streams"]

PROTOCOL = "v4.channel.k8s.io"
_NAMED = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


class Streams:
    """Speaks as a `websocket.Socket` does: messages that begin with their channel's number."""

    def __init__(self, expected: int) -> None:
        self._frames = Frames()
        self._expected = expected
        self._by_stream: dict[int, int] = {}
        self._by_channel: dict[int, int] = {}

    @property
    def ready(self) -> bool:
        """The client has opened all streams that the request needs."""
        return len(self._by_channel) >= self._expected

    def received(self, data: bytes) -> tuple[list[bytes], bytes, bool]:
        """Messages in some bytes (none: the client hung up), what to send for them, and whether it is open."""
        if not data:
            return [], b"", False
        messages: list[bytes] = []
        try:
            events, reply = self._frames.receive(data)
        except SpdyError:
            return [], b"", False
        for event in events:
            if isinstance(event, Opened):
                channel = _NAMED.get(event.headers.get("streamtype", ""))
                if channel is not None and channel in self._by_channel:
                    return messages, reply, False  # one stream of each kind is all there is
                if channel is not None:
                    self._by_stream[event.stream] = channel
                    self._by_channel[channel] = event.stream
                reply += self._frames.accepted(event.stream)
            elif isinstance(event, Received):
                channel = self._by_stream.get(event.stream)
                if channel is None:
                    continue
                if event.data:
                    messages.append(bytes([channel]) + event.data)
                if event.ended and channel == STDIN:
                    messages.append(bytes([CLOSED, STDIN]))
        return messages, reply, self._frames.open

    def sent(self, messages: Iterable[bytes], *, text: bool = False) -> bytes:
        """The bytes of some messages; the last one of the error channel ends its stream."""
        found = b""
        for message in messages:
            stream = self._by_channel.get(message[0])
            if stream is not None:
                found += self._frames.sent(stream, message[1:], ended=message[0] == ERROR)
        return found

    def closed(self) -> bytes:
        """The bytes that end all other streams."""
        return b"".join(
            self._frames.sent(stream, b"", ended=True)
            for channel, stream in self._by_channel.items()
            if channel in (STDOUT, STDERR)
        )
