"""The content of a store's file as a text, for recordings: a replay goes on from the same objects and history."""

from __future__ import annotations

import base64
import zlib
from typing import Final

import msgpack

from controlplane.apiserver.storage.durable_store import DurableStore
from controlplane.apiserver.storage.store import Store
from controlplane.errors import UsageError

__all__ = ["restored", "state_of"]

LIMIT: Final = 1 << 30
"""The limit, in bytes, of a store that is read from a recording."""


def state_of(store: Store) -> str:
    """Return what a store's file held when it was opened; "" where that is not known any more, or there is no file."""
    rows = store.rows_when_opened() if isinstance(store, DurableStore) else None
    if rows is None:
        return ""
    assert isinstance(store, DurableStore)
    packed = msgpack.packb([store.opened, rows])
    return base64.b64encode(zlib.compress(packed)).decode()


def restored(text: str) -> DurableStore:
    """Return a store in memory that holds such a content. Raises UsageError for anything else."""
    try:
        engine = zlib.decompressobj()
        packed = engine.decompress(base64.b64decode(text, validate=True), LIMIT)
        if engine.unconsumed_tail:
            raise ValueError("too large")
        facts, rows = msgpack.unpackb(packed)
        numbers = {str(name): int(value) for name, value in facts.items()}
        content = [tuple(row) for row in rows]
    except (ValueError, TypeError, AttributeError, zlib.error, msgpack.UnpackException) as error:
        raise UsageError(
            f"damaged recording: the content of its store cannot be read: {error}"
        ) from error
    return DurableStore.in_memory(numbers, content)
