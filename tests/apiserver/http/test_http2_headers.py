"""Headers of HTTP/2: what is a request, and what an answer's block decodes to."""

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.http.http2_headers import (
    LengthHidingDecoder,
    LiteralEncoder,
    Malformed,
    declared_length,
    head_of,
)

PSEUDO = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a:1"), (b":path", b"/b")]


def test_the_authority_is_the_host_of_a_request():
    head = head_of([*PSEUDO, (b"accept", b"*/*"), (b"host", b"other")])
    assert (head.method, head.target, head.refusal) == ("GET", "/b", "")
    assert head.headers == [("host", "a:1"), ("accept", "*/*")]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        PSEUDO[:3],
        PSEUDO[1:],
        [*PSEUDO, PSEUDO[0]],
        [*PSEUDO, (b"accept", b"x"), (b":path", b"/")],
        [*PSEUDO, (b":status", b"200")],
        [*PSEUDO, (b"Accept", b"x")],
        [*PSEUDO, (b"", b"x")],
        [*PSEUDO, (b"a b", b"x")],
        [*PSEUDO, (b"a", b"x\r\ny")],
        [*PSEUDO, (b"a", b"\0")],
        [(b":method", b"CONNECT"), (b":authority", b"a:1")],
    ],
)
def test_what_is_no_request_is_malformed(fields):
    with pytest.raises(Malformed):
        head_of(fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"connection", b"close"),
        (b"upgrade", b"websocket"),
        (b"transfer-encoding", b"chunked"),
        (b"te", b"gzip"),
    ],
)
def test_headers_of_a_connection_are_refused(name, value):
    assert head_of([*PSEUDO, (name, value)]).refusal.startswith("request header")
    assert head_of([*PSEUDO, (b"te", b"trailers")]).refusal == ""


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("7", 7),
        ("0", 0),
        ("x", 0),
        ("-1", 0),
        ("", 0),
        ("\u0667", 0),
        (str(1 << 63), 0),
        ("9" * 4000, 0),
    ],
)
def test_a_length_that_is_no_number_announces_nothing(text, length):
    assert declared_length(text) == length


def test_a_length_is_hidden_from_the_library_and_no_client_may_send_its_other_name():
    fields = [*PSEUDO, (b"content-length", b"7")]
    decoded = LengthHidingDecoder().decode(Encoder().encode(fields), raw=True)
    assert b"content-length" not in [name for name, _ in decoded]
    assert head_of(decoded).headers[-1] == ("content-length", "7")
    forged = LengthHidingDecoder().decode(
        Encoder().encode([*PSEUDO, (b"Content-Length", b"7")]), raw=True
    )
    with pytest.raises(Malformed):
        head_of(forged)


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=40_000)), max_size=4)
)
def test_a_block_of_literals_decodes_to_what_went_in(headers):
    decoder = Decoder()
    decoder.max_header_list_size = 1 << 20
    found = decoder.decode(LiteralEncoder().encode(headers), raw=True)
    assert [tuple(each) for each in found] == [(name.lower(), value) for name, value in headers]
