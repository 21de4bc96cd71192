"""Every kind and subresource the server has: objects made from the schema, well and badly, never an exception."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.apiserver.schema.types import Kind
from tests.apiserver.test_malformed_fuzz import JSON, PLAIN, QUERY
from tests.apiserver.world import APPLY, JSON_PATCH, MERGE, STRATEGIC, World

RESOURCES = [info for info in builtin_resources() if "create" in info.verbs]
DEPTH = 5
WORDS = (
    "a",
    "b",
    "app",
    "Always",
    "ClusterIP",
    "TCP",
    "Equal",
    "Exists",
    "In",
    "",
    "*",
    "-1",
    "10%",
    "1.2.3.4",
    "10.0.0.0/24",
    "a.b.io/c",
    "{}",
    "/x",
    "*/5 * * * *",
    "\u00e9",
    "A_b",
    "x" * 300,
)
VALUES = {
    Kind.STRING: st.sampled_from(WORDS),
    Kind.BOOL: st.booleans(),
    Kind.INT: st.sampled_from((0, 1, 3, 80, -1, 65536, 2**31, 2**63 - 1)),
    Kind.NUMBER: st.sampled_from((0, 0.5, -1.5)),
    Kind.BYTES: st.sampled_from(("", "YQ==", "?")),
    Kind.TIME: st.sampled_from((None, "2030-01-01T00:00:00Z", "soon")),
    Kind.MICRO_TIME: st.sampled_from((None, "2030-01-01T00:00:00.000001Z", "soon")),
    Kind.QUANTITY: st.sampled_from(("1", "100m", "1Gi", "-1", "x", 3)),
    Kind.INT_OR_STRING: st.sampled_from((1, "25%", "http", -1)),
    Kind.OPAQUE: JSON,
}


def draw_value(draw, field, depth):
    if draw(st.integers(0, 19)) == 0:
        return draw(JSON)
    if field.enum and draw(st.booleans()):
        return draw(st.sampled_from(field.enum))
    if field.kind == Kind.LIST:
        return [draw_value(draw, field.element, depth) for _ in range(draw(st.integers(0, 2)))]
    if field.kind == Kind.MAP:
        keys = draw(st.lists(st.sampled_from(WORDS), max_size=2))
        return {key: draw_value(draw, field.element, depth) for key in keys}
    if field.kind == Kind.STRUCT:
        return draw_struct(draw, field.struct, depth - 1)
    return draw(VALUES[field.kind])


def draw_struct(draw, struct, depth):
    if depth <= 0:
        return {}
    optional = [name for name, field in struct.fields.items() if not field.required]
    names = [
        name for name, field in struct.fields.items() if field.required and draw(st.integers(0, 9))
    ]
    if optional:
        names += draw(st.lists(st.sampled_from(optional), max_size=3, unique=True))
    return {name: draw_value(draw, struct.fields[name], depth) for name in names}


def draw_object(draw, info):
    tree = draw_struct(draw, info.type, DEPTH)
    tree |= {"apiVersion": info.api_version, "kind": info.kind}
    if draw(st.integers(0, 9)):
        more = {
            name: draw_value(draw, info.type.fields["metadata"].struct.fields[name], 3)
            for name in draw(
                st.lists(
                    st.sampled_from(
                        (
                            "labels",
                            "annotations",
                            "finalizers",
                            "ownerReferences",
                            "generateName",
                            "managedFields",
                        )
                    ),
                    max_size=1,
                )
            )
        }
        tree["metadata"] = {"name": draw(st.sampled_from(("a", "a", "default", "A b"))), **more}
    return tree


def path_of(info):
    root = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    return (
        f"{root}/namespaces/default/{info.resource}"
        if info.namespaced
        else f"{root}/{info.resource}"
    )


@st.composite
def sequences(draw, info):
    """A creation, and what may follow it on the object and its subresources."""
    path, requests = path_of(info), []

    def add(method, target, tree, media="application/json"):
        query = {key: [value] for key, value in draw(QUERY).items()} if draw(st.booleans()) else {}
        query.pop("dryRun", None) if not requests else None
        if media == APPLY:
            query.setdefault("fieldManager", ["m"])
        raw = b"" if tree is None else json.dumps(tree).encode()
        accept = draw(
            st.sampled_from(("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"))
        )
        headers = {"accept": accept, "content-type": media, "user-agent": "fuzz/1"}
        requests.append(HttpRequest(method, target, query, headers, raw, ADMIN))

    add("POST", path, draw_object(draw, info))
    targets = [f"{path}/a", *(f"{path}/a/{name}" for name in info.subresources)]
    for _ in range(draw(st.integers(1, 3))):
        target = draw(st.sampled_from(targets))
        method = draw(st.sampled_from(("PUT", "PATCH", "PATCH", "POST", "GET", "DELETE")))
        if method == "PATCH":
            media = draw(st.sampled_from((MERGE, STRATEGIC, JSON_PATCH, APPLY)))
            add(
                method,
                target,
                draw(JSON) if media == JSON_PATCH else draw_object(draw, info),
                media,
            )
        else:
            add(method, target, None if method == "GET" else draw_object(draw, info))
    add("GET", path, None)
    return requests


def check(requests, *, track):
    world = World(track_fields=track)
    for http in requests:
        found = answer(world.server, http, world.now)
        if isinstance(found, HttpAnswer):
            tree = found.tree if isinstance(found.tree, dict) else {}
            text = tree.get("message", found.text or "")
            assert found.code < 500 or any(part in text for part in PLAIN), (http, found.code, text)
            json.dumps(found.tree)
        world.server.advance()


def run(infos, examples):
    @given(st.sampled_from(infos).flatmap(sequences), st.booleans())
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    def attempt(requests, track):
        check(requests, track=track)

    attempt()


def test_some_kinds():
    run(RESOURCES, 40)


@pytest.mark.slow
@pytest.mark.parametrize("info", RESOURCES, ids=lambda info: f"{info.group}/{info.resource}")
def test_every_kind(info):
    run([info], 30)
