"""The store in a file: creates that are durable one by one or in groups, and reading it back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import Row, rate
from controlplane.api import identity
from controlplane.api.request import Request
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.storage.durable_store import DurableStore
from controlplane.apiserver.storage.store import Store
from controlplane.cluster import DISABLED_ADMISSION, EPOCH_NS
from controlplane.scenarios.workloads import pod

COUNT = 3000
READ_BACK = 20_000


def _create(store: Store, count: int, every: int) -> int:
    """Create pods, committing after `every` of them."""
    serials = iter(range(1, 1 << 30))
    server = ApiServer(
        store,
        uid=lambda: identity.uid(next(serials)),
        suffix=lambda: identity.suffix(next(serials)),
        options=ServerOptions(disabled=DISABLED_ADMISSION),
    )
    server.bootstrap(EPOCH_NS)
    for number in range(count):
        body = pod(f"pod-{number}", "100m")
        answer = server.handle(
            Request("create", resource="pods", namespace="default", body=body), EPOCH_NS
        )
        assert answer.ok
        if number % every == 0:
            store.commit()
    store.close()
    return count


def _into_a_file(grouped: bool, every: int) -> Callable[[], int]:
    def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            store = DurableStore.open(Path(folder, "store.db"), grouped=grouped)
            return _create(store, COUNT, every)

    return work


def rows(repeat: int) -> Iterator[Row]:
    yield rate("pod create, store in memory", "creates/s", repeat,
               lambda: _create(Store(), COUNT, 1))  # fmt: skip
    yield rate("pod create, store in a file", "creates/s", repeat, _into_a_file(False, 1))
    yield rate("pod create, file, 8 to a commit", "creates/s", repeat, _into_a_file(True, 8))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        _create(DurableStore.open(path, grouped=True), READ_BACK, READ_BACK)

        def reopen() -> int:
            store = DurableStore.open(path)
            store.close()
            return READ_BACK

        yield rate("store read back from its file", "objects/s", repeat, reopen)
