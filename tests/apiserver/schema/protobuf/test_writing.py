"""Answers in protobuf: what was written is read back the same, and a few by hand, byte for byte."""

from __future__ import annotations

from struct import unpack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.api.object import Object
from controlplane.api.times import format_micro_time, format_time
from controlplane.apiserver.schema.protobuf.numbers import Unnumbered, fields_of, type_named
from controlplane.apiserver.schema.protobuf.reading import FIRST_SECOND, LAST_SECOND, decoded
from controlplane.apiserver.schema.protobuf.writing import (
    Unwritable,
    encoded,
    event_frame,
    listed,
    writable,
)
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.apiserver.schema.types import Field, Kind
from tests.apiserver.http.session import CONFIGMAPS, config, request, served
from tests.apiserver.schema.protobuf.test_reading import CONFIGMAP

PROTOBUF = "application/vnd.kubernetes.protobuf"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FILLED = TEXT.filter(bool)
JSON: st.SearchStrategy[Any] = st.dictionaries(
    TEXT, st.integers() | st.booleans() | TEXT, max_size=2
)
SECONDS = st.integers(FIRST_SECOND + 1, LAST_SECOND).filter(bool)
SCHEMA: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer"]),
            "default": JSON | st.booleans() | FILLED,
            "maximum": st.integers(-9, 9),
            "minimum": st.floats(-9, 9).map(lambda x: x + 0.5).filter(lambda x: not x.is_integer()),
            "maxLength": st.integers(0, 99),
            "enum": st.lists(JSON, min_size=1, max_size=2),
            "nullable": st.just(True),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "required": st.lists(FILLED, min_size=1, max_size=2),
            "x-kubernetes-validations": st.just([{"rule": "true", "optionalOldSelf": True}]),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(FILLED, inner, min_size=1, max_size=2),
            "items": inner,
            "additionalProperties": inner | st.booleans(),
            "not": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=4,
)

ZEROS = {Kind.QUANTITY: "0", Kind.INT_OR_STRING: 0}


def leaf(mark: str, field: Field) -> st.SearchStrategy[Any]:
    kind = field.kind
    if kind == Kind.STRING:
        return FILLED if mark == "~" else TEXT
    if kind == Kind.INT:
        numbers = st.integers(-(1 << 63), (1 << 63) - 1)
        return numbers.filter(bool) if mark == "~" else numbers
    if kind == Kind.BOOL:
        return st.just(True) if mark == "~" else st.booleans()
    if kind == Kind.BYTES:
        return st.sampled_from(["AP8=", "YQ=="] if field.name else ["", "AP8="])
    if kind == Kind.QUANTITY:
        return st.sampled_from(["0", "100m", "3Gi", "1e9"])
    if kind == Kind.INT_OR_STRING:
        return st.integers(-(1 << 31), (1 << 31) - 1) | TEXT
    if kind == Kind.TIME:
        return SECONDS.map(lambda s: format_time(s * 1_000_000_000))
    if kind == Kind.MICRO_TIME:
        return SECONDS.map(lambda s: format_micro_time(s * 1_000_000_000 + 123_456_000))
    if field.type_name.endswith("CustomResourceSubresourceStatus"):
        return st.just({})
    return JSON


def value(draw: Any, mark: str, field: Field, depth: int) -> Any:
    element = field.element
    if field.kind == Kind.LIST and element is not None:
        return [value(draw, "", element, depth) for _ in range(draw(st.integers(1, 2)))]
    if field.kind == Kind.MAP and element is not None:
        keys = draw(st.lists(FILLED, min_size=1, max_size=2, unique=True))
        return {key: value(draw, "", element, depth) for key in keys}
    if field.kind == Kind.STRUCT:
        if field.type_name.endswith("JSONSchemaProps"):
            return draw(SCHEMA)
        return message(draw, field.type_name, depth - 1)
    return draw(leaf(mark, field))


def message(draw: Any, name: str, depth: int, listing: str = "") -> dict[str, Any]:
    """Some of the fields of a type; fewer the deeper it stands. Plain parts are there, as a reader gives them."""
    tree: dict[str, Any] = {}
    for mark, field in fields_of(name, listing).values():
        if field is None:
            tree |= message(draw, name, depth, mark)
        elif depth > 0 and draw(st.integers(0, 3)) == 0:
            tree[field.name] = value(draw, mark, field, depth)
        elif mark == "~" and field.kind in ZEROS:
            tree[field.name] = ZEROS[field.kind]
        elif mark == "~" and field.kind == Kind.STRUCT:
            tree[field.name] = message(draw, field.type_name, 0)
    return tree


def kinds() -> list[tuple[str, str]]:
    table = builtin_resources()
    return sorted(
        {(info.api_version, info.kind) for info in table if writable(info.api_version, info.kind)}
    )


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_written_is_read_back_the_same(data):
    api_version, kind = data.draw(st.sampled_from(kinds()))
    body = message(data.draw, type_named(api_version, kind), 5)
    tree = {**body, "apiVersion": api_version, "kind": kind}
    raw = encoded(tree)
    assert decoded(raw) == tree
    assert encoded(decoded(raw)) == raw


FIXED = {
    Kind.STRING: "a", Kind.INT: 7, Kind.BOOL: True, Kind.BYTES: "YQ==", Kind.QUANTITY: "3Gi", Kind.INT_OR_STRING: 5,
    Kind.TIME: "2026-01-02T03:04:05Z", Kind.MICRO_TIME: "2026-01-02T03:04:05.000006Z", Kind.NUMBER: 0.5,
}  # fmt: skip


def full(name: str, above: tuple[str, ...] = (), listing: str = "") -> dict[str, Any]:
    """All fields of a type, but those that would hold it again."""
    tree: dict[str, Any] = {}
    for _, field in fields_of(name, listing).values():
        if field is not None and (found := full_value(field, (*above, name))) is not None:
            tree[field.name] = found
    for part, field in fields_of(name, listing).values():
        if field is None:
            tree |= full(name, above, part)
    return tree


def full_value(field: Field, above: tuple[str, ...]) -> Any:
    if field.kind in (Kind.LIST, Kind.MAP) and field.element is not None:
        inner = full_value(field.element, above)
        wrapped = [inner] if field.kind == Kind.LIST else {"k": inner}
        return None if inner is None else wrapped
    if field.kind == Kind.STRUCT:
        given = field.type_name.endswith("JSONSchemaProps") or field.type_name in above
        return None if given else full(field.type_name, above)
    return FIXED.get(field.kind)


@pytest.mark.parametrize(("api_version", "kind"), kinds())
def test_every_field_of_every_kind_is_written_and_read_back(api_version, kind):
    tree = {**full(type_named(api_version, kind)), "apiVersion": api_version, "kind": kind}
    raw = encoded(tree)
    assert encoded(decoded(raw)) == raw
    lost = set(leaves(tree)) - set(leaves(decoded(raw)))
    assert lost == set()


def leaves(tree: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(tree, dict):
        return [found for key, each in tree.items() for found in leaves(each, f"{path}.{key}")]
    if isinstance(tree, list):
        return [found for each in tree for found in leaves(each, f"{path}[]")]
    return [(path, str(tree))]


def test_all_kinds_of_the_default_server_can_be_written():
    for info in builtin_resources():
        assert writable(info.api_version, info.kind), info
        assert writable(info.api_version, f"{info.kind}List") or "list" not in info.verbs, info
    assert writable("autoscaling/v1", "Scale")
    assert writable("v1", "Status")
    assert not writable("g.example/v1", "Foo")


def test_what_kubectl_sends_is_written_byte_for_byte():
    assert encoded(decoded(CONFIGMAP)) == CONFIGMAP


def test_a_status_by_hand():
    tree = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "m",
        "reason": "NotFound",
        "details": {"name": "a", "kind": "pods"},
        "code": 404,
    }
    assert encoded(tree) == (
        b"k8s\0\n\x0c\n\x02v1\x12\x06Status\x122"
        b"\n\x06\n\0\x12\0\x1a\0"
        b"\x12\x07Failure"
        b"\x1a\x01m"
        b'"\x08NotFound'
        b"*\x0f\n\x01a\x12\0\x1a\x04pods(\0"
        b"2\0"
        b"0\x94\x03"
        b'\x1a\0"\0'
    )


def test_an_event_of_a_watch_is_its_length_and_itself():
    tree = decoded(CONFIGMAP)
    frame = event_frame("ADDED", tree)
    (length,) = unpack(">I", frame[:4])
    assert length == len(frame) - 4
    inner = len(CONFIGMAP) + 2
    assert frame[4:] == b"\n\x05ADDED\x12" + bytes([inner]) + b"\n" + bytes([inner - 2]) + CONFIGMAP


def test_a_list_is_the_same_item_by_item_and_whole():
    head = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    items = [{"metadata": {"name": name}, "data": {"a": "b"}} for name in "xy"]
    objects = [Object(item) for item in items]
    assert listed(head, objects) == listed(head, objects) == encoded({**head, "items": items})


@pytest.mark.parametrize(
    "tree",
    [
        {"apiVersion": "g.example/v1", "kind": "Foo"},
        {"apiVersion": "v1", "kind": "ConfigMap", "nope": 1},
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "nope": 1}]}},
    ],
)
def test_what_has_no_number_is_not_written(tree):
    with pytest.raises(Unwritable):
        encoded(tree)


def test_a_kind_without_numbers_is_said():
    with pytest.raises(Unnumbered):
        type_named("v1", "Widget")


# -- over HTTP -----------------------------------------------------------------------------------


async def test_objects_lists_and_errors_leave_in_protobuf():
    async with served() as session:
        made = await session.ask(
            "POST", CONFIGMAPS, config("m", a="b"), Accept=PROTOBUF, User_Agent="t/1"
        )
        assert (made.code, made.headers["content-type"]) == (201, PROTOBUF)
        assert decoded(made.body)["data"] == {"a": "b"}
        found = await session.ask("GET", f"{CONFIGMAPS}/m", Accept=f"{PROTOBUF},application/json")
        assert decoded(found.body) == decoded(made.body)
        plain = await session.ask("GET", f"{CONFIGMAPS}/m")
        assert decoded(found.body) == plain.tree
        names = await session.ask("GET", CONFIGMAPS, Accept=PROTOBUF)
        assert "m" in [item["metadata"]["name"] for item in decoded(names.body)["items"]]
        gone = await session.ask("GET", f"{CONFIGMAPS}/none", Accept=PROTOBUF)
        assert (gone.code, decoded(gone.body)["reason"]) == (404, "NotFound")
        yaml = await session.ask("GET", f"{CONFIGMAPS}/none", Accept="application/yaml")
        assert yaml.headers["content-type"] == "application/yaml"
        assert b"reason: NotFound" in yaml.body


async def test_negotiation_knows_what_protobuf_cannot_carry():
    table = "as=Table;g=meta.k8s.io;v=v1"
    async with served() as session:

        async def ask(accept: str) -> Any:
            return await session.ask("GET", CONFIGMAPS, Accept=accept)

        assert (await ask(f"{PROTOBUF};{table}")).code == 406
        found = await ask(f"{PROTOBUF};{table},application/json;{table}")
        assert found.tree["kind"] == "Table"
        metadata = await ask(f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        assert decoded(metadata.body)["kind"] == "PartialObjectMetadataList"
        second = await ask(f"{PROTOBUF};q=0.5,application/json")
        assert second.headers["content-type"] == "application/json"


@pytest.mark.slow
async def test_a_watch_in_protobuf_is_a_row_of_frames():
    async with served() as session:
        await session.ask("POST", CONFIGMAPS, config("m", a="b"))
        path = f"{CONFIGMAPS}?watch=1&fieldSelector=metadata.name=m&timeoutSeconds=1"
        raw = await session.raw(
            request("GET", path, Connection="close", Accept=f"{PROTOBUF};stream=watch")
        )
        head, _, body = raw.partition(b"\r\n\r\n")
        assert f"{PROTOBUF};stream=watch".encode() in head
        _, _, frame = body.partition(b"\r\n")
        (length,) = unpack(">I", frame[:4])
        event = frame[4 : 4 + length]
        assert event.startswith(b"\n\x05ADDED\x12")
        assert decoded(event[event.index(b"k8s\0") :])["metadata"]["name"] == "m"


def test_a_time_before_1970_is_read():
    """Clients of Go send such times: their zero is in year 1."""
    times = {
        "acquireTime": "0001-01-01T00:00:02.000000Z",
        "renewTime": "1969-12-31T23:59:59.500000Z",
    }
    tree = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
        "spec": times,
    }
    assert decoded(encoded(tree))["spec"] == times


def test_the_verbs_of_a_resource_are_a_message_of_their_own():
    resource = {"name": "pods", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}
    tree = {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [resource],
    }
    raw = encoded(tree)
    assert b'"\x0b\n\x03get\n\x04list' in raw
    assert decoded(raw)["resources"][0]["verbs"] == ["get", "list"]
