"""A disk without room at the start of a session."""

from __future__ import annotations

import pytest

from controlplane.apiserver.storage.durable_store import DurableStore
from controlplane.cluster import ClusterConfig
from controlplane.errors import UsageError
from controlplane.serving import scenario


def test_a_full_disk_at_the_start_is_one_line_and_the_store_opens_again(tmp_path):
    path = tmp_path / "store.db"
    store = DurableStore.open(path)
    store._base.execute("PRAGMA max_page_count = 12")  # as a full disk: SQLITE_FULL
    with pytest.raises(UsageError, match=r"store\.db: the disk is full"):
        scenario.make(ClusterConfig(store=store))
    again = DurableStore.open(path)
    again.close()
