"""Logs of emulated containers over HTTP: their options, and following to the end."""

import trio

from tests.apiserver.http.session import Answer, request, served

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "annotations": {
            "emulate.controlplane/log": "line {n}",
            "emulate.controlplane/log-seconds": "1",
            "emulate.controlplane/run-seconds": "9",
        },
    },
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b"}]},
}
PODS = "/api/v1/namespaces/default/pods"


async def test_a_log_is_followed_until_its_container_ends_and_read_in_parts_afterwards():
    async with served(nodes=1, controllers="*") as session:
        session.pace.set_speed(100)
        with trio.fail_after(120):
            while (await session.ask("POST", PODS, POD)).code != 201:
                await trio.sleep(0.01)  # until its account is there
            while (await session.ask("GET", f"{PODS}/p/log")).code != 200:
                await trio.sleep(0.01)
            raw = await session.raw(
                request("GET", f"{PODS}/p/log?follow=true", Connection="close"), seconds=15
            )
        lines = Answer(raw).body.decode().splitlines()
        assert lines[0] == "container c started"
        assert lines[1:-1] == [f"line {n}" for n in range(1, len(lines) - 1)]
        assert lines[-1] == "container c ended with exit code 0"

        async def log(query):
            return (await session.ask("GET", f"{PODS}/p/log?{query}")).body.decode()

        assert (await log("")).splitlines() == lines
        assert (await log("tailLines=2")).splitlines() == lines[-2:]
        assert (await log("limitBytes=9")) == "container"
        dated = (await log("timestamps=true&tailLines=1")).strip()
        stamp, _, text = dated.partition(" ")
        assert text == lines[-1]
        assert (await log(f"sinceTime={stamp}")).splitlines() in (lines[-1:], lines[-2:])
        assert (await session.ask("GET", f"{PODS}/p/log?previous=true")).code == 400
