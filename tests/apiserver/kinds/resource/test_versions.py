from __future__ import annotations

from controlplane.apiserver.kinds.resource.versions import from_beta1, to_beta1


def test_a_flat_request_is_an_exact_one() -> None:
    flat = {"name": "r", "deviceClassName": "c", "allocationMode": "All"}
    beta = {"spec": {"devices": {"requests": [flat]}}}
    made = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {**flat}}]}}}
    del made["spec"]["devices"]["requests"][0]["exactly"]["name"]
    assert from_beta1("ResourceClaim", beta) == made
    assert to_beta1("ResourceClaim", made) == beta
    assert from_beta1("ResourceClaimTemplate", {"spec": beta}) == {"spec": made}
    assert to_beta1("ResourceClaimTemplate", {"spec": made}) == {"spec": beta}


def test_a_request_without_fields_of_its_own_stays_without_exactly() -> None:
    request = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}
    beta = {"spec": {"devices": {"requests": [{**request, "deviceClassName": ""}]}}}
    made = from_beta1("ResourceClaim", beta)
    assert made == {"spec": {"devices": {"requests": [request]}}}
    assert to_beta1("ResourceClaim", made) == beta


def test_devices_are_wrapped_and_empty_placements_are_missing_ones() -> None:
    device = {"name": "d", "basic": {"attributes": {"a": {"int": 1}}}}
    beta = {"spec": {"driver": "x", "nodeName": "", "allNodes": False, "devices": [device]}}
    made = from_beta1("ResourceSlice", beta)
    assert made == {
        "spec": {"driver": "x", "devices": [{"name": "d", "attributes": {"a": {"int": 1}}}]}
    }
    assert to_beta1("ResourceSlice", made) == {"spec": {"driver": "x", "devices": [device]}}


def test_classes_are_the_same_in_all_versions() -> None:
    tree = {"spec": {"selectors": []}}
    assert from_beta1("DeviceClass", tree) is tree
    assert to_beta1("DeviceClass", tree) is tree
