"""Custom kinds by their names in events."""

from __future__ import annotations

import pytest

from controlplane.client.resources import Resource
from controlplane.scheduler.framework.custom import NO_OBJECTS, CustomKind, resource_of_event

WIDGETS: Resource = Resource("example.com", "v1beta1", "widgets")


def test_the_name_in_events_leads_back_to_the_resource():
    name = CustomKind("Widget", WIDGETS).event
    assert name == "widgets.v1beta1.example.com"
    assert resource_of_event(name) == WIDGETS


@pytest.mark.parametrize(
    "name", ["Pod", "*", "storage.k8s.io/CSINode", "resource.k8s.io/ResourceClaim", "foos.v1"]
)
def test_kinds_of_kubernetes_are_none(name):
    assert resource_of_event(name) is None


def test_without_caches_there_are_no_objects():
    assert NO_OBJECTS.get("Widget", "default", "one") is None
    assert list(NO_OBJECTS.list("Widget")) == []
