"""Queries of jq, as gojq answers them."""

from __future__ import annotations

import pytest

from controlplane.kwok.jq import JqError, JqSyntaxError, query

POD = {
    "metadata": {"name": "web-1", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]},
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".spec.containers.[].name", ["a", "b"]),
        ('.spec.containers[] | select(.name == "b") | .image', ["y:2"]),
        (".spec.containers | length", [2]),
        ("[.spec.containers[].image | split(\":\")[0]]", [["x", "y"]]),
        ("reduce .spec.containers[] as $c (0; . + 1)", [2]),
        ("[limit(2; repeat(1))]", [[POD, 1]]),
        ("label $out | foreach (1, 2, 3) as $n (0; . + $n; ., break $out)", [1]),
        ("def twice(f): f, f; [twice(.metadata.name)]", [["web-1", "web-1"]]),
        (". as {metadata: {$name}} | $name", ["web-1"]),
        ('try error("x") catch .', ["x"]),
        ('.metadata.labels.app |= ascii_upcase | .metadata.labels', [{"app": "WEB"}]),
        ("del(.spec, .metadata.labels)", [{"metadata": {"name": "web-1"}}]),
        ('.metadata.name | capture("(?<base>[a-z]+)-(?<number>[0-9]+)")', [{"base": "web", "number": "1"}]),
        ('.metadata.name | gsub("[0-9]"; "N")', ["web-N"]),
        ('"\\(.metadata.name)!"', ["web-1!"]),
        ("env.HOME, $ENV.HOME", [None, None]),
        ("now", [5.0]),
        ("[paths(type == \"string\")] | length", [6]),
    ],
)  # fmt: skip
def test_a_query_gives_what_gojq_gives(source, expected):
    assert query(source).values(POD, now=5 * 10**9) == expected


@pytest.mark.parametrize("source", ["repeat(.)", "[range(1e9)]", "def f: f; f", "[recurse(.)]"])
def test_a_query_that_does_not_end_fails(source):
    with pytest.raises(JqError):
        query(source).values(1)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (".a | nope", "function not defined: nope/0"),
        ("$x", "variable not defined: $x"),
        (".a |", "unexpected EOF"),
        ('include "m"; .', "modules are not read"),
        ("(" * 1000, "more than 200 levels"),
    ],
)
def test_what_cannot_be_read_is_refused(source, told):
    with pytest.raises(JqSyntaxError, match=f"^{told.replace('$', '.')}$"):
        query(source)
