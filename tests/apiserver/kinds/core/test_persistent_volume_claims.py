"""Permitted changes of claims."""

from __future__ import annotations

from controlplane.apiserver.kinds.core.persistent_volume_claims import validate_claim_update


def test_a_claim_keeps_having_a_class_of_attributes() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    old = {"metadata": {"name": "c"}, "spec": {**spec, "volumeAttributesClassName": "a"},
           "status": {"phase": "Bound"}}  # fmt: skip
    new = {**old, "spec": {**spec, "volumeAttributesClassName": ""}}

    errors = validate_claim_update(new, old)

    assert [error.field for error in errors] == ["spec.volumeAttributesClassName"]
