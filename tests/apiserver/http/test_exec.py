"""Exec over WebSocket, as a client outside speaks it."""

import pytest
import trio

from tests.apiserver.http.session import more, served

wsproto = pytest.importorskip("wsproto")
from wsproto.connection import Connection, ConnectionType  # noqa: E402
from wsproto.events import BytesMessage, CloseConnection  # noqa: E402

from tests.apiserver.http.exec_client import asked, connected  # noqa: E402

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "b"}]},
}
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.slow
async def test_a_command_is_run_and_what_it_wrote_is_there_for_the_next_one():
    async with served(nodes=1, controllers="*") as session:
        with trio.fail_after(120):
            while (await session.ask("POST", PODS, POD)).code != 201:
                await trio.sleep(0.01)
            early = await session.raw(asked(f"{PODS}/p/exec?command=true"))
            assert early.startswith(
                (b"HTTP/1.1 500", b"HTTP/1.1 400")
            )  # not on a node, or not started
            while (await session.ask("GET", f"{PODS}/p/log")).code != 200:
                await trio.sleep(0.01)

        async def run(query, *said, sub="exec"):
            async def delete():
                await session.ask("DELETE", f"{PODS}/p")

            during = delete if sub == "attach" else None
            return await connected(session, f"{PODS}/p/{sub}?{query}", *said, during=during)

        told = await run("command=cat&stdin=true&stdout=true", b"\x00hello", b"\xff\x00")
        assert told[:2] == [b"\x01", b"\x01hello"]
        await run("command=sh&command=-c&command=echo+kept+>+/tmp/f")
        told = await run("command=cat&command=/tmp/f")
        assert told[1] == b"\x01kept\n"
        told = await run("stdout=true", sub="attach")
        assert b"".join(told[:-1]) == b"\x01container c ended with exit code 0\n"
        assert told[-1].startswith(b"\x03")
        with trio.fail_after(120):
            while (await session.ask("POST", PODS, POD)).code != 201:
                await trio.sleep(0.01)
            while (await session.ask("GET", f"{PODS}/p/log")).code != 200:
                await trio.sleep(0.01)
        refused = await session.raw(asked(f"{PODS}/p/exec?command=true", "other"))
        assert refused.startswith(b"HTTP/1.1 400")
        refused = await session.raw(
            asked(f"{PODS}/p/exec?command=true").replace(b"websocket", b"SPDY/3.1")
        )
        assert refused.startswith(b"HTTP/1.1 403")


def test_a_message_without_an_end_is_not_collected():
    from controlplane.apiserver.http.websocket import MESSAGE_LIMIT, Socket

    client = Connection(ConnectionType.CLIENT)
    server = Socket()
    piece = bytes(1 << 20)
    for _ in range(MESSAGE_LIMIT >> 20):
        found = server.received(client.send(BytesMessage(piece, message_finished=False)))
        assert found == ([], b"", True)
    messages, goodbye, still_open = server.received(
        client.send(BytesMessage(piece, message_finished=False))
    )
    assert (messages, still_open) == ([], False)
    client.receive_data(goodbye)
    (event,) = client.events()
    assert (type(event), event.code) == (CloseConnection, 1009)


def _frame(opcode, data=b"", first=0x80, length=None):
    return (
        bytes([first | opcode, 0x80 | (len(data) if length is None else length), *bytes(4)]) + data
    )


@pytest.mark.parametrize(
    "frame",
    [
        b"\x82\x01a",
        _frame(2, b"a", first=0xC0),
        _frame(3, b"a"),
        _frame(11),
        _frame(0, b"a"),
        _frame(9, b"a", first=0),
        _frame(8, b"\x03"),
        _frame(8, b"\x03\xed"),
        _frame(1, b"a", first=0) + _frame(1, b"b"),
    ],
    ids="unmasked reserved opcode control continuation ping length code message".split(),
)
def test_a_violation_of_the_protocol_closes_with_1002(frame):
    from controlplane.apiserver.http.websocket import Socket

    client = Connection(ConnectionType.CLIENT)
    messages, goodbye, still_open = Socket().received(frame)
    assert (messages, still_open) == ([], False)
    client.receive_data(goodbye)
    (event,) = client.events()
    assert (type(event), event.code) == (CloseConnection, 1002)


async def test_a_violation_right_behind_the_request_is_answered_at_once():
    async with served(nodes=1, controllers="*") as session:
        with trio.fail_after(120):
            while (await session.ask("POST", PODS, POD)).code != 201:
                await trio.sleep(0.01)
            while (await session.ask("GET", f"{PODS}/p/log")).code != 200:
                await trio.sleep(0.01)
            stream = await session.connect()
            async with stream:
                await stream.send_all(asked(f"{PODS}/p/exec?command=cat&stdin=true") + b"\x82\x01a")
                raw = b""
                while b"\x03\xea" not in raw:
                    raw += await more(stream)
        assert raw.startswith(b"HTTP/1.1 101")
