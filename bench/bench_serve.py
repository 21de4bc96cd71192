"""The served API: start to first answer, creates over HTTP, one write to many watchers."""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from bench.harness import Row

CREATES = 2000
CONNECTIONS = 4
WATCHERS = (1, 100)
WRITES = 50


class Client:
    """Keep-alive HTTP over a plain socket, as little of it as the figures need."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.socket.sendall(head.encode() + body)

    def answer(self) -> int:
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(self.buffer) < length:
            self._more()
        self.buffer = self.buffer[length:]
        return int(head[9:12])

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, int, float]]:
    """A served cluster without nodes; host, port, and when its process was started."""
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        command = "from controlplane.cli.main import main; main()"
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", command, "serve", "--kubeconfig", str(kubeconfig),
             "--token", "", *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = urlsplit(line.rpartition("# ")[2].partition(",")[0])
            yield url.hostname or "", url.port or 0, started
        finally:
            process.terminate()
            process.communicate()


def pod(name: str) -> bytes:
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    return json.dumps(tree).encode()


def start_up(repeat: int) -> Row:
    values = []
    for _ in range(max(repeat, 3)):
        with serving("--no-tls") as (host, port, started):
            client = Client(host, port)
            client.send("GET", "/api/v1/namespaces")
            assert client.answer() == 200
            values.append((time.perf_counter() - started) * 1000)
    return Row("serve: start to first answer", "ms", tuple(values))


def creates(repeat: int, connections: int) -> Row:
    values = []
    for _ in range(repeat):
        with serving("--no-tls", "--nodes", "0") as (host, port, _):

            def work(number: int, host: str = host, port: int = port) -> None:
                client = Client(host, port)
                for each in range(CREATES // connections):
                    client.send("POST", "/api/v1/namespaces/default/pods", pod(f"p{number}-{each}"))
                    assert client.answer() == 201

            threads = [threading.Thread(target=work, args=(n,)) for n in range(connections)]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            values.append(CREATES / (time.perf_counter() - start))
    return Row(f"serve: pod creates, {connections} connections", "creates/s", tuple(values))


def fan_out(repeat: int, watchers: int) -> Row:
    """From sending one write to its event having reached every watcher."""
    values = []
    with serving("--no-tls", "--nodes", "0") as (host, port, _):
        writer = Client(host, port)
        selector = selectors.DefaultSelector()
        for _ in range(watchers):
            client = Client(host, port)
            client.send("GET", "/api/v1/namespaces/default/configmaps?watch=true")
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.socket.recv(1 << 16)
            selector.register(client.socket, selectors.EVENT_READ)
        for number in range(WRITES * repeat):
            name = f"config-{number:06}"
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            start = time.perf_counter()
            writer.send("POST", "/api/v1/namespaces/default/configmaps", json.dumps(tree).encode())
            missing = watchers
            while missing:
                for key, _ in selector.select():
                    data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    missing -= data.count(b'"name":"' + name.encode())
            values.append((time.perf_counter() - start) * 1000)
            assert writer.answer() == 201
    return Row(f"serve: one write to {watchers} watchers", "ms", tuple(values))


def rows(repeat: int) -> Iterator[Row]:
    yield start_up(repeat)
    yield creates(repeat, 1)
    yield creates(repeat, CONNECTIONS)
    for watchers in WATCHERS:
        yield fan_out(repeat, watchers)
