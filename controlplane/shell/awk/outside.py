"""Files and commands that a program of awk reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.shell.awk.records import Reader
from controlplane.shell.streams import Buffer, Input, Streams, check_output

if TYPE_CHECKING:
    from controlplane.shell.shell import Shell

__all__ = ["Outside"]

Key = tuple[str, str]
"""The redirection operator (`<`, `>`, `|`), and the name of the file or the command."""


class Outside:
    """The open files and commands of one run: each is opened once, until `close`."""

    def __init__(self, shell: Shell, streams: Streams) -> None:
        self._shell = shell
        self._streams = streams
        self._readers: dict[Key, Reader] = {}
        self._sinks: dict[Key, bytearray] = {}

    def reader(self, mode: str, name: str) -> Reader | None:
        """Return the records of a file, or of the output of a command, for getline; None where there is no file."""
        key = (mode, name)
        if key not in self._readers:
            found = self.opened(mode, name)
            if found is None:
                return None
            self._readers[key] = found
        return self._readers[key]

    def opened(self, mode: str, name: str) -> Reader | None:
        """Return the records of a file or command from its beginning; None where there is no file."""
        data: bytes | None
        if mode == "|":
            data = self._output_of(name)
        elif name in ("-", "/dev/stdin"):
            data = self._streams.given.rest()
        else:
            data = self._shell.read(self._shell.path(name))
        if data is None:
            return None
        self._shell.spend(1, 2 * len(data))
        return Reader(data.decode("utf-8", "replace"))

    def _output_of(self, command: str) -> bytes:
        out = Buffer()
        self.run(command, Streams(Input(), out, self._streams.err))
        return bytes(out.data)

    def run(self, command: str, streams: Streams) -> int:
        """Run a command of the shell; return its exit code."""
        return self._shell.command(["sh", "-c", command], streams)

    def close(self, key: Key) -> int:
        """Write a file, or run the command that gets what was printed; return its exit code."""
        data = bytes(self._sinks.pop(key))
        mode, name = key
        if mode == "|":
            streams = Streams(Input(data), self._streams.out, self._streams.err)
            return self.run(name, streams)
        self._shell.keep(self._shell.path(name), data)
        return 0

    def print(self, shown: str) -> None:
        """Write to the output."""
        data = shown.encode()
        self._shell.spend(1, len(data))
        self._streams.out.write(data)

    def print_to(self, mode: str, name: str, shown: str) -> None:
        """Write to a file (`>`, `>>`), or to a command (`|`), which gets its input when it is closed."""
        data = shown.encode()
        self._shell.spend(1, len(data))
        if mode != "|" and name in ("/dev/stdout", "/dev/stderr", "-"):
            (self._streams.err if name == "/dev/stderr" else self._streams.out).write(data)
            return
        key = ("|" if mode == "|" else ">", name)
        if key not in self._sinks:
            before = self._shell.read(self._shell.path(name)) if mode == ">>" else b""
            self._sinks[key] = bytearray(before or b"")
        self._sinks[key] += data
        check_output(len(self._sinks[key]))

    def system(self, command: str) -> int:
        """Run a command with the program's own input and output."""
        return self.run(command, self._streams)

    def close_named(self, name: str) -> int:
        """Close a file or command; return its exit code, -1 where it is not open."""
        code = -1
        for mode in ("|", "<"):
            if self._readers.pop((mode, name), None) is not None:
                code = 0
        for mode in ("|", ">"):
            if (mode, name) in self._sinks:
                code = self.close((mode, name))
        return code

    def close_all(self) -> None:
        """Close what is written."""
        for key in list(self._sinks):
            self.close(key)
