from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.fnv import fnv1a_32


@given(st.binary(max_size=64))
def test_bytes_are_taken_one_after_the_other(data: bytes) -> None:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 % 2**32
    assert fnv1a_32(data) == value
