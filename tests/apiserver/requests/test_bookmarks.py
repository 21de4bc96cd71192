"""Bookmarks are what a plain object with a version and nothing else is read as."""

from __future__ import annotations

import json

import pytest

from controlplane.apiserver.requests.watching import _empty
from controlplane.apiserver.schema.codec import decode
from controlplane.apiserver.schema.resources import builtin_resources


@pytest.mark.parametrize("annotations", [{}, {"k8s.io/initial-events-end": "true"}])
def test_the_one_empty_object_with_a_version_is_the_object_read_each_time(annotations) -> None:
    meta = {"resourceVersion": "17", **({"annotations": annotations} if annotations else {})}
    for info in builtin_resources():
        named = {"apiVersion": info.api_version, "kind": info.kind}
        empty = _empty(info.type_name, info.api_version, info.kind)
        marked = {**empty, "metadata": {**empty["metadata"], **meta}}
        assert json.dumps(marked) == json.dumps(
            decode(info.type_name, {**named, "metadata": meta})
        ), info.type_name
