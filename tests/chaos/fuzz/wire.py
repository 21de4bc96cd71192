"""A served cluster of its own process, over TLS, and connections that send it requests well and badly.

Every connection has namespaces of its own, so that nobody else writes what it wrote: what was acknowledged to it
is read back at once, at the end of the campaign, and again from a server that goes on with the same store after the
first one was killed.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import yaml

from tests.chaos.fuzz import traffic
from tests.chaos.fuzz.judging import Answered, Finding, judged
from tests.chaos.fuzz.messages import Message, parts_of, resource_of
from tests.chaos.fuzz.process import SETUP
from tests.chaos.fuzz.register import Register
from tests.chaos.fuzz.tally import Tally

Json = Any
ROOT = Path(__file__).parents[3]
CONNECTIONS = 12
TOKEN = "fuzz-token"
PATIENCE = 30.0
STREAM = 0.4
"""Seconds that a stream without an end of its own is listened to."""
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_UNSTEADY = (
    "/events",
    "events.k8s.io/events",
    "/resourcequotas",
    "policy/poddisruptionbudgets",
    "autoscaling/horizontalpodautoscalers",
)
"""What changes by itself, or by what happens to others."""
_ADMISSION = "/apis/admissionregistration.k8s.io/v1/"
_HINDRANCES = (
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)
_GARBAGE = (
    b"\x00" * 40,
    b"GET\r\n\r\n",
    b"GET / HTTP/7.7\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /api HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    b"POST /api HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"\x16\x03\x01\x00\x05hello",
    b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 2_000_000 + b"\r\n\r\n",
    b"GET http://other/api HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET * HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n",
    b"\r\n" * 3000,
    b"GET /api HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
)


class Server:
    """`controlplane serve` in a process of its own, over a store in a file."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.out = folder / f"out{number}"
        config = folder / f"kubeconfig{number}"
        self.said = (folder / f"said{number}").open("w+")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "controlplane",
                "serve",
                "--token",
                TOKEN,
                "--kubeconfig",
                str(config),
                "--store",
                f"sqlite:{folder / 'store.db'}",
                "--without",
                "scheduler,controllers,kubelets",
                "--nodes",
                "1",
                "--no-heartbeats",
                "--speed",
                "20",
                "--out",
                str(self.out),
                "--log-level",
                "warning",
                "--name",
                f"fuzz{number}",
            ],
            cwd=ROOT,
            stdout=self.said,
            stderr=subprocess.STDOUT,
        )
        until = time.monotonic() + 120
        while not config.exists() or not config.read_text():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server did not start: {self.words()}")
            time.sleep(0.1)
        cluster = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]
        self.port = int(cluster["server"].rpartition(":")[2])
        import base64

        self.context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        self.context.check_hostname = False

    def words(self) -> str:
        """What it said."""
        self.said.flush()
        return Path(self.said.name).read_text()[-3000:]

    def computed(self) -> float:
        """Seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, how: signal.Signals) -> list[Finding]:
        """End it; what is wrong with how it ended, and what its log tells of."""
        found = []
        if self.process.poll() is not None:
            told = f"exit status {self.process.returncode}: {self.words()}"
            found.append(Finding("server", "it ended by itself", told))
        self.process.send_signal(how)
        status = self.process.wait(300)
        if how == signal.SIGINT and status != 0:
            found.append(Finding("server", f"exit status {status}", self.words()))
        log = self.out / "log.jsonl"
        for line in log.read_text().splitlines() if log.exists() else ():
            if "apiserver.panic" in line or "apiserver.unwritten" in line:
                told = json.loads(line)
                found.append(Finding("exception", str(told.get("data"))[:100], line[-4000:]))
        self.said.close()
        return found


class Client:
    """One connection at a time; it knows what was acknowledged to it."""

    def __init__(self, server: Server, number: int, seed: int) -> None:
        self.server = server
        self.number = number
        self._seed = seed
        self._draw = Random(f"wire {seed} {number}")
        self._stream: ssl.SSLSocket | None = None
        self.words = Register(_Nothing())
        self.places: dict[str, Json] = {}
        """What is served where, as it was acknowledged; None: nothing."""
        self.tally = Tally()

    # -- a campaign ------------------------------------------------------------------------------

    def run(self, requests: int) -> None:
        """So many requests, in episodes with a namespace each."""
        for episode in range(-(-requests // traffic.EPISODE)):
            namespace = f"fuzz-{self.number}-{episode}"
            self._prepare(namespace)
            length = min(traffic.EPISODE, requests - episode * traffic.EPISODE)
            number = self.number * 1_000_000 + episode
            for at, message in enumerate(traffic.requests(self._seed, number, namespace, length)):
                message = message.filled(self.words.known(message.place))
                found = self._sent(message, namespace)
                self.tally.findings += [
                    (self.number, episode * traffic.EPISODE + at, each) for each in found
                ]
                if len(self.tally.findings) > 200 or self.server.process.poll() is not None:
                    return

    def _prepare(self, namespace: str) -> None:
        for what in _HINDRANCES:
            self.ask(Message("DELETE", f"{_ADMISSION}{what}"))
        self._make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for path, body in SETUP:
            if body.get("spec", {}).get("nodeName"):
                body = {**body, "spec": {**body["spec"], "nodeName": "node-0"}}
            self._make(path.replace("/default/", f"/{namespace}/"), body)

    def _make(self, path: str, body: Json) -> None:
        self.ask(
            Message(
                "POST", path, (("content-type", "application/json"),), json.dumps(body).encode()
            )
        )

    def _sent(self, message: Message, namespace: str) -> list[Finding]:
        """Send a request somehow, and look at what came of it."""
        how = self._draw.random()
        mine = f"/namespaces/{namespace}/" in message.path and resource_of(message.path)
        began = time.monotonic()
        try:
            if how < 0.02:
                return self._garbage()
            if how < 0.05 and len(message.body) > 1:
                raw = self._bytes(message, chunked=self._draw.random() < 0.3)
                head = raw.index(b"\r\n\r\n") + 4
                self._connected().sendall(
                    raw[: self._draw.randrange(1, max(head + 1, len(raw) - 6))]
                )
                self.close()  # half of a request is none
                return []
            if how < 0.06:
                self._connected().sendall(self._bytes(message))
                self.close()
                if message.method in _WRITES:
                    self._forget(message)
                return []
            if how < 0.1:
                answered = self._pipelined(message)
            elif how < 0.13:
                answered = self.ask(message, pieces=self._draw.randrange(2, 5))
            else:
                answered = self.ask(message, chunked=how > 0.9)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            if message.method in _WRITES:
                self._forget(message)
            told = (
                f"{message.method} {message.target[:300]} {message.headers} {message.body[:300]!r}"
            )
            return [Finding("connection", f"{type(error).__name__}: {error}"[:100], told)]
        answered.seconds = time.monotonic() - began
        self.tally.count(message, answered)
        slow, answered.seconds = answered.seconds, 0.0
        found = judged(answered)
        answered.seconds = slow
        self.words._learn(message.place, answered)
        if (
            message.method in _WRITES
            and answered.code in (400, 406, 500)
            and "as=" in message.header("accept")
        ):
            self._forget(message)  # it may have been written, and cannot be shown so
        if message.method in _WRITES and answered.code < 300 and mine:
            found += self._note(message, answered)
        return [Finding(each.kind, each.text, f"{message}\n{each.detail}"[:4000]) for each in found]

    # -- what was acknowledged -------------------------------------------------------------------

    def _steady(self, path: str) -> bool:
        resource = resource_of(path)
        group = resource.partition("/")[0]
        return (
            ".io" not in group.replace(".k8s.io", "")
            and "example.com" not in group
            and not (any(resource.startswith(each) for each in _UNSTEADY))
        )

    def _forget(self, message: Message) -> None:
        """What came of a request is not known: nor is what is there."""
        kept = message.place or message.path.rstrip("/")
        for place in [each for each in self.places if each.startswith(kept) or kept in each]:
            del self.places[place]
        if "/bindings" in message.path:
            self.places = {key: each for key, each in self.places.items() if "/pods/" not in key}

    def _note(self, message: Message, answered: Answered) -> list[Finding]:
        """An acknowledged write is served."""
        tree = answered.tree if isinstance(answered.tree, dict) else {}
        meta = tree.get("metadata") if isinstance(tree.get("metadata"), dict) else {}
        assert isinstance(meta, dict)
        place = message.place
        if message.method == "POST" and not place and meta.get("name"):
            place = f"{message.path.rstrip('/')}/{meta['name']}"
        if not place or "/bindings" in message.path:
            self._forget(message)
            return []
        if message.dry or not self._steady(place) or len(parts_of(place)) < 4:
            return []
        if "/v2/" in place or "/v1/" not in place:
            return []  # the same objects under another version
        shown = self.ask(Message("GET", quote(place), (("accept", "application/json"),)))
        if shown.code not in (200, 404):
            self.places.pop(place, None)
            return []
        found = []
        whole = (
            message.path.rstrip("/") == place
            or message.method == "POST"
            and place.startswith(message.path)
        )
        if (
            message.method in ("POST", "PUT", "PATCH")
            and whole
            and "uid" in meta
            and "as=" not in (message.header("accept"))
        ):
            gone = shown.code == 404 and (meta.get("deletionTimestamp") or message.method != "POST")
            if shown.tree != tree and not gone:
                told = f"{message}\nacknowledged {tree}\nserved {shown.code} {shown.tree}"
                found.append(
                    Finding("register", f"another object is served: {tree.get('kind')}", told)
                )
        self.places[place] = shown.tree if shown.code == 200 else None
        return found

    def compared(self) -> list[Finding]:
        """What is served now, against what was acknowledged."""
        found = []
        for place, tree in sorted(self.places.items()):
            shown = self.ask(Message("GET", quote(place), (("accept", "application/json"),)))
            served = shown.tree if shown.code == 200 else None
            if served != tree or shown.code not in (200, 404):
                told = f"{place}: acknowledged {tree}, served {shown.code} {shown.tree}"[:6000]
                found.append(Finding("register", "what was acknowledged is not there", told))
        return found

    # -- HTTP ------------------------------------------------------------------------------------

    def _connected(self) -> ssl.SSLSocket:
        if self._stream is None:
            plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = self.server.context.wrap_socket(plain)
        return self._stream

    def close(self) -> None:
        """Hang up."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _bytes(self, message: Message, *, chunked: bool = False) -> bytes:
        lines = [
            f"{message.method} {message.target} HTTP/1.1",
            "host: 127.0.0.1",
            f"authorization: Bearer {TOKEN}",
        ]
        lines += [f"{key}: {each}" for key, each in message.headers]
        body = message.body
        if chunked and body:
            lines.append("transfer-encoding: chunked")
            pieces = b""
            while body:
                size = self._draw.randrange(1, 4000)
                piece, body = body[:size], body[size:]
                pieces += b"%x\r\n%s\r\n" % (len(piece), piece)
            body = pieces + b"0\r\n\r\n"
        elif body or message.method in _WRITES:
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    def ask(self, message: Message, *, chunked: bool = False, pieces: int = 1) -> Answered:
        """The answer to a request."""
        raw = self._bytes(message, chunked=chunked)
        fresh = self._stream is None
        try:
            return self._exchanged(message, raw, pieces)
        except (OSError, http.client.HTTPException):
            self.close()
            if fresh or message.method in _WRITES:
                raise
            return self._exchanged(message, raw, pieces)  # the server let go of an idle connection

    def _exchanged(self, message: Message, raw: bytes, pieces: int) -> Answered:
        stream = self._connected()
        size = -(-len(raw) // pieces)
        for start in range(0, len(raw), size):
            stream.sendall(raw[start : start + size])
            if pieces > 1:
                time.sleep(0.002)
        return self._answer(message)

    def _answer(self, message: Message) -> Answered:
        stream = self._connected()
        found = http.client.HTTPResponse(stream, method=message.method)
        found.begin()
        headers = {key.lower(): each for key, each in found.getheaders()}
        streamed = found.chunked and ("watch" in message.target or "follow" in message.target)
        body = b""
        if found.status == 101:
            self.close()
        elif streamed:
            body = self._listened(found)
        else:
            body = found.read()
        if found.will_close:
            self.close()
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        tree = None
        if headers.get("content-type", "").startswith("application/json") and body and not streamed:
            tree = json.loads(body)
        return Answered(found.status, headers, body, tree, stream=streamed)

    def _listened(self, found: http.client.HTTPResponse) -> bytes:
        """What comes of a stream, until it ends or long enough."""
        stream = self._connected()
        stream.settimeout(STREAM)
        body = b""
        try:
            while piece := found.read1(65536):
                body += piece
            stream.settimeout(PATIENCE)
        except (TimeoutError, ssl.SSLError):
            self.close()
        return body

    def _pipelined(self, message: Message) -> Answered:
        """A request behind others on the same connection, all in one write."""
        before = [
            Message("GET", target)
            for target in self._draw.choices(("/version", "/livez", "/api"), k=2)
        ]
        raw = b"".join(map(self._bytes, [*before, message]))
        self.close()
        self._connected().sendall(raw)
        for each in before:
            assert self._answer(each).code == 200
        return self._answer(message)

    def _garbage(self) -> list[Finding]:
        """Something that is no request, on a connection of its own."""
        self.close()
        raw = self._draw.choice(_GARBAGE)
        stream = self._connected()
        told = b""
        try:
            stream.sendall(raw)
            stream.settimeout(STREAM)
            told = stream.recv(4000)
        except (OSError, ssl.SSLError):
            pass
        self.close()
        code = told[9:12]
        if code.startswith(b"5") and code not in (b"501", b"505"):
            return [Finding("5xx", f"{code!r} to garbage", f"{raw[:100]!r}: {told[:500]!r}")]
        return []


class _Nothing:
    """A store with nothing in it."""

    def prefixes(self) -> list[str]:
        return []


class Pulse(threading.Thread):
    """Asks whether the server lives, several times a second: it must not compute a second without answering."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._client = Client(server, 999, 0)
        self._server = server
        self._over = threading.Event()
        self.longest = 0.0
        self.findings: list[Finding] = []

    def run(self) -> None:
        while not self._over.wait(0.2):
            before = self._server.computed()
            try:
                code = self._client.ask(Message("GET", "/livez")).code
            except (OSError, http.client.HTTPException) as error:
                if not self._over.is_set():
                    self.findings.append(Finding("stall", "no sign of life", repr(error)))
                return
            computed = self._server.computed() - before
            self.longest = max(self.longest, computed)
            if code != 200:
                self.findings.append(Finding("5xx", f"livez: {code}"))
            if computed > 1:
                self.findings.append(
                    Finding("stall", "a second without a sign of life", f"{computed:.2f} s")
                )

    def end(self) -> None:
        """No more."""
        self._over.set()
        self.join(PATIENCE)
        self._client.close()


def over_http(requests: int, seed: int, *, connections: int = CONNECTIONS) -> Tally:
    """A campaign over HTTP; the server is killed at its end, and another one goes on with its store."""
    total = Tally()
    traffic.served()  # asked of a server in this process, which is not for many threads
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        server = Server(folder, 0)
        pulse = Pulse(server)
        pulse.start()
        clients = [Client(server, number, seed) for number in range(connections)]
        for client in clients:
            opened.callback(client.close)
        broken: list[Finding] = []

        def work(client: Client) -> None:
            share = requests // connections + (client.number < requests % connections)
            try:
                client.run(share)
            except Exception as error:  # told, and the others go on
                broken.append(
                    Finding("client", f"{type(error).__name__}: {error}"[:200], server.words())
                )

        threads = [threading.Thread(target=work, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            threads[0].join(30) if threads[0].is_alive() else time.sleep(1)
            took = time.monotonic() - began
            sent = sum(client.tally.requests for client in clients)
            if int(took) % 30 < 2:
                print(f"{sent} requests, {sent / took:.0f}/s", file=sys.stderr, flush=True)
        pulse.end()
        for client in clients:
            total.add(client.tally)
        total.findings += [(-1, -1, each) for each in [*broken, *pulse.findings]]
        if server.process.poll() is not None:
            total.findings += [(-1, -1, each) for each in server.stop(signal.SIGKILL)]
            return total
        total.findings += _read_back(clients)
        total.findings += [(-1, -1, each) for each in server.stop(signal.SIGKILL)]
        again = Server(folder, 1)
        for client in clients:
            client.close()
            client.server = again
        total.findings += _read_back(clients)
        total.findings += [(-1, -1, each) for each in again.stop(signal.SIGINT)]
        objects = sum(tree is not None for client in clients for tree in client.places.values())
        places = sum(len(client.places) for client in clients)
        print(
            f"{places} places read back twice, {objects} of them objects; the longest while without a sign of"
            f" life: {pulse.longest:.2f} s of computing"
        )
    return total


def _read_back(clients: list[Client]) -> list[tuple[int, int, Finding]]:
    return [(client.number, -1, each) for client in clients for each in client.compared()]
