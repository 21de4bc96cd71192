"""Byte fields without content are there, though JSON does not show them."""

from __future__ import annotations

import copy
import json

import pytest

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.codec import DecodeError, decode
from controlplane.apiserver.schema.empty_bytes import EmptyBytes, forgotten, like, spelled
from tests.apiserver.world import APPLY, MERGE, World

STATUS = "io.k8s.api.certificates.v1.CertificateSigningRequestStatus"
HOOKS = {"group": "admissionregistration.k8s.io", "namespace": ""}
KIND = "ValidatingWebhookConfiguration"


def hooks(bundle: str | None, version: str = "") -> Tree:
    client = {"url": "https://a.example/x", **({} if bundle is None else {"caBundle": bundle})}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": "a", **({"resourceVersion": version} if version else {})},
        "webhooks": [
            {
                "name": "a.x.io",
                "clientConfig": client,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def test_an_empty_byte_field_is_kept_as_a_mark() -> None:
    read = decode(STATUS, {"certificate": ""})
    assert isinstance(read, EmptyBytes) and json.dumps(read) == "{}"
    assert read != {} and read != decode(STATUS, {})
    assert read == decode(STATUS, {"certificate": "\n"}) == decode(STATUS, read)
    assert copy.deepcopy(read) == read == like({}, read)
    assert decode(STATUS, {"certificate": "YQ=="}) == {"certificate": "YQ=="}


def test_marks_are_forgotten_in_json_and_spelled_for_comparison() -> None:
    read = decode(STATUS, {"certificate": ""})
    tree = {"status": read}
    assert forgotten("CertificateSigningRequest", tree) == {"status": {}}
    assert spelled("CertificateSigningRequest", tree) == {"status": {"certificate": ""}}
    assert forgotten("Pod", tree) is tree
    plain = {"webhooks": [{"clientConfig": {}}]}
    assert forgotten(KIND, plain) is plain


def test_leaving_an_empty_byte_field_out_changes_the_object() -> None:
    world = World()
    name = "validatingwebhookconfigurations"
    made = world.create(name, hooks(""), **HOOKS).tree
    generations = []
    for bundle in ("", None, None, ""):
        version = made["metadata"]["resourceVersion"]
        made = world.do("update", name, "a", hooks(bundle, version), **HOOKS).tree
        generations.append(made["metadata"]["generation"])
    assert generations == [1, 2, 2, 3]
    assert "caBundle" not in made["webhooks"][0]["clientConfig"]
    patched = world.patch(name, "a", {"metadata": {"labels": {"a": "b"}}}, MERGE, **HOOKS)
    assert patched.tree["metadata"]["generation"] == 4


def test_applying_nothing_leaves_an_empty_byte_field() -> None:
    world = World(track_fields=True)
    name = "validatingwebhookconfigurations"
    world.create(name, hooks(""), **HOOKS)
    body = {**hooks(None), "webhooks": None}
    for applied, generation in ((body, 1), (hooks(""), 1), (hooks(None), 2)):
        found = world.do(
            "patch", name, "a", applied, media=APPLY, fieldManager="m", force="true", **HOOKS
        )
        assert found.tree["metadata"]["generation"] == generation


def test_bytes_may_be_a_list_of_numbers() -> None:
    assert decode(STATUS, {"certificate": [97, None]}) == {"certificate": "YQA="}
    for value, told in (([300], "number 300"), ([True], "bool"), ([1, "a"], "string")):
        with pytest.raises(DecodeError, match=f"cannot unmarshal {told} into .* of type uint8"):
            decode(STATUS, {"certificate": value})
