from __future__ import annotations

import pytest

from controlplane.api.object import Object
from controlplane.client.resources import JOBS, PODS
from controlplane.controllers.common.consistency import ConsistencyStore
from controlplane.controllers.common.controller import Caches
from controlplane.controllers.common.effects import Retry


def answer(version):
    return Object({"metadata": {"name": "a", "resourceVersion": str(version)}})


@pytest.fixture
def caches():
    found = Caches()
    found.of(PODS).resource_version = "7"
    found.of(JOBS).resource_version = "7"
    return found


def test_an_owner_waits_until_its_caches_show_what_was_written(caches):
    store = ConsistencyStore(caches)
    store.wrote("ns/a", "u1", PODS, answer(9))
    store.wrote("ns/a", "u1", PODS, answer(8))
    with pytest.raises(
        Retry, match="read version: 7 is not as new as written version: 9 for group"
    ):
        store.ensure_ready("ns/a")
    store.ensure_ready("ns/b")
    caches.of(PODS).resource_version = "9"
    store.ensure_ready("ns/a")
    caches.of(PODS).resource_version = "7"
    store.ensure_ready("ns/a")


def test_an_owner_with_another_uid_begins_anew(caches):
    store = ConsistencyStore(caches)
    store.wrote("ns/a", "u1", PODS, answer(9))
    store.wrote("ns/a", "u2", JOBS, answer(6))
    store.ensure_ready("ns/a")


def test_without_the_gate_nothing_is_waited_for(caches):
    store = ConsistencyStore(caches, enabled=False)
    store.wrote("ns/a", "u1", PODS, answer(9))
    store.ensure_ready("ns/a")


def test_a_record_of_another_uid_is_not_forgotten(caches):
    store = ConsistencyStore(caches)
    store.wrote("ns/a", "u2", PODS, answer(9))
    store.forget("ns/a", "u1")
    with pytest.raises(Retry):
        store.ensure_ready("ns/a")
    store.forget("ns/a")
    store.ensure_ready("ns/a")
