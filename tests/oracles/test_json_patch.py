"""JSON patch against the package jsonpatch (RFC 6902).

Where that package applies a patch, ours comes to the same document. Where it refuses one, so does ours, but for what
evanphx/json-patch, the API server's, allows.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.apiserver.requests.patching.json_patch import JsonPatchError, json_patch

jsonpatch = pytest.importorskip("jsonpatch")
jsonpointer = pytest.importorskip("jsonpointer")

KEYS = st.sampled_from(["a", "b", "c/d", "e~f"])
LEAVES = st.integers(2, 5) | st.sampled_from(["x", "y"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
STEPS = st.sampled_from(["a", "b", "c~1d", "e~0f", "0", "1", "-"])
POINTERS = st.lists(STEPS, min_size=1, max_size=3).map(lambda steps: "/" + "/".join(steps))
OPERATIONS = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test"]), "path": POINTERS, "value": VALUES}
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": POINTERS}),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["move", "copy"]), "from": POINTERS, "path": POINTERS}
    ),
)
REFUSED = "refused"


def ours(document: Any, operation: Any) -> Any:
    try:
        return json_patch(copy.deepcopy(document), [operation])
    except JsonPatchError:
        return REFUSED


def theirs(document: Any, operation: Any) -> Any:
    try:
        return jsonpatch.apply_patch(copy.deepcopy(document), [operation])
    except (
        jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, KeyError, TypeError, IndexError,
    ):  # fmt: skip
        return REFUSED


def is_upstreams(document: Any, operation: Any) -> bool:
    """Return whether the API server's library reads the operation otherwise than the RFC.

    A key that a map does not have reads as null: `replace` adds it, and `copy` copies null.
    """
    read = {"replace": "path", "copy": "from"}.get(operation["op"])
    if read is None:
        return False
    *steps, last = operation[read].split("/")[1:]
    for step in steps:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and key.isdecimal() and int(key) < len(document):
            document = document[int(key)]
        elif isinstance(document, dict) and key in document:
            document = document[key]
        else:
            return False
    return isinstance(document, dict) and last.replace("~1", "/").replace("~0", "~") not in document


@pytest.mark.slow
@settings(max_examples=400)
@given(DOCUMENTS, OPERATIONS)
def test_operations_come_to_the_same(document, operation):
    if not is_upstreams(document, operation):
        assert ours(document, operation) == theirs(document, operation)
