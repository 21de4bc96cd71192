"""What people do not see of Secrets and tokens."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.redaction import LAST_APPLIED, REDACTED, cleaner, redacted

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "type": "Opaque",
    "data": {"password": "aHVudGVyMg=="},
    "stringData": {"more": "hunter3"},
}
JWT = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl"


def with_applied(tree, text):
    return {**tree, "metadata": {"name": "s", "annotations": {LAST_APPLIED: text, "other": "kept"}}}


def test_a_secret_keeps_its_keys_and_not_its_values():
    found = redacted(SECRET)
    assert found == {**SECRET, "data": {"password": REDACTED}, "stringData": {"more": REDACTED}}
    assert base64.b64decode(REDACTED, validate=True), "it can be loaded again"
    assert SECRET["data"] == {"password": "aHVudGVyMg=="}, "the object itself is as it was"


def test_what_kubectl_keeps_of_it_is_hidden_too():
    found = redacted(with_applied(SECRET, json.dumps(SECRET)))["metadata"]["annotations"]
    assert found["other"] == "kept"
    assert json.loads(found[LAST_APPLIED])["data"] == {"password": REDACTED}
    for text in ("{broken", "[]", "null", "[" * 100_000, '{"kind": "Other", "data": {"a": "b"}}'):
        found = redacted(with_applied(SECRET, text))["metadata"]["annotations"]
        assert found[LAST_APPLIED] == REDACTED


def test_other_objects_are_the_same_ones():
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"Secret": "x"}, "metadata": {}}
    applied = with_applied(config, '{"kind":"ConfigMap","data":{"a":"Secret"}}')
    foreign = {**SECRET, "apiVersion": "example.com/v1"}
    for tree in (config, applied, foreign, {}, {"kind": 1}, {"kind": "Secret", "metadata": None}):
        assert redacted(tree) == tree


def test_lists_and_tokens():
    item = {key: value for key, value in SECRET.items() if key not in ("kind", "apiVersion")}
    found = redacted({"kind": "SecretList", "apiVersion": "v1", "items": [item, 1]})
    assert found["items"][0] == {
        **item,
        "data": {"password": REDACTED},
        "stringData": {"more": REDACTED},
    }
    assert redacted({"kind": "List", "apiVersion": "v1", "items": [SECRET]})["items"] == [
        redacted(SECRET)
    ]
    for kind, part in (("TokenRequest", "status"), ("TokenReview", "spec")):
        tree = {
            "kind": kind,
            "apiVersion": "authentication.k8s.io/v1",
            part: {"token": JWT, "a": 1},
        }
        assert redacted(tree)[part] == {"token": REDACTED, "a": 1}


def test_texts_lose_tokens_credentials_and_what_secrets_hold():
    clean = cleaner(
        [{**SECRET, "data": {"a": base64.b64encode(b"correct horse").decode(), "b": "eA=="}}]
    )
    assert clean(f"token {JWT}, again {JWT}") == f"token {REDACTED}, again {REDACTED}"
    assert clean("Authorization: Bearer abc.def-1=") == f"Authorization: Bearer {REDACTED}"
    assert clean("basic dXNlcjpw") == f"basic {REDACTED}"
    assert clean("it said: correct horse!") == f"it said: {REDACTED}!"
    assert (
        clean("it said: " + base64.b64encode(b"correct horse").decode()) == f"it said: {REDACTED}"
    )
    assert clean("x eA== default") == "x eA== default", "short values are everywhere"


@given(st.binary(min_size=8, max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_no_value_of_a_secret_is_left_in_a_text(value, before, after):
    encoded = base64.b64encode(value).decode()
    tree = {**SECRET, "data": {"k": encoded}}
    assert encoded not in cleaner([tree])(f"{before}{encoded}{after}")
    assert encoded not in json.dumps(redacted(with_applied(tree, json.dumps(tree))))
