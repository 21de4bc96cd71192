"""Lists in YAML: sent item by item, and the same as the whole."""

from __future__ import annotations

import yaml

from controlplane.api.object import Object
from controlplane.apiserver.front.answering import HttpAnswer, Listing
from controlplane.apiserver.http import answer_bodies
from controlplane.apiserver.schema.codec import WrittenFloat
from controlplane.apiserver.schema.raw_extension import RawExtension

HEAD = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}


def answered(items: list[Object]) -> HttpAnswer:
    return HttpAnswer(200, {"Content-Type": "application/yaml"}, listing=Listing(HEAD, items))


def test_a_list_in_yaml_is_the_same_item_by_item() -> None:
    labels = {"app": "x"}
    items = [
        Object(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        )
        for name in "ab"
    ]
    listing = answered(items)
    text = b"".join(answer_bodies.encoded(listing, pretty=False))
    assert yaml.safe_load(text) == listing.tree
    assert text == answer_bodies._yaml(listing.tree)
    assert b"&id" not in text


def test_a_long_list_in_yaml_leaves_in_pieces() -> None:
    items = [
        Object({"metadata": {"name": str(number), "annotations": {"x": "y" * 50_000}}})
        for number in range(8)
    ]
    pieces = list(answer_bodies.encoded(answered(items), pretty=False))
    assert len(pieces) > 1
    assert [item["metadata"]["name"] for item in yaml.safe_load(b"".join(pieces))["items"]] == [
        str(number) for number in range(8)
    ]


def test_an_empty_list_in_yaml() -> None:
    assert (
        yaml.safe_load(b"".join(answer_bodies.encoded(answered([]), pretty=False)))["items"] == []
    )


def test_numbers_and_objects_that_know_their_text_in_yaml() -> None:
    tree = {
        "a": WrittenFloat("1.0"),
        "b": WrittenFloat("1.50"),
        "c": RawExtension({"d": 1}, '{ "d": 1}'),
    }
    found = HttpAnswer(200, {"Content-Type": "application/yaml"}, tree)
    text = b"".join(answer_bodies.encoded(found, pretty=False))
    assert text == b"a: 1\nb: 1.5\nc:\n  d: 1\n"
