"""Permitted changes of claims."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.core.persistent_volume_claims import validate_claim_update

NOTED = "volume.beta.kubernetes.io/storage-class"


def claim(phase: str = "Bound", *, size: str = "1Gi", noted: str | None = None, **spec: Any) -> Any:
    annotations = {} if noted is None else {NOTED: noted}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {
        "metadata": {"name": "c", "annotations": annotations},
        "spec": {**wanted, **spec},
        "status": {"phase": phase},
    }


def fields(new: Any, old: Any) -> list[str]:
    return [error.field for error in validate_claim_update(new, old)]


@pytest.mark.parametrize("applied", [None, "a"])
def test_a_class_of_attributes_that_is_applied_is_not_removed(applied: str | None) -> None:
    old, new = (claim(volumeAttributesClassName=name) for name in ("a", ""))
    if applied is not None:
        old["status"]["currentVolumeAttributesClassName"] = applied
    assert fields(new, old) == ([] if applied is None else ["spec.volumeAttributesClassName"])


def test_a_bound_claim_changes_its_size_and_no_other_request() -> None:
    old = claim()
    assert fields(claim(size="2Gi"), old) == []
    other = claim(resources={"requests": {"storage": "1Gi", "x.io/y": "1"}})
    assert fields(other, old) == ["spec"]
    assert fields(claim("Pending", size="2Gi"), claim("Pending")) == ["spec"]


def test_the_class_of_an_annotation_becomes_the_class_of_the_spec() -> None:
    old = claim(noted="fast")
    assert fields(claim(noted="fast", storageClassName="fast"), old) == []
    assert fields(claim(storageClassName="fast"), old) == []
    assert fields(claim(noted="fast", storageClassName="slow"), old) == ["spec"]
    assert fields(claim(noted="slow"), old) == [f"metadata.annotations.{NOTED}"]


def test_a_claim_without_a_class_takes_one() -> None:
    assert fields(claim(storageClassName="fast"), claim()) == []
    assert fields(claim(storageClassName="fast"), claim(storageClassName="slow")) == ["spec"]
