"""What a server of an earlier release serves: resources, versions and fields."""

from __future__ import annotations

import json
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


# -- 1.32 to 1.36 --------------------------------------------------------------------------------

RECENT = ("1.32", "1.33", "1.34", "1.35", "1.36")


def pod(**spec: Any) -> Any:
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": containers, **spec},
    }


def claim(**spec: Any) -> Any:
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a"},
        "spec": {**given, **spec},
    }


def autoscaler() -> Any:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    rules = {"tolerance": "50m"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": target, "behavior": {"scaleUp": rules}},
    }


def value_at(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


SETS: Any = {"supplementalGroupsPolicy": "Strict", "seLinuxChangePolicy": "Recursive"}
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
DRIVER: Any = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": "d"},
    "spec": {"nodeAllocatableUpdatePeriodSeconds": 30},
}


@pytest.mark.parametrize("release", RECENT)
@pytest.mark.parametrize(
    ("where", "body", "field", "known", "kept"),
    [
        (PODS, pod(hostUsers=True), "spec.hostUsers", "1.32", "1.33"),
        (PODS, pod(securityContext=SETS), "spec.securityContext.seLinuxChangePolicy", "1.32", "1.33"),
        (PODS, pod(securityContext=SETS), "spec.securityContext.supplementalGroupsPolicy", "1.32", "1.33"),
        (PODS, pod(resources={"requests": {"cpu": "1"}}), "spec.resources", "1.32", "1.34"),
        (PODS, pod(hostnameOverride="h"), "spec.hostnameOverride", "1.34", "1.35"),
        (CLAIMS, claim(volumeAttributesClassName="x"), "spec.volumeAttributesClassName", "1.32", "1.34"),
        (SCALERS, autoscaler(), "spec.behavior.scaleUp.tolerance", "1.33", "1.35"),
        (DRIVERS, DRIVER, "spec.nodeAllocatableUpdatePeriodSeconds", "1.33", "1.35"),
    ],
)  # fmt: skip
def test_a_field_is_unknown_then_dropped_then_kept(
    release: str, where: str, body: Any, field: str, known: str, kept: str
) -> None:
    made = ask(server(release), "POST", where, json.dumps(body).encode())
    assert made.code == 201, made.tree
    unknown = [text for text in made.headers.get("Warning", ()) if "unknown field" in text]
    assert bool(unknown) is (release < known)
    assert (value_at(made.tree, field) is not None) is (release >= kept)


@pytest.mark.parametrize("release", RECENT)
def test_a_dropped_field_is_no_error_in_strict_mode(release: str) -> None:
    api = server(release)
    body = json.dumps(pod(resources={"requests": {"cpu": "1"}})).encode()
    made = ask(api, "POST", PODS, body, fieldValidation="Strict")
    assert made.code == 201
    dropped = "resources" not in made.tree["spec"]
    assert dropped is (release < "1.34")


@pytest.mark.parametrize("release", RECENT)
def test_templates_of_workloads_lose_what_pods_lose(release: str) -> None:
    volumes = [{"name": "v", "image": {"reference": "r"}}]
    labels = {"app": "a"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod(volumes=volumes)["spec"]},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    made = ask(server(release), "POST", path, json.dumps(body).encode())
    assert made.code == 201
    assert ("volumes" in made.tree["spec"]["template"]["spec"]) is (release >= "1.35")


@pytest.mark.parametrize("release", RECENT)
def test_status_writers_cannot_set_what_the_release_has_off(release: str) -> None:
    api = server(release)
    ask(api, "POST", PODS, json.dumps(pod()).encode())
    body = {**pod(), "status": {"observedGeneration": 1, "phase": "Pending"}}
    found = ask(api, "PUT", f"{PODS}/a/status", json.dumps(body).encode())
    assert found.code == 200
    assert ("observedGeneration" in found.tree["status"]) is (release >= "1.34")


@pytest.mark.parametrize("release", RECENT)
def test_pods_have_a_generation_from_1_33_on(release: str) -> None:
    api = server(release)
    assert (
        "generation" in ask(api, "POST", PODS, json.dumps(pod()).encode()).tree["metadata"]
    ) is (release >= "1.33")
    changed = pod(activeDeadlineSeconds=5)
    found = ask(api, "PUT", f"{PODS}/a", json.dumps(changed).encode())
    assert found.code == 200
    assert found.tree["metadata"].get("generation") == (2 if release >= "1.33" else None)


@pytest.mark.parametrize("release", RECENT)
def test_endpoints_are_deprecated_from_1_33_on(release: str) -> None:
    path = "/api/v1/namespaces/default/endpoints"
    body = b'{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"a"}}'
    api = server(release)
    for found in (
        ask(api, "POST", path, body),
        ask(api, "GET", path),
        ask(api, "DELETE", f"{path}/a"),
    ):
        assert ("Warning" in found.headers) is (release >= "1.33")


@pytest.mark.parametrize("release", RECENT)
def test_drivers_are_asked_for_tokens_in_secrets_from_1_35_on(release: str) -> None:
    driver = {**DRIVER, "spec": {"tokenRequests": [{"audience": "a"}]}}
    made = ask(server(release), "POST", DRIVERS, json.dumps(driver).encode())
    assert ("Warning" in made.headers) is (release >= "1.35")


@pytest.mark.parametrize("release", RECENT)
def test_the_version_says_from_1_33_on_what_is_emulated(release: str) -> None:
    found = ask(server(release), "GET", "/version").tree
    minor = release.partition(".")[2]
    before = str(int(minor) - 1)
    expected = (minor, before) if release >= "1.33" else (None, None)
    assert (found.get("emulationMinor"), found.get("minCompatibilityMinor")) == expected


SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SLICE: Any = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.io",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "x",
                "allowMultipleAllocations": True,
                "bindingConditions": ["a"],
                "bindingFailureConditions": ["b"],
                "taints": [{"key": "k", "effect": "NoSchedule"}],
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("release", "code"), [("1.33", 404), ("1.34", 201), ("1.35", 201), ("1.36", 201)]
)
def test_devices_lose_what_gates_of_1_36_bring(release: str, code: int) -> None:
    made = ask(server(release), "POST", SLICES, json.dumps(SLICE).encode())
    assert made.code == code
    if code == 201:
        kept = set(made.tree["spec"]["devices"][0]) - {"name"}
        assert bool(kept) is (release == "1.36")


@pytest.mark.parametrize("release", RECENT)
def test_the_published_schemas_have_the_fields_and_types_of_the_release(release: str) -> None:
    api = server(release)
    third = ask(api, "GET", "/openapi/v3/api/v1").tree["components"]["schemas"]
    second = ask(api, "GET", "/openapi/v2").tree["definitions"]
    for schemas in (third, second):
        fields = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]
        assert "resources" in fields  # its gate is off in 1.32, which knows it
        assert ("hostnameOverride" in fields) is (release >= "1.34")
        assert ("schedulingGroup" in fields) is (release >= "1.36")
        assert ("io.k8s.api.core.v1.FileKeySelector" in schemas) is (release >= "1.34")
    assert ("io.k8s.api.resource.v1.ResourceSlice" in second) is (release >= "1.34")
    paths = json.loads(ask(api, "GET", "/openapi/v3").text or "")["paths"]
    assert ("apis/resource.k8s.io/v1" in paths) is (release >= "1.34")
    assert "apis/apps/v1" in paths


SERVICES = "/api/v1/namespaces/default/services"


def service(name: str = "a", **spec: Any) -> bytes:
    given = {"ports": [{"port": 80}], **spec}
    tree = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": given}
    return json.dumps(tree).encode()


@pytest.mark.parametrize("release", RECENT)
def test_names_of_services_may_begin_with_a_digit_from_1_36_on(release: str) -> None:
    made = ask(server(release), "POST", SERVICES, service("1a"))
    assert made.code == (201 if release >= "1.36" else 422)
    if made.code == 422:
        assert "a DNS-1035 label must consist of" in made.tree["message"]
    assert ask(server(release), "POST", SERVICES, service("a1")).code == 201


@pytest.mark.parametrize("release", RECENT)
def test_traffic_is_distributed_by_zone_and_node_from_1_34_on(release: str) -> None:
    api = server(release)
    made = ask(api, "POST", SERVICES, service(trafficDistribution="PreferSameNode"))
    assert made.code == (201 if release >= "1.34" else 422)
    if made.code == 422:
        assert made.tree["message"].endswith('"PreferSameNode": supported values: "PreferClose"')
    wrong = ask(api, "POST", SERVICES, service("b", trafficDistribution="Other"))
    assert wrong.code == 422
    assert len(wrong.tree["details"]["causes"]) == 1
    assert ask(api, "POST", SERVICES, service("c", trafficDistribution="PreferClose")).code == 201


@pytest.mark.parametrize("release", RECENT)
def test_external_addresses_are_deprecated_from_1_36_on(release: str) -> None:
    made = ask(server(release), "POST", SERVICES, service(externalIPs=["192.0.2.1"]))
    assert made.code == 201
    assert ("Warning" in made.headers) is (release >= "1.36")
