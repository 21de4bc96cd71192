"""Bodies that random conversations found to be judged differently from upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.requests.routing import HttpRequest
from tests.apiserver.world import World

NAMESPACE = "/api/v1/namespaces/default"
MAPS = f"{NAMESPACE}/configmaps"


def sent(world: World, method: str, path: str, body: Any, media: str = "json") -> Any:
    """The body of the answer."""
    raw = json.dumps(body).encode()
    headers = {"accept": "application/json", "content-type": f"application/{media}"}
    answered = answer(world.server, HttpRequest(method, path, {}, headers, raw, ADMIN), world.now)
    assert isinstance(answered, HttpAnswer)
    return answered.tree


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        ({"path": []}, "array into Go struct field jsonPatchOp.path of type string"),
        ({"op": 1}, "number into Go struct field jsonPatchOp.op of type string"),
        (1, "number into Go value of type handlers.jsonPatchOp"),
    ],
)
def test_operations_of_a_json_patch_have_types(operation: Any, problem: str) -> None:
    world = World()
    sent(world, "POST", MAPS, {"metadata": {"name": "a"}})
    found = sent(world, "PATCH", f"{MAPS}/a", [operation], "json-patch+json")
    assert found["code"] == 400
    assert found["message"] == f"error decoding patch: json: cannot unmarshal {problem}"


def test_a_conflict_tells_of_generate_name_even_beside_a_name() -> None:
    world = World()
    body = {"metadata": {"name": "a", "generateName": "g-"}}
    assert sent(world, "POST", MAPS, body)["metadata"]["name"] == "a"
    found = sent(world, "POST", MAPS, body)
    assert found["message"].endswith("was not able to generate a unique name for the object")
    assert found["details"]["retryAfterSeconds"] == 1


def test_names_are_quoted_as_go_quotes_them() -> None:
    found = sent(World(), "POST", MAPS, {"metadata": {"name": "\u2028"}})
    assert found["message"].startswith(
        'ConfigMap "\\u2028" is invalid: metadata.name: Invalid value'
    )


def test_values_of_enumerations_are_shown_as_json() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"restartPolicy": "<", "containers": [{"name": "c", "image": "i"}]},
    }
    found = sent(World(), "POST", f"{NAMESPACE}/pods", pod)
    assert 'spec.restartPolicy: Unsupported value: "\\u003c"' in found["message"]


def test_metadata_of_an_event_are_judged_after_its_own_rules() -> None:
    events = f"{NAMESPACE}/events"
    found = sent(World(), "POST", events, {"involvedObject": {"namespace": "other"}})
    assert [each["field"] for each in found["details"]["causes"]] == ["involvedObject.namespace"]
    body = {"metadata": {"name": "A_b"}, "involvedObject": {"namespace": "default"}}
    assert sent(World(), "POST", events, body)["metadata"]["name"] == "A_b"


def test_a_put_of_a_missing_object_with_a_uid_tells_the_precondition() -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    found = sent(World(), "PUT", path, {"metadata": {"name": "a", "uid": "u"}})
    assert found["code"] == 409
    assert "Key: /registry/leases/default/a" in found["message"]
    assert found["message"].endswith("UID in precondition: u, UID in object meta: ")
