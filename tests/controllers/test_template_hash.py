from __future__ import annotations

import pytest

from controlplane.apiserver.kinds.apps.deployments import default_deployment
from controlplane.controllers.common.go_types import structs
from controlplane.controllers.common.template_hash import (
    dump,
    fnv1a_32,
    safe_encode,
    template_hash,
)


def template(image: str, **more) -> dict:
    spec = {
        "automountServiceAccountToken": False,
        "containers": [{"image": image, "name": "c"}],
        "terminationGracePeriodSeconds": 1,
    }
    tree = {"spec": {"template": {"metadata": {"labels": {"app": "web"}, **more}, "spec": spec}}}
    found: dict = default_deployment(tree)["spec"]["template"]
    return found


@pytest.mark.parametrize(
    ("image", "expected"),
    [("nginx:1.25", "86cd6db9b9"), ("nginx:2", "c855f467"), ("nginx:3", "844b5d6d96")],
)
def test_hashes_are_those_of_a_real_controller(image, expected):
    assert template_hash(template(image), None) == expected


def test_annotations_count():
    tree = template("bad", annotations={"fake/ready": "false"})
    tree["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    assert template_hash(tree, None) == "7b6bdf8745"


def test_a_collision_count_makes_another_hash():
    tree = template("nginx:1.25")
    assert len({template_hash(tree, count) for count in (None, 0, 1, 2)}) == 4


def test_fnv_and_safe_alphabet():
    assert fnv1a_32(b"") == 0x811C9DC5
    assert fnv1a_32(b"foobar") == 0xBF9CF968
    assert safe_encode("0123456789") == "456789bcdf"


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("*bool", None, "(*bool)<nil>"),
        ("*bool", True, "(*bool)true"),
        ("[]string", [], "([]string)<nil>"),
        ("[]int64", [1, 2], "([]int64)[1 2]"),
        ("map[string]string", {"b": "2", "a": "1"}, "(map[string]string)map[a:1 b:2]"),
        ("*v1.PodOS", {"name": "linux"}, "(*v1.PodOS){Name:(v1.OSName)linux}"),
        ("[]v1.HTTPHeader", [{"name": "a"}], "([]v1.HTTPHeader)[{Name:(string)a Value:(string)}]"),
        (
            "intstr.IntOrString",
            "http",
            "(intstr.IntOrString){Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)http}",
        ),
        (
            "*v1.ConfigMapEnvSource",
            {"name": "m"},
            "(*v1.ConfigMapEnvSource){LocalObjectReference:(v1.LocalObjectReference){Name:(string)m}"
            " Optional:(*bool)<nil>}",
        ),
    ],
)
def test_values_are_shown_as_go_values(kind, value, expected):
    assert dump(kind, value) == expected


@pytest.mark.parametrize(
    ("text", "amount", "kept"),
    [("100m", "value:(int64)100 scale:(resource.Scale)-3", "100m"),
     ("1Gi", "value:(int64)1073741824 scale:(resource.Scale)0", "1Gi"),
     ("8Mi", "value:(int64)8388608 scale:(resource.Scale)0", ""),
     ("2k", "value:(int64)2 scale:(resource.Scale)3", "2k"),
     ("100Ti", "value:(int64)0 scale:(resource.Scale)0", "")],
)  # fmt: skip
def test_quantities_are_shown_as_parsed(text, amount, kept):
    shown = dump("resource.Quantity", text)
    assert amount in shown
    assert f"s:(string){kept} Format" in shown


def test_every_struct_that_a_template_can_hold_is_known():
    known = structs()
    elsewhere = {"v1.EphemeralContainer", "v1.ManagedFieldsEntry", "v1.ResourceList", "v1.Time"}
    for fields in known.values():
        for field in fields:
            kind = field.type.removeprefix("*").removeprefix("[]")
            if kind.startswith("v1.") and kind not in elsewhere and field.type[0] in "*[":
                name = kind.removeprefix("v1.")
                assert name in known or _is_text(name), kind


def _is_text(name: str) -> bool:
    """Named string types have no fields."""
    ends = ("Policy", "Mode", "Type", "Kind", "Signal", "Capability", "Name")
    return name.endswith(ends)
