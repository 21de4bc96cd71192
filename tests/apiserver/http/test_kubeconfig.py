"""What clients are handed, and TLS with it."""

from __future__ import annotations

import ssl

import pytest
import trio

from actors.pace import Pacer
from controlplane.apiserver.http.kubeconfig import Address, read, remove, write
from controlplane.errors import UsageError
from controlplane.serving.neighbours import alone, is_live
from controlplane.serving.session import Rim, serve_async
from tests.apiserver.http.session import Answer, prepared, request


def test_what_is_written_is_read_back_and_private(tmp_path):
    path = tmp_path / "deep" / "kubeconfig"
    address = Address("https://127.0.0.1:6443", "token", b"-----BEGIN CERTIFICATE-----\n")
    write(path, address)
    assert read(path) == address
    assert path.stat().st_mode & 0o077 == 0
    write(path, Address("http://127.0.0.1:1", "", b""))
    assert read(path).url == "http://127.0.0.1:1"


def test_a_file_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(UsageError, match="left alone"):
        write(path, Address("http://127.0.0.1:1", "", b""))
    assert path.read_text().startswith("apiVersion")


def test_several_servers_share_a_file(tmp_path):
    path = tmp_path / "config"
    alive = {"http://a:1", "http://b:1"}
    one, two, gone = (Address(f"http://{name}:1", "t", b"") for name in "abc")
    write(path, one, "one", live=alive.__contains__)
    write(path, gone, "gone", live=alive.__contains__)
    write(path, two, "two", live=alive.__contains__)
    assert read(path) == read(path, "two") == two  # the newest is current
    assert read(path, "one") == one
    with pytest.raises(UsageError, match="no server named 'gone'"):
        read(path, "gone")
    with pytest.raises(UsageError, match="one is the server at http://a:1, which runs: choose"):
        write(path, two, "one", live=alive.__contains__)
    assert read(path, "one") == one


def test_a_server_takes_out_its_own_entry_only(tmp_path):
    path = tmp_path / "config"
    one, two = (Address(f"http://{name}:1", "t", b"") for name in "ab")
    write(path, one, "one", live=lambda url: True)
    write(path, two, "two", live=lambda url: True, alone=alone)
    remove(path, Address("http://other:1", "t", b""), "one")
    assert read(path, "one") == one
    remove(path, two, "two")
    assert read(path) == one
    remove(path, one, "one")
    assert not path.exists()
    remove(path, one, "one")


async def test_who_listens_is_live():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    assert is_live(url)
    await listener.aclose()
    assert not is_live(url)


@pytest.mark.parametrize("content", ["", "[]", "clusters: []", "clusters: [{}]", "{", "a: \x00"])
def test_a_file_that_is_none_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(UsageError, match="config: not a kubeconfig"):
        read(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "missing")


async def test_tls_with_the_authority_from_the_kubeconfig():
    serving = prepared(nodes=0)
    stop, ready, told = trio.Event(), trio.Event(), []

    def tell(address: Address) -> None:
        told.append(address)
        ready.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_async, serving, Rim(token="t"), Pacer(), tell, stop)
        await ready.wait()
        address = told[0]
        port = int(address.url.rpartition(":")[2])
        context = ssl.create_default_context(cadata=address.authority.decode())
        for name in ("localhost", "127.0.0.1", "kubernetes.default.svc"):
            socket = await trio.open_tcp_stream("127.0.0.1", port)
            stream = trio.SSLStream(socket, context, server_hostname=name, https_compatible=True)
            async with stream:
                close = {"Connection": "close", "Authorization": "Bearer t"}
                await stream.send_all(request("GET", "/healthz", **close))
                found = b""
                while piece := await stream.receive_some(1000):
                    found += piece
            assert Answer(found).body == b"ok"
        stranger = await trio.open_tcp_stream("127.0.0.1", port)
        async with stranger:
            stream = trio.SSLStream(
                stranger, ssl.create_default_context(), server_hostname="localhost"
            )
            with pytest.raises(trio.BrokenResourceError):
                await stream.do_handshake()
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        async with plain:
            await plain.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not (await plain.receive_some(1000)).startswith(b"HTTP/1.1 200")
        stop.set()


async def test_a_taken_port_is_told_in_one_line():
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        serving = prepared(nodes=0)
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}: cannot listen"):
            await serve_async(serving, Rim(port=port, tls=False), Pacer(), lambda _at: None)
