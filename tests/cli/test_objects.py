"""`controlplane objects`: export, restore and reset of a served cluster."""

from __future__ import annotations

import pytest
import trio
import yaml

from controlplane.apiserver.http import kubeconfig
from controlplane.apiserver.http.kubeconfig import Address
from tests.apiserver.http.session import CONFIGMAPS, config, served
from tests.cli.test_run import controlplane


@pytest.mark.slow
async def test_objects_are_exported_restored_and_reset(tmp_path):
    file, left = tmp_path / "kc", tmp_path / "all.yaml"
    async with served() as session:
        kubeconfig.write(file, Address(f"http://127.0.0.1:{session.port}", "", b""))
        await session.ask("POST", CONFIGMAPS, config("a", x="1"))

        async def call(*words):
            return await trio.to_thread.run_sync(
                lambda: controlplane("objects", "--kubeconfig", file, *words)
            )

        done = await call("export", left)
        assert (done.returncode, done.stdout) == (0, f"written: {left}\n"), done.stderr
        assert left.stat().st_mode & 0o077 == 0
        (tree,) = yaml.safe_load_all(left.read_text())
        assert tree["data"] == {"x": "1"}
        done = await call("reset")
        assert (done.returncode, done.stdout) == (0, "1 deleted\n"), done.stderr
        done = await call("restore", left)
        assert (done.returncode, done.stdout) == (0, "1 created\n"), done.stderr
        left.write_text("apiVersion: a/v1\nkind: Odd\nmetadata: {name: x}\n")
        done = await call("restore", left)
        assert (done.returncode, "no kind 'Odd'" in done.stdout) == (1, True), done.stderr
