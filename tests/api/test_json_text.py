"""Objects as JSON: the fast encoder gives the bytes of the plain one, or is not asked."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api import json_text
from controlplane.apiserver.schema.codec import WrittenFloat

TEXTS = st.text(st.characters(), max_size=8)  # halves of surrogate pairs too
PLAIN = st.none() | st.booleans() | st.integers() | TEXTS
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


def plainly(tree):
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


@pytest.mark.slow
@given(
    rest=st.dictionaries(TEXTS, VALUES, max_size=5),
    version=st.sampled_from(["v1", "apps/v1", "batch/v1"]),
)
def test_objects_have_the_bytes_of_the_plain_encoder(rest, version):
    tree = {"apiVersion": version, "kind": "Pod", **rest}
    assert json_text.stored(tree) == json_text.compact(tree) == plainly(tree)


@pytest.mark.parametrize("number", [1e16, 1e-5, 1.5e300, 0.5, 3.0])
def test_fractions_are_written_as_before_wherever_a_type_can_have_them(number):
    for version in ("example.com/v1", "apiextensions.k8s.io/v1", "snapshot.storage.k8s.io/v1"):
        tree = {"apiVersion": version, "kind": "Thing", "spec": {"number": number}}
        assert json_text.stored(tree) == plainly(tree)


def test_what_the_fast_encoder_refuses_is_written_plainly():
    for odd in (WrittenFloat("1e5"), "\ud800", 1 << 80):
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"odd": odd}}
        assert json_text.stored(tree) == plainly(tree)


def test_an_object_without_a_version_is_written_too():
    assert json_text.stored({"kind": "x"}) == b'{"kind":"x"}'
    assert json_text.stored({"apiVersion": 1}) == b'{"apiVersion":1}'


@pytest.mark.slow
@given(st.lists(VALUES, max_size=4))
def test_trees_are_joined_as_they_are_written_one_by_one(trees):
    assert json_text.joined(trees) == b",".join(map(plainly, trees))
