"""The served API: start to first answer, creates over HTTP and TLS, one write to many watchers.

Clients of the figures over TLS are processes of their own; how much of a processor they and the server take is
told beside the rate.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.harness import Row, resident

CREATES = 2000
CONNECTIONS = 4
CLIENTS = (1, 4, 16)
WATCHERS = (1, 100, 1000)
WRITES = 50
PODS = 10_000
BUSY_SECONDS = 5.0


class Client:
    """Keep-alive HTTP over a plain socket, as little of it as the figures need."""

    def __init__(self, host: str, port: int, *, tls: bool = False) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # it is our own server, on this machine
            self.socket = context.wrap_socket(self.socket)
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


class Served(NamedTuple):
    """A served cluster: where it listens, when its process was started, and its process id."""

    host: str
    port: int
    started: float
    pid: int


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """A served cluster in a process of its own."""
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        command = "from controlplane.cli.main import main; main()"
        started = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                command,
                "serve",
                "--kubeconfig",
                str(kubeconfig),
                "--token",
                "",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = urlsplit(line.rpartition("# ")[2].partition(",")[0])
            yield Served(url.hostname or "", url.port or 0, started, process.pid)
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
        with serving("--no-tls") as (host, port, started, _):
            client = Client(host, port)
            client.send("GET", "/api/v1/namespaces")
            assert client.answer() == 200
            values.append((time.perf_counter() - started) * 1000)
    return Row("serve: start to first answer", "ms", tuple(values))


def creates(repeat: int, connections: int) -> Row:
    values = []
    for _ in range(repeat):
        with serving("--no-tls", "--nodes", "0") as (host, port, *_):

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


def config_map(name: str) -> bytes:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
    return json.dumps(tree).encode()


MADE = {"pods": pod, "configmaps": config_map}
"""What is created: each pod fails to be scheduled, which brings a status and an Event; nobody acts on the other."""


def creates_over_tls(repeat: int, clients: int, resource: str) -> Iterator[Row]:
    """Creates by clients in processes of their own, and what the processors did meanwhile."""
    rates, served, spent = [], [], []
    for _ in range(repeat):
        with serving("--nodes", "0") as (host, port, _, pid):
            command = [sys.executable, "-m", "bench.bench_serve", host, str(port)]
            processes = [
                subprocess.Popen(
                    [*command, str(number), str(CREATES // clients), resource],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for number in range(clients)
            ]
            for process in processes:
                assert process.stdout is not None
                process.stdout.readline()  # it is connected
            before, start = processor_seconds(pid), time.perf_counter()
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            theirs = sum(float(process.communicate()[0]) for process in processes)
            wall = time.perf_counter() - start
            done = CREATES // clients * clients
            rates.append(done / wall)
            served.append(1e6 * (processor_seconds(pid) - before) / done)
            spent.append(100 * theirs / wall)
    name = f"serve: creates of {resource} over TLS, {clients} clients"
    yield Row(name, "creates/s", tuple(rates))
    yield Row(f"{name}: the server, of a processor", "us each", tuple(served))
    yield Row(f"{name}: the clients, of a processor", "%", tuple(spent))


def processor_seconds(pid: int) -> float:
    """What a process has had of the processors. Needs /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _client(host: str, port: int, number: int, count: int, resource: str) -> None:
    """A client of `creates_over_tls`: says when it is connected, begins when told, says what it took."""
    client = Client(host, port, tls=True)
    print("connected", flush=True)
    sys.stdin.readline()
    begun = time.process_time()
    path, made = f"/api/v1/namespaces/default/{resource}", MADE[resource]
    for each in range(count):
        client.send("POST", path, made(f"p{number}-{each}"))
        assert client.answer() == 201
    print(time.process_time() - begun)


def fan_out(repeat: int, watchers: int) -> Row:
    """From sending one write to its event having reached every watcher."""
    values = []
    with serving("--no-tls", "--nodes", "0") as (host, port, *_):
        writer = Client(host, port)
        selector = selectors.DefaultSelector()
        for _ in range(watchers):
            path = "/api/v1/namespaces/default/configmaps?watch=true"
            selector.register(watch(host, port, path), selectors.EVENT_READ)
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


def watch(host: str, port: int, path: str) -> socket.socket:
    """A connection with a watch that has begun."""
    client = Client(host, port)
    client.send("GET", path)
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.socket.recv(1 << 16)
    return client.socket


def latency_when_busy() -> Iterator[Row]:
    """GETs, one after the other, while a thousand watches idle and one connection writes all the time."""
    with serving("--no-tls", "--nodes", "0") as (host, port, *_):
        idle = [
            watch(host, port, "/api/v1/namespaces/kube-system/secrets?watch=true")
            for _ in range(max(WATCHERS))
        ]
        stop = threading.Event()
        written = 0

        def write() -> None:
            nonlocal written
            client = Client(host, port)
            while not stop.is_set():
                tree = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": f"config-{written:06}"},
                }
                body = json.dumps(tree).encode()
                client.send("POST", "/api/v1/namespaces/default/configmaps", body)
                assert client.answer() == 201
                written += 1

        writer = threading.Thread(target=write)
        writer.start()
        reader = Client(host, port)
        taken: list[float] = []
        begin = time.perf_counter()
        while time.perf_counter() - begin < BUSY_SECONDS:
            start = time.perf_counter()
            reader.send("GET", "/api/v1/namespaces/default")
            assert reader.answer() == 200
            taken.append((time.perf_counter() - start) * 1000)
        stop.set()
        writer.join()
        for each in idle:
            each.close()
    taken.sort()
    where = f"{max(WATCHERS)} idle watchers, busy writer"
    yield Row(f"serve: GET, {where}, median", "ms", (taken[len(taken) // 2],))
    yield Row(f"serve: GET, {where}, p99", "ms", (taken[len(taken) * 99 // 100],))
    yield Row(f"serve: writes meanwhile, {where}", "creates/s", (written / BUSY_SECONDS,))


def manifest(folder: Path) -> Path:
    """A file with `PODS` pods that no scheduler asks for."""
    path = folder / "pods.json"
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number:05}", "namespace": "default"},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "app:1"}]},
        }
        for number in range(PODS)
    ]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def long_list(repeat: int) -> Iterator[Row]:
    """A list of many pods: the first one, which encodes each pod, those after it, and the memory."""
    with TemporaryDirectory() as folder:
        file = manifest(Path(folder))
        with serving("--no-tls", "--nodes", "0", "--speed", "max", str(file)) as served:
            host, port, pid = served.host, served.port, served.pid
            path = "/api/v1/namespaces/default/pods"
            while _count(host, port) < PODS:
                time.sleep(0.5)
            rest = resident(pid)
            first, size = _listed(host, port, path)
            values = [_listed(host, port, path)[0] for _ in range(max(repeat, 3))]
            more = resident(pid) - rest
    yield Row(f"serve: list of {PODS} pods, first time", "ms", (first,))
    yield Row(f"serve: list of {PODS} pods", "ms", tuple(values))
    yield Row(f"serve: list of {PODS} pods, size", "MB", (size / 1e6,))
    yield Row(f"serve: list of {PODS} pods, memory after", "MB more", (more / 1e6,))


def _listed(host: str, port: int, path: str) -> tuple[float, int]:
    """Milliseconds and bytes of one list."""
    with socket.create_connection((host, port)) as stream:
        start = time.perf_counter()
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n".encode())
        size = 0
        while data := stream.recv(1 << 20):
            size += len(data)
        return (time.perf_counter() - start) * 1000, size


def _count(host: str, port: int) -> int:
    """How many pods there are."""
    with socket.create_connection((host, port)) as stream:
        path = "/api/v1/namespaces/default/pods?limit=1"
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while piece := stream.recv(1 << 16):
            data += piece
    return int(data.partition(b'"remainingItemCount":')[2].partition(b"}")[0] or 0) + 1


def rows(repeat: int) -> Iterator[Row]:
    yield start_up(repeat)
    yield creates(repeat, 1)
    yield creates(repeat, CONNECTIONS)
    for resource in MADE:
        for clients in CLIENTS:
            yield from creates_over_tls(repeat, clients, resource)
    for watchers in WATCHERS:
        yield fan_out(repeat, watchers)
    yield from latency_when_busy()
    yield from long_list(repeat)


if __name__ == "__main__":
    _client(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
