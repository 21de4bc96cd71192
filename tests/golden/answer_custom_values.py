"""Values against schemas of custom resources: what is pruned and defaulted, and the errors of creations and updates.

`in`: `schema`, `value`, for updates `old`, and `op`: `check`, `update` or `read`. `want`: the sorted errors as
[type, field, text], or for `read` the value as it is kept and the sorted paths of unknown fields. Schemas and values
are generated; the answers are those of apiextensions-apiserver 1.36.2.
"""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.custom.correlation import Correlated
from controlplane.apiserver.kinds.custom.embedded_resources import (
    InvalidEmbeddedError,
    coerced,
    embedded_places,
    validate_embedded,
)
from controlplane.apiserver.kinds.custom.schemas import defaulted, pruned, without_nulls
from controlplane.apiserver.kinds.custom.validation import check_lists, validate
from controlplane.apiserver.schema.go_json import parse_json

__all__ = ["answer"]

Json = Any


def answer(case_in: Json) -> Json:
    """Our value for `want`."""
    given = parse_json(case_in["text"].encode())
    schema, value = given["schema"], given["value"]
    places = embedded_places(schema)
    if given["op"] == "read":
        return _read(schema, value, places)
    correlated = Correlated(value, given["old"], schema) if "old" in given else None
    errors = validate(value, schema, correlated=correlated)
    errors += validate_embedded(value, schema, places)
    errors += check_lists(value, schema)
    return sorted(
        [error.reason.removeprefix("FieldValue"), error.field, error.body] for error in errors
    )


def _read(schema: Json, value: Json, places: frozenset[int]) -> Json:
    unknown: list[str] = []
    kept = without_nulls(pruned(value, schema, "", unknown, root=True), schema)
    try:
        kept = defaulted(coerced(kept, schema, places, unknown), schema)
    except InvalidEmbeddedError as problem:
        return {"error": str(problem.error)}
    return {"value": kept, "unknown": sorted(unknown)}
