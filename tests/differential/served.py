"""Our API server alone, served over plain HTTP, for what a request is before the server reads it."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from actors.pace import Pacer
from controlplane.apiserver.http.authentication import Access
from controlplane.apiserver.http.verifying import Verifier
from controlplane.apiserver.requests.tokens import digest_of
from tests.differential.asking import Place
from tests.golden.answer_crud import ADMIN
from tests.golden.kubectl_world import Session

TOKEN = "admin-token"


class TokenSession(Session):
    """A served API server that knows the recordings' administrator by a token."""

    def access(self, pace: Pacer) -> Access:
        verifier = Verifier(self.options.token_key)
        return Access({TOKEN: ADMIN}, verifier.user, lambda: self.start + pace.now())


@contextmanager
def served() -> Iterator[Place]:
    """Serve from a thread of its own until the block ends."""
    ports: queue.Queue[int] = queue.Queue()
    ended = threading.Event()

    async def run() -> None:
        key, tokens = os.urandom(32), {digest_of(TOKEN): ADMIN}
        session = TokenSession(time.time_ns(), token_key=key, static_tokens=tokens)
        async with session.served():
            ports.put(session.port)
            while not ended.is_set():
                await trio.sleep(0.1)

    thread = threading.Thread(target=trio.run, args=(run,), daemon=True)
    thread.start()
    try:
        yield Place("127.0.0.1", ports.get(timeout=60), None, TOKEN)
    finally:
        ended.set()
        thread.join(timeout=10)
