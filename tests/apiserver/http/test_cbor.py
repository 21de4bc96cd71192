"""CBOR over HTTP, behind its gate: bodies, answers, lists, errors, watches and patches."""

from __future__ import annotations

import base64

import pytest

from controlplane.apiserver.schema.cbor.reading import decoded
from controlplane.apiserver.schema.cbor.writing import PREFIX, encoded
from tests.apiserver.http.session import CONFIGMAPS, config, more, request, served

ON = {"feature_gates": ("CBORServingAndStorage=true",)}
CBOR = "application/cbor"
SECRETS = "/api/v1/namespaces/default/secrets"
ASKED = {"accept": CBOR, "Content_Type": CBOR}
DATA = base64.b64encode(b"\0\1").decode()


def secret(name):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": DATA}}


async def ask(session, method, path, body=None, **headers):
    """An answer with its body as a tree."""
    raw = body if isinstance(body, bytes) or body is None else encoded(body)
    answer = await session.ask(method, path, raw, **headers)
    media = answer.headers["content-type"]
    return answer.code, media, decoded(answer.body) if media == CBOR else answer.tree


async def test_objects_are_written_read_and_listed_in_cbor():
    async with served(**ON) as session:
        code, media, made = await ask(session, "POST", SECRETS, secret("a"), **ASKED)
        assert (code, media, made["data"]) == (201, CBOR, {"k": DATA})
        code, _, found = await ask(session, "GET", f"{SECRETS}/a", accept="application/json")
        assert (code, found) == (200, made)
        changed = {**made, "data": {"k": DATA, "more": DATA}}
        code, _, put = await ask(session, "PUT", f"{SECRETS}/a", changed, **ASKED)
        assert (code, put["data"]) == (200, changed["data"])
        _, media, listed = await ask(session, "GET", SECRETS, accept=CBOR)
        _, _, plain = await ask(session, "GET", SECRETS)
        assert media == CBOR
        assert listed == plain
        assert "kind" not in listed["items"][0]
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
        assert (await ask(session, "DELETE", f"{SECRETS}/a", options, **ASKED))[0] == 200
        assert (await ask(session, "GET", f"{SECRETS}/a"))[0] == 200


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadataList"])
async def test_other_forms_of_a_list_come_in_cbor_too(form):
    async with served(**ON) as session:
        for name in ("a", "b"):
            await ask(session, "POST", CONFIGMAPS, config(name), **ASKED)
        more_of = f";as={form};g=meta.k8s.io;v=v1"
        wanted = (await ask(session, "GET", CONFIGMAPS, accept=f"application/json{more_of}"))[2]
        code, media, found = await ask(session, "GET", CONFIGMAPS, accept=f"{CBOR}{more_of}")
        assert (code, media, found) == (200, CBOR, wanted)


async def test_errors_are_in_the_form_that_is_asked_for():
    async with served(**ON) as session:
        code, media, found = await ask(session, "GET", f"{SECRETS}/none", accept=CBOR)
        assert (code, media, found["reason"]) == (404, CBOR, "NotFound")
        code, _, found = await ask(session, "POST", CONFIGMAPS, b"\xa1\x61", **ASKED)
        assert (code, found["message"]) == (
            400,
            "the object provided is unrecognized (must be of type ConfigMap): unable to determine "
            "group/version/kind: unexpected EOF (a161)",
        )
        doubled = PREFIX + bytes.fromhex("a2616101616102")
        _, _, found = await ask(session, "POST", CONFIGMAPS, doubled, **ASKED)
        assert "duplicate map key" in found["message"]
        code, _, found = await ask(session, "DELETE", f"{SECRETS}/a", b"\x81", **ASKED)
        assert (code, found["reason"]) == (400, "BadRequest")
        code, _, found = await ask(session, "POST", CONFIGMAPS, b"x", Content_Type="text/plain")
        assert code == 415
        assert found["message"].endswith("application/vnd.kubernetes.protobuf, application/cbor")


async def test_an_object_is_applied_in_cbor():
    async with served(**ON) as session:
        headers = {"Content_Type": "application/apply-patch+cbor", "accept": CBOR}
        path = f"{CONFIGMAPS}/a?fieldManager=me"
        code, _, found = await ask(session, "PATCH", path, config("a", x="y"), **headers)
        assert (code, found["data"]) == (201, {"x": "y"})
        assert found["metadata"]["managedFields"][0]["operation"] == "Apply"
        code, _, found = await ask(session, "PATCH", path, b"\xa1", **headers)
        assert (code, found["message"]) == (400, "error decoding CBOR: unexpected EOF")


async def test_a_watch_is_a_sequence_of_items():
    async with served(**ON) as session:
        await ask(session, "POST", SECRETS, secret("a"), **ASKED)
        stream = await session.connect()
        async with stream:
            await stream.send_all(request("GET", f"{SECRETS}?watch=true", accept=CBOR))
            raw = b""
            while b"ADDED" not in raw or not raw.endswith(b"\r\n"):
                raw += await more(stream)
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"Content-Type: application/cbor-seq\r\n" in head + b"\r\n"
    event = decoded(body[body.index(PREFIX) : -2])
    assert (event["type"], event["object"]["data"]) == ("ADDED", {"k": DATA})


async def test_without_the_gate_cbor_is_no_media_type():
    async with served() as session:
        answer = await session.ask("GET", CONFIGMAPS, accept=CBOR)
        assert answer.code == 406
        assert b"cbor" not in answer.body
        code, media, _ = await ask(session, "POST", CONFIGMAPS, config("a"), **ASKED)
        assert (code, media) == (406, "application/json")
        code, _, found = await ask(session, "POST", CONFIGMAPS, config("a"), Content_Type=CBOR)
        assert code == 415
        assert "cbor" not in found["message"]


async def test_a_client_that_prefers_cbor_gets_json_where_it_is_not_served():
    for gates, media in ((ON, CBOR), ({}, "application/json")):
        async with served(**gates) as session:
            accept = "application/cbor, application/json;q=0.9"
            assert (await ask(session, "GET", CONFIGMAPS, accept=accept))[1] == media
