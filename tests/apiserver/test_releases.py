"""What a server of an earlier release serves: resources, versions and fields."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.options import ServerOptions, build_of
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.schema.releases import RELEASES, without_younger
from controlplane.apiserver.schema.resources import builtin_resources

PODS = "/api/v1/namespaces/default/pods"


def server(release: str) -> ApiServer:
    serials = iter(range(1 << 30))
    made = ApiServer(
        uid=lambda: f"uid-{next(serials)}",
        suffix=lambda: "abcde",
        options=ServerOptions(
            release=release,
            build=build_of(release),
            auto_namespaces=True,
            disabled=("ServiceAccount",),
        ),
    )
    made.bootstrap(0)
    return made


def ask(api: ApiServer, method: str, path: str, body: bytes = b"", **query: str) -> HttpAnswer:
    headers = {"content-type": "application/json"}
    found = answer(
        api, HttpRequest(method, path, {k: [v] for k, v in query.items()}, headers, body, ADMIN), 0
    )
    assert isinstance(found, HttpAnswer)
    return found


def served(api: ApiServer, group: str) -> list[str]:
    tree = ask(api, "GET", f"/apis/{group}").tree
    return [version["version"] for version in (tree or {}).get("versions", ())]


@pytest.mark.parametrize("release", RELEASES)
def test_a_server_of_every_release_starts_and_says_which_it_is(release: str) -> None:
    api = server(release)
    assert ask(api, "GET", "/version").tree["minor"] == release.partition(".")[2]
    assert ask(api, "GET", "/api/v1/namespaces/kube-system").code == 200


@pytest.mark.parametrize(
    ("group", "release", "versions"),
    [
        ("autoscaling", "1.25", ["v2", "v1", "v2beta2"]),
        ("autoscaling", "1.26", ["v2", "v1"]),
        ("flowcontrol.apiserver.k8s.io", "1.28", ["v1beta3"]),
        ("flowcontrol.apiserver.k8s.io", "1.29", ["v1", "v1beta3"]),
        ("flowcontrol.apiserver.k8s.io", "1.32", ["v1"]),
        ("storage.k8s.io", "1.26", ["v1", "v1beta1"]),
        ("storage.k8s.io", "1.27", ["v1"]),
        ("resource.k8s.io", "1.33", []),
        ("resource.k8s.io", "1.34", ["v1"]),
    ],
)
def test_versions_come_and_go(group: str, release: str, versions: list[str]) -> None:
    assert served(server(release), group) == versions


@pytest.mark.parametrize(
    ("place", "since"),
    [
        (("networking.k8s.io", "v1", "servicecidrs"), "1.33"),
        (("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"), "1.30"),
        (("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies"), "1.36"),
        (("authentication.k8s.io", "v1", "selfsubjectreviews"), "1.28"),
        (("storage.k8s.io", "v1", "volumeattributesclasses"), "1.34"),
    ],
)
def test_resources_are_served_from_a_release_on(place: tuple[str, str, str], since: str) -> None:
    having = [release for release in RELEASES if builtin_resources(release).get(*place)]
    assert having == list(RELEASES[RELEASES.index(since) :])


def test_pods_can_be_resized_by_their_own_subresource_from_1_33_on() -> None:
    def parts(release: str) -> Any:
        return builtin_resources(release).get("", "v1", "pods").subresources

    assert "resize" not in parts("1.32")
    assert "resize" in parts("1.33")
    assert "eviction" in parts("1.25")


AUTOSCALER = (
    b'{"apiVersion":"autoscaling/v2beta2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},'
    b'"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"x"}}}'
)


def test_a_version_on_its_way_out_warns_with_its_successor_and_is_stored_as_that() -> None:
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    api = server("1.25")
    made = ask(api, "POST", path.format("v2beta2"), AUTOSCALER)
    assert made.code == 201
    assert made.tree["apiVersion"] == "autoscaling/v2beta2"
    assert made.headers["Warning"] == [
        '299 - "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in '
        'v1.26+; use autoscaling/v2 HorizontalPodAutoscaler"'
    ]
    assert ask(api, "GET", path.format("v2") + "/a").tree["apiVersion"] == "autoscaling/v2"
    assert ask(server("1.26"), "POST", path.format("v2beta2"), AUTOSCALER).code == 404


POD = (
    b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"hostnameOverride":"h",'
    b'"containers":[{"name":"c","image":"i","restartPolicyRules":[]}]}}'
)


def test_younger_fields_are_unknown_to_an_earlier_server() -> None:
    old = server("1.33")
    refused = ask(old, "POST", PODS, POD, fieldValidation="Strict")
    assert refused.code == 400
    assert 'unknown field "spec.hostnameOverride"' in refused.tree["message"]
    assert 'unknown field "spec.containers[0].restartPolicyRules"' in refused.tree["message"]
    made = ask(old, "POST", PODS, POD)
    assert made.headers["Warning"] == [
        '299 - "unknown field \\"spec.hostnameOverride\\""',
        '299 - "unknown field \\"spec.containers[0].restartPolicyRules\\""',
    ]
    assert "hostnameOverride" not in made.tree["spec"]
    kept = ask(server("1.36"), "POST", PODS, POD, fieldValidation="Strict")
    assert kept.tree["spec"]["hostnameOverride"] == "h"


def test_defaults_of_younger_fields_are_not_there() -> None:
    body = (
        b'{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"template":{"spec":'
        b'{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}'
    )
    path = "/apis/batch/v1/namespaces/default/jobs"
    assert "podReplacementPolicy" not in ask(server("1.27"), "POST", path, body).tree["spec"]
    assert "podReplacementPolicy" in ask(server("1.36"), "POST", path, body).tree["spec"]


def test_a_tree_without_younger_fields_is_the_same_tree() -> None:
    tree = {"spec": {"containers": [{"name": "c"}]}, "metadata": {}}
    assert without_younger("io.k8s.api.core.v1.Pod", tree, "1.25") == (tree, [])
    assert without_younger("io.k8s.api.core.v1.Pod", tree, "1.25")[0] is tree


@pytest.mark.parametrize("release", RELEASES)
def test_what_stands_while_servers_run_stands_in_every_release(release: str) -> None:
    api = server(release)
    api.install_roles(0)
    api.install_server_objects(0, ["apiserver"])
    assert (
        ask(
            api,
            "GET",
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
        ).code
        == 200
    )
    flows = served(api, "flowcontrol.apiserver.k8s.io")
    assert bool(flows) is (release != "1.25")
    for version in flows:
        path = f"/apis/flowcontrol.apiserver.k8s.io/{version}/flowschemas/catch-all"
        assert ask(api, "GET", path).tree["apiVersion"].endswith(version)
