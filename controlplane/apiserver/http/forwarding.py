"""Port forwarding into an emulated pod: an HTTP server that reports its own identity and the request.

Two protocols: SPDY/3.1, a pair of streams for each connection, bare or within WebSocket; and the older
one of numbered channels. Upstream: apimachinery pkg/util/portforward, client-go tools/portforward,
kubelet pkg/cri/streaming/portforward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import h11

from controlplane.api.container_inside import Inside, answer_of
from controlplane.api.validation import parse_int64
from controlplane.apiserver.http.spdy import Frames, Opened, Received, Reset, SpdyError

__all__ = ["CHANNELS", "TUNNEL", "VERSION", "ChannelForwarding", "StreamForwarding", "ports_of"]

TUNNEL = "SPDY/3.1+portforward.k8s.io"
"""The WebSocket protocol whose messages are SPDY's bytes."""
VERSION = "portforward.k8s.io"
CHANNELS = ("v4.channel.k8s.io", "portforward.k8s.io")
CONNECTIONS = 256
"""Connections that one client may forward at once."""
_LONGEST_BODY = 1 << 20


def ports_of(query: Mapping[str, Sequence[str]]) -> list[int]:
    """Return the ports that a request for numbered channels names, at most 128."""
    wanted = ",".join(query.get("ports") or ()).split(",")
    ports = [int(port) for port in wanted if port.isdecimal() and len(port) <= 5]
    return [port for port in ports if port < 1 << 16][:128]


class Answerer:
    """One connection to a port of a pod."""

    def __init__(self, inside: Inside, port: int) -> None:
        self._inside = inside
        self._port = port
        self._http = h11.Connection(h11.SERVER)
        self.ended = False

    def receive(self, data: bytes) -> bytes:
        """Return the bytes that answer some bytes; no error ends the input."""
        if self.ended:
            return b""
        found = b""
        request: h11.Request | None = None
        body = b""
        try:
            self._http.receive_data(data)
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    break
                if isinstance(event, h11.Request):
                    request, body = event, b""
                elif isinstance(event, h11.Data):
                    body = (body + bytes(event.data))[:_LONGEST_BODY]
                elif isinstance(event, h11.EndOfMessage):
                    found += self._answer(request or self._asked, body or self._body)
                    request, body = None, b""
                else:  # closed, or paused before another protocol
                    self.ended = True
                    break
        except h11.RemoteProtocolError:
            self.ended = True
            return found + b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request"
        self._asked, self._body = request or self._asked, body or self._body
        return found

    _asked: h11.Request | None = None
    _body = b""

    def _answer(self, request: h11.Request | None, body: bytes) -> bytes:
        assert request is not None
        self._asked, self._body = None, b""
        text = answer_of(
            self._inside,
            self._port,
            request.method.decode(),
            request.target.decode("latin-1"),
            [(name.decode(), value.decode("latin-1")) for name, value in request.headers],
            body.decode("utf-8", "replace"),
        )
        content = b"" if request.method == b"HEAD" else text.encode()
        http = self._http
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(text.encode()))),
        ]
        found = http.send(h11.Response(status_code=200, headers=headers, reason="OK")) or b""
        if content:
            found += http.send(h11.Data(data=content)) or b""
        found += http.send(h11.EndOfMessage()) or b""
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
        else:
            self.ended = True
        return found


def _refusal(inside: Inside, port: int) -> str:
    """Return why a port is not reachable, "" if it is."""
    if not inside.ports or port in inside.ports:
        return ""
    return (
        f"error forwarding port {port} to pod {inside.key.rstrip('/')}, uid : failed to connect to "
        f"localhost:{port} inside namespace: dial tcp4 127.0.0.1:{port}: connect: connection refused"
    )


class StreamForwarding:
    """Connections as pairs of streams: one for data, one for what goes wrong."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._frames = Frames()
        self._data: dict[int, tuple[Answerer, str]] = {}
        self._errors: dict[str, int] = {}

    @property
    def open(self) -> bool:
        """The client has not ended the session."""
        return self._frames.open

    def receive(self, data: bytes) -> bytes:
        """Return the bytes that answer some bytes. SpdyError."""
        events, reply = self._frames.receive(data)
        for event in events:
            if isinstance(event, Opened):
                reply += self._frames.accepted(event.stream) + self._begun(event)
            elif isinstance(event, Reset):
                self._data.pop(event.stream, None)
            elif event.stream in self._data:
                reply += self._passed(event)
        return reply

    def _begun(self, event: Opened) -> bytes:
        number = event.headers.get("requestid", "")
        if max(len(self._data), len(self._errors)) >= CONNECTIONS:
            raise SpdyError("too many connections at once")
        if event.headers.get("streamtype") == "error":
            self._errors[number] = event.stream
            return b""
        text = event.headers.get("port", "")
        port = parse_int64(text) or 0
        refusal = _refusal(self._inside, port)
        if refusal:
            return self._finished(event.stream, number, refusal)
        self._data[event.stream] = Answerer(self._inside, port), number
        return b""

    def _passed(self, event: Received) -> bytes:
        answerer, number = self._data[event.stream]
        found = self._frames.sent(event.stream, answerer.receive(event.data) if event.data else b"")
        if event.ended or answerer.ended:
            del self._data[event.stream]
            found += self._finished(event.stream, number, "")
        return found

    def _finished(self, stream: int, number: str, refusal: str) -> bytes:
        error = self._errors.pop(number, None)
        found = b"" if error is None else self._frames.sent(error, refusal.encode(), ended=True)
        return found + self._frames.sent(stream, b"", ended=True)


class ChannelForwarding:
    """One connection for each port of the request: channel 2n for data, 2n+1 for what goes wrong."""

    def __init__(self, inside: Inside, ports: Sequence[int]) -> None:
        self._ports = tuple(ports)
        self._inside = inside
        self._answerers = [Answerer(inside, port) for port in ports]

    def begin(self) -> list[bytes]:
        """Each channel begins with its port, low byte first."""
        found: list[bytes] = []
        for index, port in enumerate(self._ports):
            found += [bytes([2 * index + part]) + port.to_bytes(2, "little") for part in (0, 1)]
            refusal = _refusal(self._inside, port)
            if refusal:
                found.append(bytes([2 * index + 1]) + refusal.encode())
        return found

    def receive(self, message: bytes) -> list[bytes]:
        """Return the messages that answer a message."""
        index, part = divmod(message[0], 2) if message else (0, 1)
        if part or index >= len(self._ports) or not message[1:]:
            return []
        if _refusal(self._inside, self._ports[index]):
            return []
        answer = self._answerers[index].receive(message[1:])
        return [bytes([2 * index]) + answer] if answer else []
