"""Warnings for services."""

from __future__ import annotations

import pytest

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.services import service_warnings


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "ClusterIP", "clusterIP": "None", "externalIPs": ["1.2.3.4"],
          "sessionAffinity": "ClientIP"},
         ["spec.externalIPs is ignored for headless services",
          "spec.SessionAffinity is ignored for headless services"]),
        ({"type": "ExternalName", "externalName": "a", "externalIPs": ["1.2.3.4"]},
         ['spec.externalIPs is ignored when spec.type is "ExternalName"']),
    ],
)  # fmt: skip
def test_a_service_is_warned_of_what_is_ignored(spec: Tree, expected: list[str]) -> None:
    assert service_warnings({"metadata": {}, "spec": spec}) == expected
