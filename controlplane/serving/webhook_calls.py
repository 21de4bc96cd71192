"""HTTPS calls to webhooks outside of the emulated cluster, with their certificates.

The world hands out numbered questions; what is answered goes in as input, so a replay calls no webhook. While a
question is open no wait is leapt over and time goes no faster than the clock, or fast time would run
into every timeout. Upstream: apiserver pkg/util/webhook, client-go rest and apimachinery api/errors for
the messages about invalid answers.
"""

from __future__ import annotations

import base64
import binascii
import errno
import json
import math
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import h11
import trio

from controlplane.apiserver.loops.webhooks import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.inlet import Inlet
    from actors.pace import Pacer
    from controlplane.apiserver.storage.transactions import Review

__all__ = ["WebhookCalls"]

LARGEST_ANSWER: Final = 3 * 1024 * 1024
CHUNK: Final = 65_536
_UNKNOWN: Final = "the server rejected our request for an unknown reason"
_STATUS: Final = {
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    415: "the server was unable to respond with a content type that the client supports",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted,"
    " but may still be processing the request",
}


class _RefusedError(Exception):
    """There was an answer, but none that says anything about the object."""


class WebhookCalls:
    """The questions of one session. `services` are the addresses (host, port) of services, by `NAME.NAMESPACE.svc`."""

    def __init__(self, services: Mapping[str, tuple[str, int]], inlet: Inlet, pace: Pacer) -> None:
        self._services = services
        self._inlet = inlet
        self._pace = pace
        self._out, self._in = trio.open_memory_channel[tuple[int, "Review"]](math.inf)

    def send(self, question: tuple[int, int, Review]) -> None:
        """Ask; called from inside the world, at a virtual time, which does not wait."""
        now, number, review = question
        self._pace.ask_outside(now)
        self._out.send_nowait((number, review))

    async def serve(self) -> None:
        """Ask for ever, each question in a task of its own."""
        async with trio.open_nursery() as nursery:
            async for number, review in self._in:
                nursery.start_soon(self._answer, number, review)

    async def _answer(self, number: int, review: Review) -> None:
        body: Any = None
        error, plain = "", False
        try:
            with trio.fail_after(review.timeout_ns / 1e9):
                body = await self._ask(review)
        except trio.TooSlowError:
            error = "context deadline exceeded"
        except _RefusedError as refused:
            error, plain = str(refused), True
        except (OSError, ssl.SSLError, trio.BrokenResourceError, h11.ProtocolError) as failure:
            error = _told(failure)
        self._inlet.put(OUTSIDE, [number, body, error, plain])
        self._pace.answered_outside()

    async def _ask(self, review: Review) -> Any:
        parts = urlsplit(review.url)
        name, port = parts.hostname or "", parts.port or 443
        host, port = self._services.get(name, (name, port))
        try:
            stream: trio.abc.Stream = await trio.open_tcp_stream(host, port)
        except OSError as error:
            raise OSError(f"dial tcp {host}:{port}: {_dialled(error)}") from error
        tls = trio.SSLStream(
            stream, _trusting(review.ca), server_hostname=name, https_compatible=True
        )
        async with tls:
            await tls.do_handshake()
            payload = json.dumps(review.body).encode()
            target = f"{parts.path or '/'}?{parts.query}"
            status, answer = await _exchange(tls, parts.netloc, target, payload)
        if not 200 <= status < 300:
            raise _RefusedError(_refusal(status, answer))
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise _RefusedError(f"couldn't get version/kind; json parse error: {error}") from error


async def _exchange(
    stream: trio.abc.Stream, host: str, target: str, payload: bytes
) -> tuple[int, bytes]:
    """One request and the answer to it: its status and body."""
    connection = h11.Connection(h11.CLIENT)
    head = [
        ("Host", host),
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Content-Length", str(len(payload))),
        ("User-Agent", "kube-apiserver-admission"),
    ]
    asked = connection.send(h11.Request(method="POST", target=target, headers=head)) or b""
    asked += connection.send(h11.Data(data=payload)) or b""
    asked += connection.send(h11.EndOfMessage()) or b""
    await stream.send_all(asked)
    status, body = 0, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            received = await stream.receive_some(CHUNK)
            if not received and not status:
                raise OSError("EOF")
            connection.receive_data(bytes(received))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > LARGEST_ANSWER:
                raise _RefusedError(f"response body is larger than {LARGEST_ANSWER} bytes")
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return status, bytes(body)


def _trusting(bundle: str) -> ssl.SSLContext:
    """A TLS context that trusts the bundle (PEM in base64); without a bundle, the system's authorities."""
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise _RefusedError(f"unable to load root certificates: {error}") from error


def _refusal(status: int, answer: bytes) -> str:
    text = answer[:2048].decode(errors="replace").strip()
    if status >= 500 and status not in _STATUS:
        return f'an error on the server ("{text or "unknown"}") has prevented the request from succeeding'
    return _STATUS.get(status, _UNKNOWN)


def _told(error: BaseException) -> str:
    """Go's text for the error, where it is known."""
    cause = error
    while cause.__cause__ is not None and not isinstance(cause, ssl.SSLError):
        if isinstance(cause, OSError) and str(cause).startswith("dial tcp"):
            break
        cause = cause.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        if "unable to get local issuer" in cause.verify_message or "self" in cause.verify_message:
            return (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            )
        return f"tls: failed to verify certificate: x509: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"tls: {cause.reason}"
    if isinstance(error, trio.BrokenResourceError | h11.ProtocolError):
        return "EOF"
    return str(cause) or "EOF"


def _dialled(error: BaseException) -> str:
    """The reason why the connection failed: the first cause, as a name may have several addresses."""
    while isinstance(error.__cause__, BaseException):
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, socket.gaierror):
        return "lookup: no such host"
    number = getattr(error, "errno", None)
    if number == errno.ECONNREFUSED:
        return "connect: connection refused"
    return f"connect: {os.strerror(number).lower()}" if number else str(error)
