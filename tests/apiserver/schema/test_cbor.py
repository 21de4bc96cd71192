"""Documents in CBOR: bytes as RFC 8949 and upstream's serializer have them, and what is refused."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.schema.cbor.reading import Unreadable, decoded
from controlplane.apiserver.schema.cbor.writing import PREFIX, encoded, event_item, listing

SECRET = {"apiVersion": "v1", "kind": "Secret", "data": {"k": base64.b64encode(b"\0\xff").decode()}}


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (1000, "1903e8"),
        (1000000, "1a000f4240"),
        (1000000000000, "1b000000e8d4a51000"),
        (-1, "20"),
        (-1000, "3903e7"),
        (0.0, "f90000"),
        (1.5, "f93e00"),
        (100000.0, "fa47c35000"),
        (1.1, "fb3ff199999999999a"),
        (1.0e300, "fb7e37e43c8800759c"),
        (False, "f4"),
        (True, "f5"),
        (None, "f6"),
        ("", "40"),
        ("IETF", "4449455446"),
        ("ü", "42c3bc"),
        ([1, [2, 3]], "8201820203"),
        ({}, "a0"),
        ({"bb": 1, "a": [], "c": 2}, "a341618041630242626201"),
        ([0] * 25, "9819" + "00" * 25),
    ],
)
def test_values_have_the_bytes_of_the_standard(value, raw):
    assert encoded(value) == PREFIX + bytes.fromhex(raw)


def test_content_of_byte_fields_is_bytes_for_base64():
    raw = encoded(SECRET)
    assert b"\xd6\x42\x00\xff" in raw
    assert decoded(raw) == SECRET
    untagged = raw.replace(b"\xd6\x42\x00\xff", b"\x42\x00\xff")
    assert decoded(untagged) == SECRET
    elsewhere = {"apiVersion": "example.com/v1", "kind": "Thing", "data": SECRET["data"]}
    assert b"\xd6" not in encoded(elsewhere)[3:]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("d9d9f7a0", {}),
        ("6161", "a"),
        ("4161", "a"),
        ("5f4261624163ff", "abc"),
        ("7f61616162ff", "ab"),
        ("9f0102ff", [1, 2]),
        ("bf616101ff", {"a": 1}),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
        ("d64161", "YQ=="),
        ("d541ff", "_w"),
        ("d741ff", "ff"),
        ("f7", None),
        ("f93c00", 1.0),
        ("3b7fffffffffffffff", -(1 << 63)),
    ],
)
def test_other_forms_are_read_too(raw, value):
    assert decoded(bytes.fromhex(raw)) == value


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("", "EOF"),
        ("19", "unexpected EOF"),
        ("a161", "unexpected EOF"),
        ("5affffffff00", "unexpected EOF"),
        ("9affffffff", "unexpected EOF"),
        ("0000", "1 bytes of extraneous data starting at index 1"),
        ("a2616101616102", 'duplicate map key "a" at map element index 1'),
        ("a10102", "map key"),
        ("61ff", "invalid UTF-8"),
        ("f97e00", "NaN is not allowed"),
        ("f97c00", "infinity is not allowed"),
        ("1bffffffffffffffff", "cannot unmarshal 18446744073709551615"),
        ("1c", "invalid additional information 28"),
        ("ff", 'unexpected "break"'),
        ("81ff", 'unexpected "break"'),
        ("bf6161ff", 'unexpected "break"'),
        ("c1ff", 'unexpected "break"'),
        ("5f6161ff", "indefinite-length string"),
        ("f0", "simple value 16"),
        ("81" * 70 + "00", "exceeded max nested level 64"),
        ("c6" * 5000 + "00", "exceeded max nested level 64"),
    ],
)
def test_what_upstream_refuses_is_refused(raw, said):
    with pytest.raises(Unreadable, match=said):
        decoded(bytes.fromhex(raw))


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=30)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(TREES)
def test_a_tree_that_is_written_is_read_again(tree):
    assert decoded(encoded(tree)) == tree


@given(st.binary(max_size=60))
def test_any_bytes_are_a_document_or_refused(raw):
    try:
        found = decoded(raw)
    except Unreadable:
        return
    assert decoded(encoded(found)) == found


class Item:
    def __init__(self, tree):
        self.tree = tree


def test_a_list_is_the_document_of_its_tree_and_pauses_between_many_items():
    head = {"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "7"}}
    steps = listing(head, [Item(SECRET)] * 250, typed=False)
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            raw = end.value
            break
        pauses += 1
    assert pauses == 2
    bare = {"data": SECRET["data"]}
    assert raw == encoded({**head, "items": [bare] * 250})
    assert decoded(raw)["items"][0] == bare


def test_an_event_is_an_item_of_its_own():
    raw = event_item("ADDED", SECRET)
    assert decoded(raw) == {"type": "ADDED", "object": SECRET}
