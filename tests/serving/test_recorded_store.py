"""A session over a store that has objects already: its recording holds them, and replays without the file."""

from __future__ import annotations

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.apiserver.storage.durable_store import DurableStore
from controlplane.apiserver.storage.store_state import restored, state_of
from controlplane.errors import UsageError
from controlplane.scenarios.search import replaying
from controlplane.serving.scenario import SCENARIO
from tests.apiserver.http.session import CONFIGMAPS, PODS, config, served
from tests.serving.test_nodes import until

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


async def session_over(store, name):
    options = {"nodes": 1, "controllers": "*", "keep": True, "store": f"sqlite:{store}"}
    async with served(Pacer(MAX), **options) as session:
        with trio.fail_after(120):
            while (
                await session.ask("POST", PODS, {**POD, "metadata": {"name": name}})
            ).code != 201:
                await trio.sleep(0.01)
        await until(session, f"{PODS}/{name}", lambda a: a.tree["status"]["phase"] == "Running")
        await session.ask("POST", CONFIGMAPS, config(name))
        listed = (await session.ask("GET", CONFIGMAPS)).tree["items"]
    session.serving.cluster.store.close()
    return session.serving, {each["metadata"]["name"] for each in listed}


@pytest.mark.slow
async def test_the_second_session_over_a_store_replays_without_it(tmp_path):
    store = tmp_path / "store.db"
    await session_over(store, "first")
    second, names = await session_over(store, "second")
    assert {"first", "second"} <= names
    for file in tmp_path.glob("store.db*"):
        file.unlink()
    second.save(tmp_path / "left")
    path = tmp_path / "left" / "run.rec"
    recording = replaying.load(path)
    plan = replaying.plan_of_recording(recording, path, SCENARIO)
    again = replaying.replayed(plan, recording)
    again.execute("bare")
    assert again.result.trace_hash == second.result.trace_hash
    assert again.cluster.dump() == second.cluster.dump()
    assert not store.exists()


def test_the_state_of_a_store_is_what_its_file_held_when_it_was_opened(tmp_path):
    from controlplane.api.object import Object

    def put(store, name, expected=0):
        tree = {"metadata": {"name": name, "namespace": "n"}}
        return store.keyspace("/registry/pods/").put(f"n/{name}", Object(tree), expected)

    first = DurableStore.open(tmp_path / "db")
    for name in ("a", "b", "c"):
        put(first, name)
    first.keyspace("/registry/pods/").delete("n/b")
    first.compact(3)
    first.close()
    store = DurableStore.open(tmp_path / "db")
    state = state_of(store)
    put(store, "later")
    assert state_of(store) == state
    again = restored(state)
    assert (again.revision, again.compacted, again.incarnation) == (5, 3, 2)
    assert sorted(again.keyspace("/registry/pods/").entries) == ["n/a", "n/c"]
    assert put(again, "later") == 6
    again.compact(6)
    store.compact(6)
    assert state_of(store) == ""
    store.close()


@pytest.mark.parametrize("text", ["!", "AAAA", "eJxLBAAAQgBC"])
def test_a_damaged_state_is_refused(text):
    with pytest.raises(UsageError, match="its store"):
        restored(text)
