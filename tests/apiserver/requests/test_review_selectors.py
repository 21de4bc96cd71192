"""Selectors of access reviews: their requirements are checked as those of a label selector are, but for operators."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import World

WHERE = {"group": "authorization.k8s.io", "version": "v1", "namespace": ""}


def review(**requirement: Any) -> Any:
    attributes = {
        "resource": "pods",
        "verb": "list",
        "labelSelector": {"requirements": [{"key": "a", **requirement}]},
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "u", "resourceAttributes": attributes},
    }
    return World().create("subjectaccessreviews", body, **WHERE)


@pytest.mark.parametrize("operator", ["In", "SomethingElse"])
def test_a_value_that_no_label_can_have_is_refused(operator: str) -> None:
    refused = review(operator=operator, values=["fine", "a=b"])
    assert refused.code == 422
    causes = [cause["field"] for cause in refused.tree["details"]["causes"]]
    assert causes == ["spec.resourceAttributes.labelSelector.requirements[0].values[1]"]


def test_an_unknown_operator_is_no_error() -> None:
    assert review(operator="SomethingElse", values=["fine"]).code == 201
