"""Objects of anybody's are equal when their texts are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.schema.raw_extension import RawExtension, compact, keep_texts

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def body(data: Any, **style: Any) -> tuple[dict[str, Any], bytes]:
    text = json.dumps({"kind": "ControllerRevision", "data": data}, **style).encode()
    return json.loads(text), text


def test_the_same_content_with_other_spaces_is_another_object() -> None:
    spaced, text = body({"a": 1})
    keep_texts("ControllerRevision", spaced, text)
    assert spaced["data"].text == '{"a": 1}'
    assert spaced["data"] != {"a": 1}
    assert {"data": spaced["data"]} != {"data": {"a": 1}}
    again, text = body({"a": 1})
    keep_texts("ControllerRevision", again, text)
    assert again["data"] == spaced["data"]


def test_what_is_patched_is_compact() -> None:
    spaced, text = body({"a": 1})
    keep_texts("ControllerRevision", spaced, text)
    patched = compact("ControllerRevision", spaced)
    assert patched["data"] == {"a": 1}
    assert not isinstance(patched["data"], RawExtension)
    assert isinstance(spaced["data"], RawExtension), "the object itself stays"


def test_other_kinds_keep_no_texts() -> None:
    spaced, text = body({"a": 1})
    keep_texts("ConfigMap", spaced, text)
    assert not isinstance(spaced["data"], RawExtension)


def test_parameters_are_found_wherever_a_claim_has_them() -> None:
    config = [{"opaque": {"driver": "d.io", "parameters": {"a": 1}}}, {"requests": ["r"]}]
    claim = {"spec": {"devices": {"config": config}}, "status": {"devices": [{"data": {"b": 2}}]}}
    text = json.dumps(claim).encode()
    read = json.loads(text)
    keep_texts("ResourceClaim", read, text)
    assert read["spec"]["devices"]["config"][0]["opaque"]["parameters"].text == '{"a": 1}'
    assert read["status"]["devices"][0]["data"].text == '{"b": 2}'
    assert compact("ResourceClaim", read) == claim


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
def test_compact_texts_leave_plain_objects(data: dict[str, Any]) -> None:
    read, text = body(data, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    keep_texts("ControllerRevision", read, text)
    assert type(read["data"]) is dict
    read, text = body(data, indent=1)
    keep_texts("ControllerRevision", read, text)
    assert dict(read["data"]) == data
