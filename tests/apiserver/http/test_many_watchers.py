"""A thousand idle watchers and one busy writer: the server goes on answering."""

import resource
from contextlib import asynccontextmanager

import pytest
import trio

from controlplane.apiserver.loops.http_host import Limits
from tests.apiserver.http.session import CONFIGMAPS, Lines, config, request, served, watching

QUICK = Limits(linger_s=0.05)
WATCHERS = 1000
WRITES = 300


@asynccontextmanager
async def watches(session, path, count):
    """So many connections, each with a watch that has begun."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 200  # both ends are in this process
    if 0 <= soft < wanted:
        if 0 <= hard < wanted:
            pytest.skip(f"needs {wanted} open files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    streams = []
    try:
        lines = []
        for _ in range(count):
            streams.append(await session.connect())
            await streams[-1].send_all(request("GET", path))
            lines.append(await Lines(streams[-1]).start())
            assert lines[-1].head.startswith(b"HTTP/1.1 200 ")
        yield lines
    finally:
        for stream in streams:
            await trio.aclose_forcefully(stream)


@pytest.mark.slow
async def test_idle_watchers_do_not_keep_the_server_from_answering():
    path = "/api/v1/namespaces/kube-system/pods?watch=true"
    async with served(limits=QUICK) as session, watches(session, path, WATCHERS) as idle:
        answered = 0
        done = trio.Event()

        async def write():
            for number in range(WRITES):
                found = await session.ask("POST", CONFIGMAPS, config(f"c{number}"))
                assert found.code == 201
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            while not done.is_set():
                assert (await session.ask("GET", "/api/v1/namespaces/default")).code == 200
                answered += 1
        assert answered > WRITES // 2, "requests answered beside the writes"
        with trio.move_on_after(0.2):
            raise AssertionError(await idle[0].next())


@pytest.mark.slow
async def test_every_watcher_hears_of_every_write_in_order():
    path = f"{CONFIGMAPS}?watch=true"
    async with served(limits=QUICK) as session, watches(session, path, 300) as busy:
        names = [f"c{number:03}" for number in range(50)]
        for name in names:
            assert (await session.ask("POST", CONFIGMAPS, config(name, x="y" * 5000))).code == 201
        with trio.fail_after(120):
            for lines in busy[::29]:
                seen = [(await lines.next())["object"]["metadata"]["name"] for _ in names]
                assert seen == names


async def test_a_slow_watcher_gets_everything_that_it_has_room_for():
    """What the socket does not take at once goes later, in order, and nothing is lost or doubled."""
    path = f"{CONFIGMAPS}?watch=true"
    async with served(limits=QUICK) as session, watching(session, path) as slow:
        names = [f"c{number:03}" for number in range(250)]

        async def write(some):
            for name in some:
                found = await session.ask("POST", CONFIGMAPS, config(name, x="y" * 15_000))
                assert found.code == 201

        async with trio.open_nursery() as nursery:
            for first in range(5):
                nursery.start_soon(write, names[first::5])
        seen, versions = [], []
        with trio.fail_after(120):
            while len(seen) < len(names):
                meta = (await slow.next())["object"]["metadata"]
                seen.append(meta["name"])
                versions.append(int(meta["resourceVersion"]))
        assert sorted(seen) == names
        assert versions == sorted(versions)
