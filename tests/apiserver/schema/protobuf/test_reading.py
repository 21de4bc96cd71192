"""Bodies in protobuf, as kubectl's generators send them."""

from __future__ import annotations

from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.schema.protobuf.definitions import SCHEMA
from controlplane.apiserver.schema.protobuf.numbers import fields_of, numbers
from controlplane.apiserver.schema.protobuf.reading import Unreadable, decoded
from controlplane.apiserver.schema.protobuf.writing import encoded
from controlplane.apiserver.schema.types import struct_type
from tests.apiserver.http.session import CONFIGMAPS, served

# What `kubectl create configmap m --from-literal=a=b` sends.
CONFIGMAP = (
    b'k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x1b\n\x11\n\x01m\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00'
    b'\x12\x06\n\x01a\x12\x01b\x1a\x00"\x00'
)
PROTOBUF = "application/vnd.kubernetes.protobuf"


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        value &= (1 << 64) - 1
        out = bytearray([number << 3])
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])
    tag = number << 3 | 2
    head = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    return head + bytes([len(value)]) + value


def body(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_what_kubectl_sends_for_a_config_map():
    assert decoded(CONFIGMAP) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {"a": "b"},
    }


def test_zero_is_absence_for_plain_fields_only():
    spec = field(1, 0) + field(5, 0) + field(7, 0)  # replicas, minReadySeconds, paused
    found = decoded(body(b"apps/v1", b"Deployment", field(2, spec)))
    assert found["spec"] == {"replicas": 0}


def test_special_shapes():
    service = field(1, field(3, 80) + field(4, field(1, 1) + field(2, 0) + field(3, b"web")))
    found = decoded(body(b"v1", b"Service", field(2, service)))
    assert found["spec"]["ports"] == [{"port": 80, "targetPort": "web"}]
    quota = field(1, field(1, b"cpu") + field(2, field(1, b"100m")))
    found = decoded(body(b"v1", b"ResourceQuota", field(2, quota)))
    assert found["spec"] == {"hard": {"cpu": "100m"}}
    meta = field(8, field(1, 1_767_225_600) + field(2, 0)) + field(7, -1)
    found = decoded(body(b"v1", b"Namespace", field(1, meta)))
    assert found["metadata"] == {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": -1}
    secret = field(2, field(1, b"a") + field(2, b"\x00\xff"))
    assert decoded(body(b"v1", b"Secret", secret))["data"] == {"a": "AP8="}
    role = field(2, field(1, b"get") + field(2, b"") + field(3, b"pods"))
    found = decoded(body(b"rbac.authorization.k8s.io/v1", b"Role", role))
    assert found["rules"] == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"k8s",
        b"{}",
        CONFIGMAP[:-3],
        CONFIGMAP + b"\xff",
        body(b"v1", b"Widget", b""),
        body(b"v1", b"Pod", field(2, field(43, b"x"))),  # a field whose number the table lacks
        body(b"v1", b"ConfigMap", field(1, 5)),
        body(b"v1", b"ConfigMap", field(1, b"\xff\xff")),
        body(b"v1", b"ConfigMap", field(1, field(1, b"\xff"))),
    ],
)
def test_what_cannot_be_read_is_said_to_be(raw):
    with pytest.raises(Unreadable):
        decoded(raw)


def test_unknown_fields_are_skipped_as_older_clients_send_some_that_are_gone():
    meta = field(1, b"m") + field(15, b"")  # clusterName of client-go up to 1.23
    found = decoded(body(b"v1", b"ConfigMap", field(1, meta) + field(15, 7) + field(98, b"x")))
    assert found == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(raw):
    for attempt in (raw, b"k8s\x00" + raw, CONFIGMAP + raw, body(b"v1", b"ConfigMap", raw[:100])):
        with suppress(Unreadable):
            decoded(attempt)


def test_the_table_has_every_field_of_the_types_that_clients_send():
    for kind in (
        "core.v1.Pod",
        "core.v1.PodSpec",
        "core.v1.Service",
        "apps.v1.DeploymentSpec",
        "batch.v1.JobSpec",
        "rbac.v1.PolicyRule",
    ):
        name = f"io.k8s.api.{kind}"
        listed = {known.name for _, known in fields_of(name).values() if known is not None}
        missing = set(struct_type(name).fields) - listed - {"apiVersion", "kind"}
        # what was added after the table's release is not in it
        assert missing <= {"hostnameOverride", "schedulingGroup"}


def test_all_types_in_the_table_can_be_read():
    for name, listed in numbers().items():
        if not name.startswith("in:"):
            assert len(fields_of(f"io.k8s.{name}")) == len(listed.split())


def test_a_message_inside_may_hold_fields_of_the_object_itself():
    volume = field(1, b"v") + field(2, field(2, b""))  # name, source: emptyDir
    container = field(1, b"c") + field(10, field(1, field(2, field(1, b"/x"))) + field(2, 5))
    found = decoded(body(b"v1", b"Pod", field(2, field(1, volume) + field(2, container))))
    assert found["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {"name": "c", "livenessProbe": {"httpGet": {"path": "/x"}, "initialDelaySeconds": 5}}
        ],
    }


def test_field_sets_are_json_inside():
    entry = field(1, b"m") + field(7, field(1, b'{"f:data":{}}'))
    found = decoded(body(b"v1", b"ConfigMap", field(1, field(17, entry))))
    assert found["metadata"]["managedFields"] == [{"manager": "m", "fieldsV1": {"f:data": {}}}]


async def test_over_http():
    async with served() as session:
        found = await session.ask(
            "POST",
            CONFIGMAPS,
            CONFIGMAP,
            Content_Type=PROTOBUF,
            Accept=f"{PROTOBUF},application/json",
        )
        assert found.code == 201
        assert found.headers["content-type"] == PROTOBUF
        assert decoded(found.body)["data"] == {"a": "b"}
        refused = await session.ask("POST", CONFIGMAPS, b"nonsense", Content_Type=PROTOBUF)
        assert refused.code == 400
        assert "expected prefix [107 56 115 0]" in refused.tree["message"]


def long_field(number: int, value: bytes) -> bytes:
    """A field of any length."""

    def varint(rest: int) -> bytes:
        out = bytearray()
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        return bytes([*out, rest])

    return varint(number << 3 | 2) + varint(len(value)) + value


def small(number: int, value: int) -> bytes:
    return (
        bytes([number << 3]) if number < 16 else bytes([number << 3 & 127 | 128, number >> 4])
    ) + bytes([value])


def test_definitions_of_custom_resources_as_typed_clients_send_them():
    size = (
        long_field(5, b"integer")
        + bytes([11 << 3 | 1])
        + pack("<d", 1.0)
        + small(10, 0)
        + long_field(8, long_field(1, b"3"))
    )
    names = long_field(5, b"array") + long_field(24, long_field(1, long_field(5, b"string")))
    closed = long_field(5, b"object") + long_field(30, small(1, 0))
    rule = long_field(1, b"self.size > 0") + long_field(2, b"positive") + long_field(5, b".size")
    spec = (
        long_field(5, b"object")
        + small(38, 1)
        + small(13, 9)
        + b"".join(
            long_field(29, long_field(1, name) + long_field(2, inner))
            for name, inner in ((b"size", size), (b"names", names), (b"none", closed))
        )
        + long_field(23, b"size")
        + long_field(44, rule)
        + long_field(20, long_field(1, b'{"a": null}'))
    )
    version = (
        long_field(1, b"v1")
        + small(2, 1)
        + small(3, 0)
        + long_field(4, long_field(1, spec))
        + long_field(5, long_field(1, b""))
    )
    names = long_field(1, b"foos") + long_field(4, b"Foo") + long_field(2, b"")
    raw = long_field(
        2,
        long_field(1, b"g")
        + long_field(3, names)
        + long_field(4, b"Namespaced")
        + long_field(7, version)
        + small(10, 0),
    )
    found = decoded(
        b"k8s\x00"
        + long_field(
            1,
            long_field(1, b"apiextensions.k8s.io/v1") + long_field(2, b"CustomResourceDefinition"),
        )
        + long_field(2, raw)
    )
    assert found["spec"] == {
        "group": "g",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": False,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "maxLength": 9,
                        "properties": {
                            "size": {"type": "integer", "minimum": 1, "default": 3},
                            "names": {"type": "array", "items": {"type": "string"}},
                            "none": {"type": "object", "additionalProperties": False},
                        },
                        "required": ["size"],
                        "enum": [{"a": None}],
                        "x-kubernetes-validations": [
                            {"rule": "self.size > 0", "message": "positive", "fieldPath": ".size"}
                        ],
                    }
                },
            }
        ],
    }


def test_damaged_bytes_are_unreadable_and_nothing_else():
    import random

    chance = random.Random(3)
    tree = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "a", "creationTimestamp": "2031-01-01T00:00:00Z"},
        "spec": {
            "group": "x",
            "scope": "Namespaced",
            "names": {"plural": "a", "kind": "A"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"a": {"type": "number", "maximum": 1.5}},
                        }
                    },
                }
            ],
        },
    }
    raw = encoded(tree)
    told = 0
    for _ in range(600):
        damaged = bytearray(raw)
        at = chance.randrange(4, len(raw))
        if chance.random() < 0.5:
            damaged[at] = chance.randrange(256)
        elif chance.random() < 0.5:
            del damaged[at:]
        else:
            damaged[at:at] = b"\xff" * chance.randrange(1, 12)
        try:
            decoded(bytes(damaged))
        except Unreadable:
            told += 1
    assert told > 300


def definition(levels):
    """A definition whose schema is a `not` of a `not` and so on."""
    number = next(number for number, (_, name) in SCHEMA.items() if name == "not")
    schema = b""
    for _ in range(levels):
        schema = long_field(number, schema)
    inner = schema
    for known in (1, 4, 7, 2):  # schema, its version, versions, spec
        inner = long_field(known, inner)
    about = field(1, b"apiextensions.k8s.io/v1") + field(2, b"CustomResourceDefinition")
    return b"k8s\0" + field(1, about) + long_field(2, inner)


def test_a_schema_of_very_many_levels_is_unreadable():
    version = decoded(definition(2))["spec"]["versions"][0]
    assert version["schema"]["openAPIV3Schema"] == {"not": {"not": {}}}
    with pytest.raises(Unreadable):
        decoded(definition(5000))
