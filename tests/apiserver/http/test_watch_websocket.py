"""Watches and followed logs over WebSocket, as dashboards ask for them."""

import base64
import json

import pytest
import trio

from tests.apiserver.http.session import config, more, served

wsproto = pytest.importorskip("wsproto")
from wsproto.connection import Connection, ConnectionType  # noqa: E402
from wsproto.events import BytesMessage, CloseConnection, TextMessage  # noqa: E402

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "b"}]},
}


def asked(path, *protocols, origin="http://test", token=""):
    lines = [
        f"GET {path} HTTP/1.1", "Host: test", "Connection: keep-alive, Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]  # fmt: skip
    if origin:
        lines.append(f"Origin: {origin}")
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if protocols:
        lines.append(f"Sec-WebSocket-Protocol: {', '.join(protocols)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Client:
    """A WebSocket whose messages are read one by one."""

    def __init__(self, stream, rest):
        self.stream = stream
        self.socket = Connection(ConnectionType.CLIENT, trailing_data=rest)
        self.events = self.socket.events()

    async def next(self, kind):
        with trio.fail_after(120):
            while True:
                for event in self.events:
                    assert isinstance(event, kind)
                    return getattr(event, "data", None)
                self.socket.receive_data(await more(self.stream))
                self.events = self.socket.events()


async def opened(session, request):
    stream = await session.connect()
    await stream.send_all(request)
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += await more(stream)
    head, _, rest = raw.partition(b"\r\n\r\n")
    return head, Client(stream, rest)


async def test_each_event_of_a_watch_is_a_text_message():
    async with served() as session:
        head, client = await opened(session, asked(f"{MAPS}?watch=true&resourceVersion=0"))
        async with client.stream:
            assert head.startswith(b"HTTP/1.1 101")
            assert b"sec-websocket-protocol" not in head.lower()
            await session.ask("POST", MAPS, config("a", key="value"))
            event = json.loads(await client.next(TextMessage))
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
            await session.ask("DELETE", f"{MAPS}/a")
            assert json.loads(await client.next(TextMessage))["type"] == "DELETED"


async def test_a_watch_needs_an_origin_and_not_more_than_one_protocol():
    async with served() as session:
        for request, code in (
            (asked(f"{MAPS}?watch=true", origin=""), b"403"),
            (asked(f"{MAPS}?watch=true", "one", "two"), b"400"),
            (asked(f"{MAPS}?watch=true", "base64.binary.k8s.io"), b"101"),
        ):
            head, client = await opened(session, request)
            assert head.startswith(b"HTTP/1.1 " + code)
            await client.stream.aclose()


async def test_a_token_may_come_as_a_protocol():
    async with served(token="sesame") as session:
        name = "base64url.bearer.authorization.k8s.io."
        for token, protocols, code in (
            ("sesame", ("base64.binary.k8s.io",), b"101"),
            ("wrong", ("base64.binary.k8s.io",), b"401"),
            ("sesame", (), b"401"),
        ):
            carried = name + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
            head, client = await opened(session, asked(f"{MAPS}?watch=true", *protocols, carried))
            assert head.startswith(b"HTTP/1.1 " + code), head
            assert name.encode() not in head
            await client.stream.aclose()


async def test_a_followed_log_is_sent_in_base64_if_asked():
    async with served(nodes=1, controllers="*") as session:
        with trio.fail_after(120):
            while (await session.ask("POST", PODS, POD)).code != 201:
                await trio.sleep(0.01)
            while b"started" not in (await session.ask("GET", f"{PODS}/p/log")).body:
                await trio.sleep(0.01)
        path = f"{PODS}/p/log?follow=true"
        for protocol, kind in (
            ("base64.binary.k8s.io", TextMessage),
            ("binary.k8s.io", BytesMessage),
        ):
            head, client = await opened(session, asked(path, protocol, origin=""))
            async with client.stream:
                assert f"sec-websocket-protocol: {protocol}".encode() in head.lower()
                said = await client.next(kind)
                text = base64.b64decode(said) if kind is TextMessage else bytes(said)
                assert b"container c started" in text


async def test_a_log_that_is_not_followed_is_sent_and_the_connection_closed():
    async with served(nodes=1, controllers="*") as session:
        with trio.fail_after(120):
            while (await session.ask("POST", PODS, POD)).code != 201:
                await trio.sleep(0.01)
            while b"started" not in (await session.ask("GET", f"{PODS}/p/log")).body:
                await trio.sleep(0.01)
        head, client = await opened(session, asked(f"{PODS}/p/log", "binary.k8s.io", origin=""))
        async with client.stream:
            assert head.startswith(b"HTTP/1.1 101")
            assert b"container c started" in bytes(await client.next(BytesMessage))
            assert await client.next(CloseConnection) is None
        head, client = await opened(session, asked(f"{PODS}/none/log", "binary.k8s.io", origin=""))
        async with client.stream:
            assert head.startswith(b"HTTP/1.1 404")


async def test_a_program_with_a_token_may_name_any_origin():
    elsewhere = "http://localhost"
    async with served(token="sesame") as session:
        for token, code in (("sesame", b"101"), ("wrong", b"401"), ("", b"403")):
            request = asked(f"{MAPS}?watch=true", origin=elsewhere, token=token)
            head, client = await opened(session, request)
            assert head.startswith(b"HTTP/1.1 " + code), head
            await client.stream.aclose()
    async with served() as session:
        request = asked(f"{MAPS}?watch=true", origin=elsewhere, token="any")
        head, client = await opened(session, request)
        assert head.startswith(b"HTTP/1.1 403")
        await client.stream.aclose()
