"""Custom resources; replayed like `crud`, with the snapshot definitions in place."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.api.request import Request
from controlplane.apiserver.requests.server import ApiServer
from controlplane.scenarios.churns import storage_world as storage
from tests.golden.answer_crud import Replay, compare

__all__ = ["answer", "compare"]

Json = Any
_FIXTURE = Path(storage.__file__).with_name("snapshot_definitions.json.gz")


@cache
def _definitions() -> list[Json]:
    found: list[Json] = json.loads(gzip.decompress(_FIXTURE.read_bytes()))
    return found


def prepare(server: ApiServer, now: int) -> None:
    for crd in _definitions():
        request = Request(
            "create", "apiextensions.k8s.io", "v1", "customresourcedefinitions", body=crd
        )
        response = server.handle(request, now)
        assert response.ok, response.tree
    server.advance()


def answer(case_in: Json) -> Json:
    """The answers to the case's requests."""
    setup = prepare if case_in.get("fixture") == "snapshotter-crds" else None
    return Replay(case_in, setup).run()
