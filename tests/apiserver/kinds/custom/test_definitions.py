"""Rules of definitions: conversions, fields to select by, what an update may change, and its status."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from controlplane.apiserver.kinds.custom.conversion_rules import conversion_errors
from controlplane.apiserver.kinds.custom.version_parts import deprecation_errors, selectable_errors
from tests.apiserver.world import World

PATH = "customresourcedefinitions"
GROUP = {"group": "apiextensions.k8s.io", "namespace": ""}
NAME = "things.example.com"
WEBHOOK = "spec.conversion.webhookClientConfig"
REVIEWS = "spec.conversion.conversionReviewVersions"
SERVICE = {"name": "s", "namespace": "n", "port": 443}
BAD_BUNDLE = base64.b64encode(b"none").decode()
NO_PEM = "unable to load root certificates: unable to parse bytes as PEM block"
TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": TEXT}},
        "spec": {
            "type": "object",
            "properties": {
                "a": TEXT,
                "b": {"type": "boolean"},
                "list": {"type": "array", "items": TEXT},
                "map": {"type": "object", "additionalProperties": TEXT},
                **{f"f{index}": TEXT for index in range(9)},
            },
        },
    },
}


def definition(**spec: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version],
                 "names": {"plural": "things", "kind": "Thing"}, **spec},
    }  # fmt: skip


def hook(*, reviews: Any = ("v1",), **client: Any) -> dict[str, Any]:
    told = {"clientConfig": client or {"service": SERVICE}}
    return {"strategy": "Webhook",
            "webhook": {**told, "conversionReviewVersions": list(reviews)}}  # fmt: skip


def said(errors: list[Any]) -> list[str]:
    return [f"{error.field}: {error.detail}" for error in errors]


@pytest.mark.parametrize(
    ("conversion", "fields"),
    [
        ({"strategy": "None"}, []),
        (hook(), []),
        ({}, ["spec.conversion.strategy"]),
        ({"strategy": "Other"}, ["spec.conversion.strategy"]),
        ({**hook(), "strategy": "None"}, [WEBHOOK, REVIEWS]),
        ({"strategy": "Webhook"}, [WEBHOOK, REVIEWS]),
        (hook(url="https://x", service=SERVICE), [WEBHOOK]),
        (hook(url="http://x"), [f"{WEBHOOK}.url"]),
        (hook(service={**SERVICE, "port": 0, "namespace": ""}),
         [f"{WEBHOOK}.service.name", f"{WEBHOOK}.service.port"]),
        (hook(reviews=()), [REVIEWS]),
        (hook(reviews=("v1", "v1", "Bad")), [f"{REVIEWS}[1]", f"{REVIEWS}[2]"]),
        (hook(reviews=("v2",)), [REVIEWS]),
    ],
)  # fmt: skip
def test_a_conversion_names_whom_it_asks(conversion: dict[str, Any], fields: list[str]) -> None:
    assert [error.field for error in conversion_errors(conversion, None, served=False)] == fields


def test_a_bundle_without_certificates_is_refused_once_served() -> None:
    bad = hook(service=SERVICE, caBundle=BAD_BUNDLE)
    told = [f"{WEBHOOK}.caBundle: {NO_PEM}"]
    assert said(conversion_errors(bad, hook(), served=True)) == told
    assert conversion_errors(bad, hook(), served=False) == []
    assert conversion_errors(bad, bad, served=True) == []


def test_reviews_that_were_unknown_before_may_stay() -> None:
    odd = hook(reviews=("v2",))
    assert conversion_errors(odd, odd, served=True) == []
    assert [error.field for error in conversion_errors(odd, hook(), served=True)] == [REVIEWS]


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ([".spec.a", ".spec.b", ".spec.map.x"], []),
        ([".spec.list[0]"], ["[0].jsonPath: is an invalid path: array notation is not allowed"]),
        ([".spec.a", ".spec.a"], ["[1].jsonPath: "]),
        ([".metadata.name"], ["[0].jsonPath: must not point to fields in metadata"]),
        ([".spec.list"], ["[0].jsonPath: must point to a field of type string, boolean or integer. "
                          "Enum string fields and strings with formats are allowed."]),
        ([f".spec.f{index}" for index in range(9)], [": 9: must have at most 8 items"]),
    ],
)  # fmt: skip
def test_fields_to_select_by_are_of_plain_types(paths: list[str], told: list[str]) -> None:
    version = {"schema": {"openAPIV3Schema": SCHEMA},
               "selectableFields": [{"jsonPath": path} for path in paths]}  # fmt: skip
    assert said(selectable_errors(version, "p")) == [f"p{text}" for text in told]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ({"deprecated": True}, []),
        ({"deprecated": True, "deprecationWarning": "old"}, []),
        ({"deprecationWarning": "old"}, ["can only be set for deprecated versions"]),
        ({"deprecated": True, "deprecationWarning": ""}, ["must not be an empty string"]),
        ({"deprecated": True, "deprecationWarning": "é" * 129}, ["must be <= 256 characters long"]),
        ({"deprecated": True, "deprecationWarning": "é\n"},
         ["must only contain printable UTF-8 characters; non-printable character found at index 2"]),
    ],
)  # fmt: skip
def test_a_warning_is_of_a_version_that_is_deprecated(
    version: dict[str, Any], told: list[str]
) -> None:
    assert said(deprecation_errors(version, "p")) == [f"p: {text}" for text in told]


def causes(reply: Any) -> list[str]:
    return [cause["field"] for cause in reply.tree["details"]["causes"]]


def test_errors_stand_in_the_order_of_the_versions() -> None:
    """First schemas that are missing, then each version by itself, then what is wrong with all."""
    bare = {"name": "Bad", "served": True, "storage": False}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}}
    column = {"name": "", "type": "string", "jsonPath": ".spec"}
    loose = {"name": "v1", "served": True, "storage": False, "schema": schema,
             "additionalPrinterColumns": [column]}  # fmt: skip
    reply = World().create(PATH, definition(versions=[bare, loose]), **GROUP)
    fields = list(dict.fromkeys(causes(reply)))
    assert fields[:2] == ["spec.versions[0].schema.openAPIV3Schema", "spec.versions[0].name"]
    assert fields[2:] == [
        "spec.versions[1].schema.openAPIV3Schema.properties[spec].type",
        "spec.versions[1].additionalPrinterColumns[0].name",
        "spec.versions", "spec.version", "status.storedVersions"]  # fmt: skip


def test_keeping_unknown_fields_goes_with_neither_defaults_nor_webhooks() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    sent = definition(versions=[version], preserveUnknownFields=True, conversion=hook())
    reply = World().create(PATH, sent, **GROUP)
    assert list(dict.fromkeys(causes(reply))) == [
        "spec.preserveUnknownFields", "spec.conversion.strategy"]  # fmt: skip


def made(world: World) -> Any:
    world.create(PATH, definition(), **GROUP)
    return world.get(PATH, NAME, **GROUP).tree


def test_group_and_scope_of_what_is_served_stay() -> None:
    """The name was checked when it was made, and is not compared again."""
    world = World()
    old = made(world)
    changed = {**old, "spec": {**old["spec"], "scope": "Cluster", "group": "other.com"}}
    reply = world.do("update", PATH, NAME, changed, **GROUP)
    assert causes(reply) == ["spec.scope", "spec.group"]


def test_an_update_needs_the_version_that_it_saw() -> None:
    world = World()
    world.create(PATH, definition(), **GROUP)
    reply = world.do("update", PATH, NAME, definition(), **GROUP)
    assert (reply.code, causes(reply)) == (422, ["metadata.resourceVersion"])


def test_accepted_names_are_names() -> None:
    world = World()
    old = made(world)
    state = {**old["status"], "acceptedNames": {"plural": "Bad", "kind": "T"}}
    reply = world.do("update", PATH, NAME, {**old, "status": state}, sub="status", **GROUP)
    assert causes(reply) == ["status.acceptedNames.plural"]


def test_an_approval_is_an_address_or_says_that_there_is_none() -> None:
    note = "api-approved.kubernetes.io"
    for text, status in (("https://x/1", 201), ("unapproved, test", 201), ("x/1", 422)):
        sent = definition(group="x.k8s.io")
        sent["metadata"] = {"name": "things.x.k8s.io", "annotations": {note: text}}
        assert World().create(PATH, sent, **GROUP).code == status
