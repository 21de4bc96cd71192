"""How refusals quote objects: in upstream's internal form."""

from __future__ import annotations

import pytest

from controlplane.apiserver.schema.internal_form import internal
from controlplane.apiserver.schema.internal_types import INTERNAL_TYPES


@pytest.mark.parametrize("kind", sorted(INTERNAL_TYPES))
def test_every_type_prints_from_nothing(kind: str) -> None:
    """Each entry of the table is well formed and refers to types that are there."""
    shown = internal(kind, {})
    assert list(shown) == [
        entry.partition(":")[0].partition("=")[0] for entry in INTERNAL_TYPES[kind].split()
    ]


def test_sources_of_volumes_have_the_names_of_go_fields() -> None:
    shown = internal("VolumeSource", {"azureDisk": {"diskName": "d", "diskURI": "u"}})
    assert shown["AzureDisk"] == {
        "DiskName": "d",
        "DataDiskURI": "u",
        "CachingMode": None,
        "FSType": None,
        "ReadOnly": None,
        "Kind": None,
    }


def test_secrets_of_persistent_volumes_have_a_namespace() -> None:
    ref = {"secretRef": {"name": "s"}}
    assert internal("PersistentRBD", ref)["SecretRef"] == {"Name": "s", "Namespace": ""}
    assert internal("RBD", ref)["SecretRef"] == {"Name": "s"}


def test_a_list_written_without_items_is_not_none() -> None:
    spec = {"containers": [{"name": "c"}]}
    written = {"containers": [{"name": "c", "env": [], "command": []}], "tolerations": []}
    shown = internal("PodSpec", spec, written)
    (container,) = shown["Containers"]
    assert (container["Env"], container["Command"], container["Args"]) == ([], [], None)
    assert (shown["Tolerations"], shown["Volumes"]) == ([], None)


def test_selectors_print_as_they_are_sent() -> None:
    shown = internal(
        "ClaimSpec", {"selector": {"matchExpressions": [{"operator": "In", "key": "a"}]}}
    )
    assert list(shown["Selector"]["matchExpressions"][0]) == ["key", "operator"]
