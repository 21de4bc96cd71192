from __future__ import annotations

from controlplane.kueue.names import ALLOWED_FLAVORS, API_VERSION
from controlplane.kueue.workload.variants import (
    allowed_flavors,
    is_variant,
    parent_uid,
    variant_flavor,
)


def tree(allowed=None, **owner):
    metadata = {"name": "a"}
    if allowed is not None:
        metadata["annotations"] = {ALLOWED_FLAVORS: allowed}
    if owner:
        metadata["ownerReferences"] = [owner]
    return {"metadata": metadata}


def test_a_variant_belongs_to_another_workload() -> None:
    variant = tree(kind="Workload", apiVersion=API_VERSION, name="p", uid="u")
    assert is_variant(variant)
    assert parent_uid(variant) == "u"
    assert not is_variant(tree(kind="Job", apiVersion="batch/v1", name="p", uid="u"))


def test_allowed_flavors_are_a_list_of_names() -> None:
    assert allowed_flavors(tree()) is None
    assert allowed_flavors(tree(" ")) == []
    assert allowed_flavors(tree("spot, on-demand")) == ["spot", "on-demand"]
    assert variant_flavor(tree("spot, on-demand")) == "spot"
