"""Port forwarding, and exec over SPDY: frames, streams and the server in the pod."""

import struct
import zlib

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.container_inside import ANSWER, front_of
from controlplane.apiserver.http.forwarding import ChannelForwarding, StreamForwarding
from controlplane.apiserver.http.spdy import _DICTIONARY, Frames, SpdyError
from tests.apiserver.http.session import more, served

PODS = "/api/v1/namespaces/default/pods"
GET = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n"


def pod(annotations=None, ports=(8080,)):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations or {}},
        "spec": {
            "containers": [
                {"name": "c", "image": "b", "ports": [{"containerPort": port} for port in ports]}
            ]
        },
    }


class Client:
    """The other side: opens streams, and reads what comes on them."""

    def __init__(self):
        self.pack = zlib.compressobj(zdict=_DICTIONARY)
        self.rest = b""
        self.data = {}
        self.ended = set()
        self.replied = set()

    def opened(self, stream, **headers):
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name, value):
                block += struct.pack(">I", len(text)) + text.encode()
        packed = self.pack.compress(block) + self.pack.flush(zlib.Z_SYNC_FLUSH)
        content = struct.pack(">IIH", stream, 0, 0) + packed
        return struct.pack(">HHI", 0x8003, 1, len(content)) + content

    def sent(self, stream, data, *, ended=False):
        return struct.pack(">II", stream, ended << 24 | len(data)) + data

    def take(self, data):
        self.rest += data
        while len(self.rest) >= 8:
            first, second = struct.unpack_from(">II", self.rest)
            length = second & 0xFFFFFF
            if len(self.rest) < 8 + length:
                return
            content, self.rest = self.rest[8 : 8 + length], self.rest[8 + length :]
            if first >> 31:
                assert first & 0xFFFF == 2
                self.replied.add(struct.unpack_from(">I", content)[0])
            else:
                self.data[first] = self.data.get(first, b"") + content
                if second >> 24 & 1:
                    self.ended.add(first)


def connected(client, session, number, port="8080"):
    """A connection: its stream for errors, and its stream for data."""
    error, data = 4 * number + 1, 4 * number + 3
    client.take(
        session.receive(
            client.opened(error, streamtype="error", port=port, requestid=str(number))
            + client.sent(error, b"", ended=True)
            + client.opened(data, streamtype="data", port=port, requestid=str(number))
        )
    )
    return error, data


def test_the_dictionary_is_the_protocols():
    assert zlib.adler32(_DICTIONARY) == 0xE3C6A7C2


@given(cuts=st.lists(st.integers(1, 40), max_size=12))
def test_connections_are_answered_however_the_bytes_are_cut(cuts):
    client, session = Client(), StreamForwarding(front_of(pod()))
    first, second = connected(client, session, 0), connected(client, session, 1)
    assert client.replied == {*first, *second}
    raw = client.sent(second[1], GET) + client.sent(first[1], GET, ended=True)
    for cut in cuts:
        client.take(session.receive(raw[:cut]))
        raw = raw[cut:]
    client.take(session.receive(raw))
    for _, data in (first, second):
        assert client.data[data].startswith(b"HTTP/1.1 200 OK\r\n")
        assert client.data[data].endswith(b"pod: p\nport: 8080\nGET /a?b\nhost: x\n")
    assert client.ended == set(first)


def test_a_port_without_a_listener_is_refused_on_the_stream_for_errors():
    client, session = Client(), StreamForwarding(front_of(pod()))
    error, data = connected(client, session, 0, "81")
    assert b"dial tcp4 127.0.0.1:81: connect: connection refused" in client.data[error]
    assert client.ended == {error, data}
    assert StreamForwarding(front_of(pod(ports=()))) is not None
    client, session = Client(), StreamForwarding(front_of(pod(ports=())))
    error, data = connected(client, session, 0, "81")
    assert not client.data


def test_annotations_say_what_is_answered():
    said = {ANSWER: "I am {pod}", f"{ANSWER}.9000": "metrics 1\n"}
    inside = front_of(pod(said, ports=(8080, 9000)))
    for port, text in (("8080", b"I am p"), ("9000", b"metrics 1\n")):
        client, session = Client(), StreamForwarding(inside)
        _, data = connected(client, session, 0, port)
        client.take(session.receive(client.sent(data, GET + GET)))
        assert client.data[data].count(b"200 OK") == 2
        assert client.data[data].endswith(text)


def test_what_is_no_http_ends_its_connection_only():
    client, session = Client(), StreamForwarding(front_of(pod()))
    first, second = connected(client, session, 0), connected(client, session, 1)
    client.take(session.receive(client.sent(first[1], b"\x00\x01 what\r\n\r\n")))
    assert b"400 Bad Request" in client.data[first[1]] and client.ended == set(first)
    client.take(session.receive(client.sent(second[1], GET)))
    assert b"200 OK" in client.data[second[1]]


def test_numbered_channels_are_answered_too():
    session = ChannelForwarding(front_of(pod()), [8080, 81])
    begun = session.begin()
    assert begun[:2] == [b"\x00\x90\x1f", b"\x01\x90\x1f"]
    assert begun[4][:1] == b"\x03" and b"refused" in begun[4]
    (answer,) = session.receive(b"\x00" + GET)
    assert answer.startswith(b"\x00HTTP/1.1 200") and not session.receive(b"\x02" + GET)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_end_a_connection(data):
    frames = Frames()
    try:
        frames.receive(data)
        frames.receive(b"\x80\x03\x00\x01\x00\x00\x00\x0c" + data)
    except SpdyError:
        pass


def test_a_bomb_of_headers_is_refused():
    packer = zlib.compressobj(zdict=_DICTIONARY)
    bomb = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    content = struct.pack(">IIH", 1, 0, 0) + bomb
    with pytest.raises(SpdyError):
        Frames().receive(struct.pack(">HHI", 0x8003, 1, len(content)) + content)


def upgrade(path, version):
    return (
        f"POST {path} HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        f"X-Stream-Protocol-Version: {version}\r\nContent-Length: 0\r\n\r\n"
    ).encode()


@pytest.mark.slow
async def test_clients_reach_a_pod_and_its_shell_by_spdy():
    async with served(nodes=1, controllers="*") as session:
        with trio.fail_after(120):
            while (await session.ask("POST", PODS, pod())).code != 201:
                await trio.sleep(0.01)
            phase = ""
            while phase != "Running":
                await trio.sleep(0.01)
                phase = (await session.ask("GET", f"{PODS}/p")).tree["status"]["phase"]

            async def switched(path, version):
                stream = await session.connect()
                await stream.send_all(upgrade(path, version))
                raw = b""
                while b"\r\n\r\n" not in raw:
                    raw += await more(stream)
                head, _, rest = raw.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 101"), head
                client = Client()
                client.take(rest)
                return stream, client

            stream, client = await switched(f"{PODS}/p/portforward", "portforward.k8s.io")
            async with stream:
                await stream.send_all(
                    client.opened(1, streamtype="error", port="8080", requestid="0")
                    + client.opened(3, streamtype="data", port="8080", requestid="0")
                    + client.sent(3, GET)
                )
                while not client.data.get(3, b"").endswith(b"host: x\n"):
                    client.take(await more(stream))
            path = f"{PODS}/p/exec?command=cat&stdin=true&stdout=true&stderr=true"
            stream, client = await switched(path, "v4.channel.k8s.io")
            async with stream:
                names = ("error", "stdin", "stdout", "stderr")
                opened = [client.opened(2 * n + 1, streamtype=name) for n, name in enumerate(names)]
                said = client.sent(3, b"hello\n") + client.sent(3, b"", ended=True)
                await stream.send_all(b"".join(opened) + said)
                while not {1, 5, 7} <= client.ended:
                    client.take(await more(stream))
            assert client.data[5] == b"hello\n"
            assert b'"status": "Success"' in client.data[1]
            refused = await session.raw(upgrade(f"{PODS}/p/exec?command=true", "v1"))
            assert refused.startswith(b"HTTP/1.1 403")
