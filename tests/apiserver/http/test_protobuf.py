"""Bodies in protobuf, as kubectl's generators send them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.http.protobuf import _NUMBERS, Unreadable, _fields, decoded
from tests.apiserver.http.session import CONFIGMAPS, served

# What `kubectl create configmap m --from-literal=a=b` sends.
CONFIGMAP = (
    b"k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x1b\n\x11\n\x01m\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00"
    b"\x12\x06\n\x01a\x12\x01b\x1a\x00\"\x00"
)  # fmt: skip
PROTOBUF = "application/vnd.kubernetes.protobuf"


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        value &= (1 << 64) - 1
        out = bytearray([number << 3])
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])
    return bytes([number << 3 | 2, len(value)]) + value


def body(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_what_kubectl_sends_for_a_config_map():
    assert decoded(CONFIGMAP) == {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"},
    }  # fmt: skip


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
        b"", b"k8s", b"{}", CONFIGMAP[:-3], CONFIGMAP + b"\xff",
        body(b"v1", b"Widget", b""), body(b"v1", b"ConfigMap", field(15, b"x")),
        body(b"v1", b"ConfigMap", field(1, 5)), body(b"v1", b"ConfigMap", field(1, b"\xff\xff")),
        body(b"v1", b"ConfigMap", field(1, field(1, b"\xff"))),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_to_be(raw):
    with pytest.raises(Unreadable):
        decoded(raw)


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(raw):
    for attempt in (raw, b"k8s\x00" + raw, CONFIGMAP + raw, body(b"v1", b"ConfigMap", raw[:100])):
        with suppress(Unreadable):
            decoded(attempt)


def test_the_table_names_fields_that_exist():
    for name in _NUMBERS:
        full = name if name.startswith("io.") else f"io.k8s.api.{name}"
        assert len(_fields(full)) == len(_NUMBERS[name].split())


async def test_over_http():
    async with served() as session:
        found = await session.ask("POST", CONFIGMAPS, CONFIGMAP, Content_Type=PROTOBUF,
                                  Accept=f"{PROTOBUF},application/json")  # fmt: skip
        assert found.code == 201
        assert found.headers["content-type"] == "application/json"
        assert found.tree["data"] == {"a": "b"}
        refused = await session.ask("POST", CONFIGMAPS, b"nonsense", Content_Type=PROTOBUF)
        assert refused.code == 400
        assert "expected prefix [107 56 115 0]" in refused.tree["message"]
