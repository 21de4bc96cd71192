"""Exec over WebSocket: numbered channels for standard streams, errors and window sizes.

Upstream: apimachinery pkg/util/remotecommand, client-go tools/remotecommand/websocket.go, KEP-4006.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import define, field, frozen

from controlplane.api.tree import Tree
from controlplane.shell.running import is_interactive
from controlplane.shell.shell import Shell
from controlplane.shell.streams import Ran

__all__ = ["PROTOCOLS", "SUCCESS", "Framing", "Session", "chosen_protocol", "failed"]

PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
    "channel.k8s.io",
)
_FIRST: Final = PROTOCOLS[3:]
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSED = 0, 1, 2, 3, 4, 255
INPUT_LIMIT: Final = 32 << 20
"""The limit, in bytes, of the input of a program in an emulated container, which gets its input as a whole."""
LINE_LIMIT: Final = 4095
"""The longest line, in bytes, that a terminal accepts, as upstream."""
_PROMPT: Final = b"/ # "
_MORE: Final = b"> "
"""The prompt while a command is not complete."""
TRANSCRIPT: Final = 1 << 20
"""The limit, in bytes, of the output of an attached program that goes to the container's log."""
SUCCESS: Final[Tree] = {"metadata": {}, "status": "Success"}
EXECUTING: Final = "executing command in container"


def chosen_protocol(offered: str) -> str:
    """The first of the client's protocols that is spoken here; "" for none."""
    return next((each.strip() for each in offered.split(",") if each.strip() in PROTOCOLS), "")


@frozen
class Framing:
    """The messages of a protocol: a channel's number, and data."""

    protocol: str

    def message(self, channel: int, data: bytes) -> bytes:
        """Return the message of data on a channel."""
        if self.protocol.endswith("base64.channel.k8s.io"):
            return str(channel).encode() + base64.b64encode(data)
        return bytes([channel]) + data

    def content(self, message: bytes) -> tuple[int, bytes] | None:
        """Return the channel and the data of a message; None for what is none."""
        if not message:
            return None
        if not self.protocol.endswith("base64.channel.k8s.io"):
            return message[0], message[1:]
        try:
            return message[0] - ord("0"), base64.b64decode(message[1:])
        except ValueError:
            return None

    def finished(self, status: Tree) -> list[bytes]:
        """Return the messages that end a session. The first protocols tell a failure's text, nothing of a success."""
        if self.protocol not in _FIRST:
            return [self.message(ERROR, json.dumps(status).encode())]
        text = str(status.get("message") or "")
        return [self.message(ERROR, text.encode())] if text else []


def failed(doing: str, text: str) -> Tree:
    """Return the status of a session that failed while the server did something ("executing command in container")."""
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "InternalError",
        "code": 500,
        "message": f"Internal error occurred: error {doing}: {text}",
    }


@define
class Session:
    """One program in one container: messages in, messages out."""

    shell: Shell
    command: Sequence[str]
    protocol: str
    stdin: bool = False
    tty: bool = False
    attached: bool = False
    """It is the container's own program: the client is told nothing of its exit code, which the pod's status shows."""
    done: bool = False
    code: int = 0
    """The exit code of the program, once it is done."""
    transcript: bytearray = field(factory=bytearray)
    """The output of an attached program, as far as it is kept."""
    _given: bytearray = field(factory=bytearray)
    _typed: bytearray = field(factory=bytearray)

    def begin(self) -> list[bytes]:
        """Return the messages to send before the client's first."""
        self.shell.rested()
        if self._is_shell:
            self.shell.processes.append(" ".join(self.command))
        first = [self._message(STDOUT, b"")]
        if self.stdin and self.tty and self._is_shell:
            return [*first, self._message(STDOUT, _PROMPT)]
        if self.stdin:
            return first
        return [*first, *self._run()]

    def written(self, data: bytes) -> bytes:
        """The message of what was written elsewhere."""
        return self._message(STDOUT, data.replace(b"\n", b"\r\n") if self.tty else data)

    def end(self) -> list[bytes]:
        """Return the messages to send after success."""
        return self._finish(SUCCESS)

    def receive(self, data: bytes) -> list[bytes]:
        """Return the messages that answer a message of the client."""
        given = self._framing.content(data)
        if given is None:
            return []
        self.shell.rested()
        channel, content = given
        if channel == CLOSED:
            return self._ended() if content[:1] == bytes([STDIN]) else []
        if channel != STDIN or self.done:
            return []
        if self.tty and self._is_shell:
            return list(self._type(content))
        if self.tty and content.endswith(b"\x04"):  # Ctrl-D
            self._given += content[:-1].replace(b"\r", b"\n")
            return self._ended()
        if len(self._given) + len(content) > INPUT_LIMIT:
            return self._too_much()
        self._given += content
        if self._whole:
            return self._ended()
        if self._is_shell and self.protocol != PROTOCOLS[0] and self._given.endswith(b"\n"):
            return self._lines()  # older protocols cannot tell that the input has ended
        return []

    @property
    def _is_shell(self) -> bool:
        return is_interactive(self.command)

    @property
    def _whole(self) -> bool:
        """An archive is complete, for clients that cannot close their input."""
        return self.protocol != PROTOCOLS[0] and self._given.endswith(bytes(1024))

    # ------------------------------------------------------------------ running

    def _ended(self) -> list[bytes]:
        """The input has ended."""
        return [] if self.done else self._run()

    def _run(self) -> list[bytes]:
        ran = self.shell.run(self.command, bytes(self._given))
        if ran is None:
            name = self.command[0] if self.command else ""
            return self._finish(
                failed(
                    EXECUTING,
                    f'failed to exec in container: exec: "{name}": executable file not found in $PATH',
                )
            )
        return [*self._shown(ran), *self._left(ran.code)]

    def _left(self, code: int) -> list[bytes]:
        """The program has ended."""
        self.code = code
        return self._finish(SUCCESS if self.attached else _status(code))

    def _too_much(self) -> list[bytes]:
        """The input is longer than what is kept."""
        self._given.clear()
        return self._finish(failed(EXECUTING, f"more than {INPUT_LIMIT} bytes of input"))

    def _shown(self, ran: Ran) -> Iterator[bytes]:
        for channel, data in ((STDOUT, ran.out), (STDERR, ran.err)):
            if self.attached and len(self.transcript) < TRANSCRIPT:
                self.transcript += data[:TRANSCRIPT]
            if data and self.tty:
                yield self._message(STDOUT, data.replace(b"\n", b"\r\n"))
            elif data:
                yield self._message(channel, data)

    def _lines(self) -> list[bytes]:
        """The lines so far, one after the other."""
        text, self._given = self._given, bytearray()
        found: list[bytes] = []
        for line in text.decode("utf-8", "replace").splitlines():
            found += self._one(line)
            if self.done:
                break
        return found

    def _one(self, line: str) -> list[bytes]:
        ran = self.shell.line(line)
        shown = list(self._shown(ran))
        return [*shown, *self._left(ran.code)] if self.shell.left else shown

    def _type(self, content: bytes) -> Iterator[bytes]:
        """Handle keys as a terminal does: echo them, and pass whole lines to the shell."""
        for byte in content:
            if self.done:
                return
            if byte in (10, 13):
                yield self._message(STDOUT, b"\r\n")
                line, self._typed = self._typed.decode("utf-8", "replace"), bytearray()
                yield from self._one(line)
                if not self.done:
                    yield self._message(STDOUT, _MORE if self.shell.continues else _PROMPT)
            elif byte == 4 and not self._typed:
                yield from self._left(self.shell.code)
            elif byte == 3:
                self._typed.clear()
                self.shell.interrupt()
                yield self._message(STDOUT, b"^C\r\n" + _PROMPT)
            elif byte in (8, 127):
                if self._typed:
                    self._typed.pop()
                    yield self._message(STDOUT, b"\b \b")
            elif byte >= 32 and len(self._typed) < LINE_LIMIT:
                self._typed.append(byte)
                yield self._message(STDOUT, bytes([byte]))

    # ------------------------------------------------------------------ messages

    def _finish(self, status: Tree) -> list[bytes]:
        """End the session."""
        self.done = True
        return self._framing.finished(status)

    @property
    def _framing(self) -> Framing:
        return Framing(self.protocol)

    def _message(self, channel: int, data: bytes) -> bytes:
        return self._framing.message(channel, data)


def _status(code: int) -> Tree:
    if not code:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
