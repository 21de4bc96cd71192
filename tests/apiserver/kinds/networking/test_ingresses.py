"""Ingresses that name their class by the annotation which came before the field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import World

GROUP = {"group": "networking.k8s.io"}
ANNOTATION = "kubernetes.io/ingress.class"
WARNING = f"annotation \"{ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"


def ingress(annotation: str | None, named: str | None) -> dict[str, Any]:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    meta = {"name": "i", "annotations": {} if annotation is None else {ANNOTATION: annotation}}
    spec = {"defaultBackend": backend} | ({} if named is None else {"ingressClassName": named})
    return {"metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("annotation", "named", "code", "warnings"),
    [
        (None, "a", 201, []),
        ("a", "a", 201, []),
        ("a", None, 201, [WARNING]),
        ("b", "a", 422, []),
    ],
)
def test_a_new_ingress_names_one_class(
    annotation: str | None, named: str | None, code: int, warnings: list[str]
) -> None:
    answer = World().create("ingresses", ingress(annotation, named), **GROUP)
    assert (answer.code, answer.warnings) == (code, warnings)
    if code != 201:
        (cause,) = answer.tree["details"]["causes"]
        assert cause["field"] == f"annotations.{ANNOTATION}"


def test_an_annotation_may_come_to_differ() -> None:
    world = World()
    world.create("ingresses", ingress("a", "a"), **GROUP)
    answer = world.do("update", "ingresses", "i", ingress("b", "a"), **GROUP)
    assert (answer.code, answer.warnings) == (200, [])
