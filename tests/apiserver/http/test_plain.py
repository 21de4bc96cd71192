"""What is read without the parser is what the parser would have read; whatever is odd is left to it."""

from __future__ import annotations

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.apiserver.http.plain import PlainReader

PLAIN = (
    b"POST /api/v1/namespaces/default/pods?dryRun=All HTTP/1.1\r\n"
    b"Host: 127.0.0.1:6443\r\nUser-Agent: kubectl/v1.36 (linux/amd64)\r\nX-Empty:\r\n"
    b"Accept:\t application/json \r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nbody"
)
BITS = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b"\0", b"\x0b", b"\x80", b":", b",", b"0", b"1", b"+1",
     b"Host: b\r\n", b"Content-Length: 4\r\n", b"content-length: 0\r\n", b"Content-Length: 4, 4\r\n",
     b"Content-Length : 4\r\n", b"Transfer-Encoding: chunked\r\n", b"TRANSFER-ENCODING: x\r\n",
     b"Transfer-Encoding\r\n : chunked\r\n", b" folded\r\n", b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\n",
     b"Connection: close\r\n", b"Connection: keep-alive, Upgrade\r\n", b"4\r\nbody\r\n0\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.0", b"/", b"%zz"]
)  # fmt: skip


def parsed(raw):
    """What h11 makes of the bytes: method, target, headers, body, and whether that was all of them."""
    http = h11.Connection(h11.SERVER)
    http.receive_data(raw)
    head = http.next_event()
    body = b""
    while type(event := http.next_event()) is h11.Data:
        body += event.data
    assert type(event) is h11.EndOfMessage
    assert not http.they_are_waiting_for_100_continue
    assert http.trailing_data == (b"", False)
    headers = [(name.decode("ascii"), value.decode("ascii")) for name, value in head.headers]
    assert head.http_version == b"1.1"
    return head.method.decode(), head.target.decode(), headers, body


def kept_alive(raw):
    """Whether h11 would go on with the connection after an answer."""
    http = h11.Connection(h11.SERVER)
    http.receive_data(raw)
    while type(http.next_event()) is not h11.EndOfMessage:
        pass
    http.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
    http.send(h11.EndOfMessage())
    return http.our_state is h11.DONE and http.their_state is h11.DONE


@st.composite
def spoiled(draw):
    """A plain request with something put in, taken out, or written over, here and there."""
    raw = PLAIN
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(raw)))
        bit = draw(BITS | st.binary(max_size=2))
        raw = raw[:at] + bit + raw[at + draw(st.sampled_from([0, 1, 2, len(bit)])) :]
    return raw


@given(raw=spoiled(), first=spoiled())
@example(raw=PLAIN, first=PLAIN)
def test_whatever_is_read_plainly_the_parser_reads_the_same(raw, first):
    reader = PlainReader()
    reader.read(first)  # of which lines are remembered
    found = reader.read(raw)
    if found is not None:
        assert tuple(found) == parsed(raw)
        assert kept_alive(raw)


def test_plain_requests_are_read_plainly():
    reader = PlainReader()
    found = reader.read(PLAIN)
    assert found == reader.read(PLAIN)
    assert found.method == "POST"
    assert found.target == "/api/v1/namespaces/default/pods?dryRun=All"
    assert ("accept", "application/json") in found.headers
    assert ("x-empty", "") in found.headers
    assert found.body == b"body"
    assert reader.read(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").body == b""


@pytest.mark.parametrize(
    "line",
    [b"Transfer-Encoding: chunked", b"transfer-encoding: identity", b"Expect: 100-continue", b"Upgrade: spdy",
     b"Connection: close", b"Connection: Upgrade", b"TE: trailers", b"Host: second", b"Content-Length: 5",
     b"Content-Length: 4,4", b"Content-Length: +4", b"Content-Length: 0x4", b"Content-Length:", b" folded: x",
     b"Space : x", b"NoColon", b"Nul: \0", b"Odd: \xff", b"Bare: a\rb", b"Bare: a\nb"],
)  # fmt: skip
def test_odd_lines_are_left_to_the_parser(line):
    raw = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n" + line + b"\r\n\r\nbody"
    reader = PlainReader()
    assert reader.read(raw) is None
    assert reader.read(raw) is None  # nothing of it was remembered


@pytest.mark.parametrize(
    "raw",
    [b"", PLAIN[:-1], PLAIN + b"G", PLAIN * 2, PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"), b"\r\n" + PLAIN,
     PLAIN.replace(b"POST", b"HEAD"), PLAIN.replace(b"POST", b"post"), PLAIN.replace(b" /api", b" http://x/api"),
     PLAIN.replace(b"Host", b"Ghost"), PLAIN.replace(b"X-Empty:", b"X-Long:" + b"x" * 9000),
     b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /"],
)  # fmt: skip
def test_odd_requests_are_left_to_the_parser(raw):
    assert PlainReader().read(raw) is None


def test_of_a_client_that_never_repeats_itself_little_is_remembered():
    reader = PlainReader()
    for number in range(1000):
        assert reader.read(b"GET / HTTP/1.1\r\nHost: a\r\nX-Number: %d\r\n\r\n" % number)
    assert len(reader._known) <= 64
