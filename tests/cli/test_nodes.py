"""`controlplane nodes add`: nodes of a served cluster, which get kubelets."""

from __future__ import annotations

import trio

from controlplane.apiserver.http import kubeconfig
from controlplane.apiserver.http.kubeconfig import Address
from tests.apiserver.http.session import served
from tests.cli.test_run import controlplane
from tests.serving.test_nodes import NODES, ready, until


async def test_added_nodes_have_free_numbers_and_become_ready(tmp_path):
    file = tmp_path / "kc"
    async with served(controllers="*", nodes=2) as session:
        kubeconfig.write(file, Address(f"http://127.0.0.1:{session.port}", "", b""))

        def call(*words):
            return controlplane("nodes", "--kubeconfig", file, "add", *words)

        done = await trio.to_thread.run_sync(call, "2", "--cpu", "2")
        assert (done.returncode, done.stdout) == (0, "added: node-3, node-4\n"), done.stderr
        found = await until(session, f"{NODES}/node-4", ready)
        assert found.tree["status"]["capacity"]["cpu"] == "2"
        wrong = await trio.to_thread.run_sync(call, "1", "--prefix", "Not_A_Name")
        assert wrong.returncode == 2
        assert "Not_A_Name" in wrong.stderr
