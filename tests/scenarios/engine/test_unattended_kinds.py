"""A kind is only kept where neither a controller nor the scheduler acts on its objects."""

from __future__ import annotations

import pytest

from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.cluster import ClusterConfig
from controlplane.scenarios.engine.unattended_kinds import Attention, note_of_unasked


def is_kept(config: ClusterConfig, api_version: str, kind: str) -> bool:
    info = builtin_resources().by_kind(api_version, kind)
    assert info is not None
    return Attention.of(config).is_unattended(info)


@pytest.mark.parametrize(
    ("kind", "devices", "kept"),
    [
        ("ResourceClaim", False, True),
        ("ResourceClaim", True, False),
        ("ResourceSlice", True, False),
        ("ResourceClaimTemplate", True, True),
    ],
)
def test_claims_are_acted_on_by_a_scheduler_that_watches_devices(kind, devices, kept):
    config = ClusterConfig(controllers=False, devices=devices)
    assert is_kept(config, "resource.k8s.io/v1", kind) is kept


def test_a_workload_is_acted_on_by_its_controller():
    assert is_kept(ClusterConfig(controllers=False), "apps/v1", "Deployment")
    assert not is_kept(ClusterConfig(), "apps/v1", "Deployment")


def test_pod_templates_are_read_where_there_are_requests_for_capacity():
    from controlplane.autoscaler.provisioning.definition import provisioning_request_definition
    from controlplane.client.resources import CUSTOM_RESOURCE_DEFINITIONS

    assert is_kept(ClusterConfig(), "v1", "PodTemplate")
    installed = ((CUSTOM_RESOURCE_DEFINITIONS, provisioning_request_definition()),)
    assert not is_kept(ClusterConfig(installed=installed), "v1", "PodTemplate")


def test_objects_for_clients_are_told_where_no_client_comes():
    from controlplane.kwok.debugging import Debugging

    assert note_of_unasked(ClusterConfig()) == ""
    told = note_of_unasked(ClusterConfig(debugging=Debugging({"Logs": (), "Exec": ()})))
    assert told.endswith(": Exec (0), Logs (0)")
