"""Discovery documents in the media types that clients accept."""

from __future__ import annotations

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.requests.routing import HttpRequest
from tests.apiserver.world import World

PROTOBUF = "application/vnd.kubernetes.protobuf"
AGGREGATED = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def asked(path: str, accept: str) -> HttpAnswer:
    world = World()
    found = answer(world.server, HttpRequest("GET", path, {}, {"accept": accept}, b"", ADMIN), 0)
    assert isinstance(found, HttpAnswer)
    return found


def test_plain_documents_have_a_form_in_protobuf() -> None:
    for path in ("/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1"):
        found = asked(path, PROTOBUF)
        assert (found.code, found.headers["Content-Type"]) == (200, PROTOBUF)
        assert found.packed and found.packed.startswith(b"k8s\0")


def test_the_aggregated_form_comes_before_plain_ones() -> None:
    for accept in (
        f"application/json,application/yaml{AGGREGATED}",
        f"{PROTOBUF},application/xml,application/yaml{AGGREGATED}",
    ):
        found = asked("/apis", accept)
        assert found.headers["Content-Type"] == f"application/yaml{AGGREGATED}"
        assert found.tree["kind"] == "APIGroupDiscoveryList"


def test_the_aggregated_form_has_no_slash_at_its_end() -> None:
    assert asked("/apis/", f"application/json{AGGREGATED}").code == 406
    assert asked("/api/", f"application/json{AGGREGATED}").tree["kind"] == "APIGroupDiscoveryList"


def test_the_route_of_the_legacy_group_looks_at_media_types_first() -> None:
    assert asked("/api", "application/xml").tree["message"].startswith("406: Not Acceptable")
    assert asked("/apis", "application/xml").tree["message"].startswith("only the following")
