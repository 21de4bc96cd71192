"""`controlplane serve`: what it says to wrong use, and the scheduler's options in a session."""

from __future__ import annotations

import pytest
import trio
import yaml

from actors.pace import MAX, Pacer
from controlplane.serving.session import Rim, serve_async
from tests.apiserver.http.session import prepared
from tests.cli.test_run import controlplane

EXPLAINED = "kube-scheduler-simulator.sigs.k8s.io/selected-node"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def test_a_kubeconfig_of_another_user_is_refused_in_one_line(tmp_path):
    foreign = tmp_path / "config"
    foreign.write_text("apiVersion: v1\nkind: Config\n")
    done = controlplane("serve", "--no-tls", "--kubeconfig", foreign, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"controlplane: {foreign}: exists and was not written by `controlplane serve`: left alone\n"
    )
    assert foreign.read_text() == "apiVersion: v1\nkind: Config\n"


@pytest.mark.parametrize("token", ["two words", "two\nlines", "späť"])
def test_a_token_that_fits_into_no_header_is_refused(tmp_path, token):
    done = controlplane("serve", "--token", token, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "controlplane: Invalid value for '--token': expected ASCII characters without spaces\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("origin", ["*", "localhost:3000", "http://localhost:3000/"])
def test_an_origin_is_as_browsers_write_it(tmp_path, origin):
    done = controlplane("serve", "--cors-allowed-origin", origin, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected http://HOST:PORT or https://HOST:PORT" in done.stderr


@pytest.mark.parametrize("words", [[], ["time"], ["race"], ["logs"], ["bench"]])
def test_a_command_that_is_not_finished_shows_its_manual(words):
    done = controlplane(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert "\nCommands:\n" in done.stderr


@pytest.mark.slow
async def test_attempts_are_explained_in_a_session_and_its_replay_needs_the_same_options(tmp_path):
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump(POD))
    serving = prepared(keep=True, files=(str(manifest),), nodes=2, explain_scheduling=True)
    stop = trio.Event()

    def explained():
        return EXPLAINED in serving.cluster.dump()

    async def watch(_address=None):
        with trio.fail_after(120):
            while not explained():
                await trio.sleep(0.01)
        stop.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await serve_async(serving, Rim(tls=False), Pacer(MAX), lambda _address: None, stop)
    serving.save(tmp_path / "out")
    replay = ["--replay", tmp_path / "out" / "run.rec", "--nodes", 2]
    again = await trio.to_thread.run_sync(
        lambda: controlplane("serve", manifest, "--explain-scheduling", *replay)
    )
    assert again.returncode == 0, again.stderr
    assert serving.result.trace_hash in again.stdout
    other = controlplane("serve", manifest, *replay)
    assert other.returncode == 2
    assert "recorded with another explain_scheduling: True, now False" in other.stderr


def test_a_release_of_which_nothing_is_known_is_refused_with_those_that_are():
    done = controlplane("serve", "--release", "1.19")
    assert done.returncode == 2
    assert done.stderr == (
        "controlplane: release '1.19': expected one of 1.25, 1.26, 1.27, 1.28, 1.29, 1.30, 1.31, 1.32, "
        "1.33, 1.34, 1.35, 1.36\n"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "box.example"])
def test_no_client_rules_from_the_network_without_a_token_unless_that_is_said_twice(tmp_path, host):
    done = controlplane("serve", "--host", host, "--token", "", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f'controlplane: --host {host} with --token "" makes every client that reaches it an administrator: '
        "confirm with --open-to-everybody\n"
    )
    assert not list(tmp_path.iterdir())


def test_it_is_done_when_it_is_said_twice(tmp_path):
    words = ("--host", "203.0.113.7", "--token", "", "--open-to-everybody", "--no-tls")
    done = controlplane("serve", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "203.0.113.7:0: cannot listen" in done.stderr, (
        "an address that this machine does not have"
    )


@pytest.mark.parametrize(("token", "shown"), [("sesame", "curl "), ("", "kubectl ")])
def test_without_tls_the_line_that_is_printed_works(tmp_path, capsys, monkeypatch, token, shown):
    """kubectl sends no token over plain HTTP (client-go, IsConfigTransportTLS)."""
    from controlplane.apiserver.http.kubeconfig import Address
    from controlplane.cli import serve

    serving = prepared(keep=False)
    serve._announce(tmp_path / "kc", "controlplane", Address("http://h:1", token, b""), serving)
    out = capsys.readouterr().out
    assert out.startswith(shown)
    assert ("Bearer sesame" in out) == bool(token)
    assert ("kubectl sends no token" in out) == bool(token)
