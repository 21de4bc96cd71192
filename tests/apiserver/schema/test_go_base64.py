"""Base64 as Go decodes it."""

from __future__ import annotations

import pytest

from controlplane.apiserver.schema.go_base64 import canonical


@pytest.mark.parametrize(("text", "read"), [("YQ==", "YQ=="), ("Y\nQ=\r=\n", "YQ=="), ("\n", "")])
def test_line_ends_are_passed_over(text: str, read: str) -> None:
    assert canonical(text) == read


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        ("a\nb", 1),
        ("abcde", 4),
        ("ab!d", 2),
        ("a=", 1),
        ("ab=", 3),
        ("ab=c", 2),
        ("YQ==x", 4),
        ("é", 0),
    ],
)
def test_errors_name_the_byte_where_the_decoder_stops(text: str, byte: int) -> None:
    with pytest.raises(ValueError, match=f"^illegal base64 data at input byte {byte}$"):
        canonical(text)
