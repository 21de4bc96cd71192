"""What documents say of types and fields, for `kubectl explain`."""

import subprocess
import sys

import pytest

from controlplane.apiserver.front import openapi
from controlplane.apiserver.schema import descriptions
from controlplane.apiserver.schema.types import load_data
from tests.apiserver.world import World

COMMON = (
    "Pod Deployment ReplicaSet StatefulSet DaemonSet Job CronJob Service ConfigMap Secret Namespace "
    "Node PersistentVolume PersistentVolumeClaim StorageClass Ingress ServiceAccount Role "
    "RoleBinding ClusterRole ClusterRoleBinding HorizontalPodAutoscaler PodDisruptionBudget "
    "NetworkPolicy EndpointSlice Lease PriorityClass ResourceQuota LimitRange Event Endpoints"
).split()


def types():
    return load_data("types")["types"]


def common_types():
    found: dict[str, None] = {}
    for name, declared in types().items():
        if any(each["kind"] in COMMON for each in declared.get("gvk", ())):
            openapi.used(name, found)
    return [name for name in found if ".v1beta" not in name and ".v1alpha" not in name]


def test_every_field_of_the_common_kinds_has_words_of_its_own():
    texts = descriptions._texts()
    bare = []
    for name in common_types():
        short = name.rpartition(".")[2]
        fields = types()[name].get("fields", {})
        bare += [
            f"{short}.{field}"
            for field in fields
            if f"{short}.{field}" not in texts and field not in texts
        ]
    assert bare == []
    assert all(kind in texts for kind in COMMON)


def test_texts_name_only_what_there_is_and_are_sentences():
    known = {name.rpartition(".")[2]: declared for name, declared in types().items()}
    fields = {field for declared in types().values() for field in declared.get("fields", ())}
    pairs = {
        f"{name.rpartition('.')[2]}.{field}"
        for name, declared in types().items()
        for field in declared.get("fields", ())
    }
    for name, text in descriptions._texts().items():
        assert name in known or name in fields or name in pairs, name
        assert (text[0].isupper()) and text.endswith((".", ".)")), name


@pytest.mark.parametrize(
    ("name", "field", "declared", "text"),
    [
        ("x.FooSpec", "apiServerID", "string", "The api server ID."),
        ("x.FooSpec", "widgetRef", "x.Ref", "Names the widget."),
        ("x.FooSpec", "drainSeconds", "integer", "The drain, in seconds."),
        ("x.FooSpec", "adminAccess", "boolean", "Whether: admin access."),
    ],
)
def test_other_fields_are_described_by_rules(name, field, declared, text):
    assert descriptions.field_text(name, field, declared) == text


def test_documents_carry_them_in_both_versions():
    server = World().server
    pod = "io.k8s.api.core.v1.PodSpec"

    class Served:
        table, build, earlier = server.table, {"gitVersion": "v1.36.2"}, ""

    schemas = openapi.document(Served(), "", "v1")["components"]["schemas"]
    assert schemas[pod]["properties"]["containers"]["description"] == (
        "The containers of the pod; at least one."
    )
    assert schemas[pod]["description"] and schemas[pod]["properties"]["affinity"]["allOf"]
    old = openapi.schema(pod, "#/definitions/", old=True)["properties"]["affinity"]
    assert set(old) == {"$ref", "description"}


@pytest.mark.slow
def test_they_are_read_only_when_a_document_is_asked_for():
    code = (
        "import controlplane.apiserver.front.answering\n"
        "from controlplane.apiserver.schema import descriptions\n"
        "print(descriptions._texts.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
