"""Stages are read strictly, with upstream's conversions."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.kwok.lifecycle import finalizer_patch
from controlplane.kwok.stages import Step, read


def stage(**spec):
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "s"},
        "spec": {"resourceRef": {"kind": "Pod"}, **spec},
    }


def test_the_old_form_becomes_steps():
    found = read(
        stage(next={"event": {"reason": "R"}, "statusTemplate": "phase: Running", "delete": True})
    )
    patch = {"root": "status", "subresource": "status", "template": "phase: Running"}
    assert found.steps == (Step(event={"reason": "R"}), Step(patch=patch), Step(delete=True))
    assert (found.api_version, found.selector) == ("v1", None)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"delays": {}}, "Stage s: spec.delays: no such field; known: resourceRef, "),
        ({"weight": "x"}, "Stage s: spec.weight: 'x': expected a whole number"),
        ({"resourceRef": {}}, "Stage s: spec.resourceRef.kind: None: expected a kind"),
        (
            {"steps": [{"patches": 1}]},
            "Stage s: spec.steps[0].patches: no such field; known: event",
        ),
    ],
)
def test_a_mistake_is_told_with_its_field(spec, told):
    with pytest.raises(UsageError) as refused:
        read(stage(**spec))
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("has", "wanted", "paths"),
    [
        (["a", "b"], {"remove": [{"value": "a"}]}, ["remove /metadata/finalizers/0"]),
        (["a", "b", "c"], {"remove": [{"value": "c"}, {"value": "a"}]},
         ["remove /metadata/finalizers/2", "remove /metadata/finalizers/0"]),
        (["a"], {"remove": [{"value": "a"}]}, ["remove /metadata/finalizers"]),
        (["a"], {"empty": True, "add": [{"value": "z"}]},
         ["remove /metadata/finalizers", "add /metadata/finalizers"]),
        (["a"], {"add": [{"value": "a"}, {"value": "b"}]}, ["add /metadata/finalizers/-"]),
        ([], {"remove": [{"value": "a"}]}, []),
    ],
)  # fmt: skip
def test_finalizers_are_changed_by_index(has, wanted, paths):
    assert [f"{each['op']} {each['path']}" for each in finalizer_patch(has, wanted)] == paths
