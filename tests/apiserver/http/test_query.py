"""Parameters are read as Go reads them: what is malformed is left out."""

from __future__ import annotations

import pytest

from controlplane.apiserver.http.query import parse_query


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("limit", {"limit": [""]}),
        ("limit=&limit=2", {"limit": ["", "2"]}),
        ("limit=%zz&watch=1", {"watch": ["1"]}),
        ("a=1;b=2&c=3", {"c": ["3"]}),
        ("a+b=c+d%2B", {"a b": ["c d+"]}),
        ("=x&&y==", {"": ["x"], "y": ["="]}),
        ("a=%C3%A9", {"a": ["\u00e9"]}),
    ],
)
def test_a_query_is_read_as_go_reads_it(raw: str, expected: dict[str, list[str]]) -> None:
    assert parse_query(raw) == expected
