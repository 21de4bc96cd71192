"""Long lists are made while they are sent, and are the same as short ones."""

import json
from itertools import islice

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.api.json_text import compact
from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.stored import Stored, rest
from controlplane.apiserver.front import rendering
from controlplane.apiserver.front.answering import HttpAnswer, Listing, answer
from controlplane.apiserver.http import answer_bodies
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.protobuf import writing
from tests.apiserver.http.session import CONFIGMAPS, config, served
from tests.apiserver.world import World, config_map

COUNT = 1203
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def world():
    found = World()
    for n in range(COUNT):
        assert found.create("configmaps", config_map(f"c{n:04}", k="v" * 300)).code == 201
    return found


def listed(world, accept, **query):
    given = {key: [value] for key, value in query.items()}
    headers = {"accept": accept, "user-agent": "kubectl"}
    http = HttpRequest("GET", CONFIGMAPS, given, headers, b"")
    return answer(world.server, http, world.now)


def body(world, accept, *, pretty=False, **query):
    return b"".join(answer_bodies.encoded(listed(world, accept, **query), pretty=pretty))


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize(("accept", "key"), [(TABLE, "rows"), (METADATA, "items")])
def test_a_long_list_is_the_same_in_parts(world, monkeypatch, accept, key, pretty):
    parts = body(world, accept, pretty=pretty)
    monkeypatch.setattr(writing, "AT_ONCE", 10_000)
    assert parts == body(world, accept, pretty=pretty)
    assert len(json.loads(parts)[key]) == COUNT


@pytest.mark.parametrize("accept", ["application/json", TABLE, METADATA])
def test_a_list_has_the_bytes_of_its_tree(world, accept):
    found = listed(world, accept, limit="300")
    text = b"".join(answer_bodies.encoded(found, pretty=False))
    tree = json.loads(text)
    assert tree == found.tree
    assert text == compact(tree) + b"\n"


@pytest.mark.parametrize("typed", [False, True])
def test_items_of_any_length_and_order_of_fields_are_joined(monkeypatch, typed):
    monkeypatch.setattr(answer_bodies, "GROUP", 2)
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    trees = [
        {**kind, "metadata": {"name": "first"}},
        {**kind, "metadata": {"name": "long"}, "data": {"k": "v" * KEPT_JSON}},
        {"metadata": {"name": "typed behind"}, **kind},
        {**dict(reversed(kind.items())), "metadata": {"name": "kind first"}},
        {**kind, "metadata": {"name": "fourth"}},
        {**kind, "metadata": {"name": "fifth"}},
        {**kind, "metadata": {"name": "long"}, "data": {"k": "w" * KEPT_JSON}},
    ]
    objects = [Object(tree) for tree in trees]
    objects.append(Stored(compact({**kind, "metadata": {"name": "stored"}})))
    objects.append(Object({**kind, "metadata": {"name": "resting"}}))
    rest(objects[-1:])
    for some in (objects, objects[1:], objects[1:2], objects[-1:], []):
        listing = Listing({"kind": "List"}, some, typed=typed)
        answered = HttpAnswer(200, {"Content-Type": "application/json"}, listing=listing)
        found = b"".join(answer_bodies.encoded(answered, pretty=False))
        assert found == compact(listing.tree) + b"\n"


@pytest.mark.parametrize("form", ["", ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"])
def test_a_long_list_in_protobuf_is_the_same_in_parts(world, monkeypatch, form):
    parts = body(world, PROTOBUF + form)
    monkeypatch.setattr(writing, "AT_ONCE", 10_000)
    assert parts == body(world, PROTOBUF + form)
    assert parts.startswith(b"k8s\0")


def test_a_long_list_is_made_while_it_is_sent(world, monkeypatch):
    made = []
    plain = rendering.rendered

    def counted(info, request, response, *rest):
        made.append(len(response.items))
        return plain(info, request, response, *rest)

    monkeypatch.setattr(rendering, "rendered", counted)
    monkeypatch.setattr(answer_bodies, "PIECE", 4096)
    pieces = answer_bodies.encoded(listed(world, TABLE, includeObject="Object"), pretty=False)
    list(islice(pieces, 2))
    assert made == [500]
    list(pieces)
    assert made == [500, 500, 203]


@pytest.mark.parametrize("accept", ["application/json", TABLE, PROTOBUF])
async def test_others_run_while_a_long_list_leaves(monkeypatch, accept):
    monkeypatch.setattr(writing, "AT_ONCE", 4)
    monkeypatch.setattr(answer_bodies, "PIECE", 512)
    monkeypatch.setattr(answer_bodies, "GZIP_FROM", 256)
    turns = 0
    async with served(Pacer(MAX)) as session:
        for n in range(40):
            await session.ask("POST", CONFIGMAPS, config(f"a{n}", k="v" * 400))
        with trio.CancelScope() as scope:

            async def count():
                nonlocal turns
                while True:
                    await trio.sleep(0)
                    turns += 1

            async with trio.open_nursery() as nursery:
                nursery.start_soon(count)
                found = await session.ask("GET", CONFIGMAPS, Accept=accept, Accept_Encoding="gzip")
                scope.cancel()
    assert found.code == 200
    assert found.headers.get("content-encoding") == "gzip"
    assert turns > 20
