"""Bytes of a client that forwards ports become events of numbered connections, on each of three wires."""

from __future__ import annotations

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from controlplane.apiserver.http.forwarding import CONNECTIONS
from controlplane.apiserver.http.tunnels import Begun, Channels, Data, Dropped, Streams, Tunnelled
from tests.apiserver.http.test_port_forward import Client


def opened(client, number, port="80"):
    error, data = 4 * number + 1, 4 * number + 3
    return client.opened(error, streamtype="error", port=port, requestid=str(number)) + (
        client.opened(data, streamtype="data", port=port, requestid=str(number))
    )


def reset(stream):
    return b"\x80\x03\0\3\0\0\0\x08" + stream.to_bytes(4, "big") + b"\0\0\0\5"


def test_a_stream_is_a_connection_with_data_and_one_end():
    client, wire = Client(), Streams()
    events, reply, open_still = wire.receive(opened(client, 0) + client.sent(3, b"a", ended=True))
    assert (events, open_still) == ([Begun(3, 80), Data(3, b"a", True)], True)
    client.take(reply + wire.sent(3, b"answer") + wire.finished(3, "wrong"))
    assert client.data == {3: b"answer", 1: b"wrong"}
    assert client.ended == {1, 3}
    assert wire.sent(3, b"late") == wire.finished(3, "late") == b""


def test_a_stream_that_is_given_up_drops_its_connection():
    client, wire = Client(), Streams()
    wire.receive(opened(client, 0))
    assert wire.receive(reset(3))[0] == [Dropped(3)]
    assert wire.receive(reset(3) + client.sent(3, b"late"))[0] == []


def test_more_connections_than_the_limit_end_the_session():
    client, wire = Client(), Streams()
    said = b"".join(opened(client, number) for number in range(CONNECTIONS))
    assert wire.receive(said)[2]
    assert not wire.receive(opened(client, CONNECTIONS))[2]


def test_no_bytes_are_the_end_of_a_client():
    for wire in (Streams(), Tunnelled(), Channels([80])):
        assert not wire.receive(b"")[2]


def test_a_websocket_carries_the_same_streams():
    client, wire = Client(), Tunnelled()
    socket = Connection(ConnectionType.CLIENT)
    sent = opened(client, 0)
    events, reply, _ = wire.receive(socket.send(BytesMessage(sent)))
    assert events == [Begun(3, 80)]
    socket.receive_data(reply + wire.sent(3, b"x") + wire.finished(3, ""))
    for event in socket.events():
        client.take(bytes(event.data))
    assert client.data[3] == b"x"
    assert client.ended == {1, 3}
    _, reply, open_still = wire.receive(socket.send(BytesMessage(b"\x80\x02\0\1\0\0\0\0")))
    assert not open_still
    socket.receive_data(reply)
    assert [type(event) for event in socket.events()] == [CloseConnection]


def test_channels_are_pairs_that_begin_with_their_port():
    wire = Channels([80, 443])
    socket = Connection(ConnectionType.CLIENT)
    events, first = wire.begin()
    assert events == [Begun(0, 80), Begun(1, 443)]
    socket.receive_data(first + wire.sent(1, b"x") + wire.finished(0, "no") + wire.finished(1, ""))
    assert [bytes(event.data) for event in socket.events()] == [
        b"\0\x50\0",
        b"\1\x50\0",
        b"\2\xbb\1",
        b"\3\xbb\1",
        b"\2x",
        b"\1no",
    ]
    said = b"".join(socket.send(BytesMessage(each)) for each in (b"\2in", b"\3err", b"\x08far"))
    assert wire.receive(said)[0] == [Data(1, b"in", False)]
