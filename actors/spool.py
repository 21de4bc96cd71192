"""What a recording needs of a run that goes on for long, kept in files instead of memory.

Choices and inputs stand in the files as they will in the recording, packed; `finish` puts the recording together
piece by piece. See `actors.recording` for the format.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import msgpack

from actors import private_files
from actors.recording import pieces, sealed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.recording import Recording
    from actors.world import World

__all__ = ["Spool"]

CHOICES: Final = "choices.part"
INPUTS: Final = "inputs.part"
_PIECE: Final = 1 << 20


class Spool:
    """Takes over a world's choices and inputs, from time to time. The files are for their owner alone."""

    def __init__(self, folder: Path) -> None:
        """Begin with empty files in a folder. OSError."""
        self._paths = folder / CHOICES, folder / INPUTS
        self._files: list[IO[bytes]] = []
        for path in self._paths:
            private_files.touch(path)
            self._files.append(path.open("r+b"))
        self._choices = self._inputs = 0
        self.size = 0
        """How many bytes the files have."""

    def take(self, world: World) -> None:
        """Take over what was chosen and let in since the last time; between two steps, or at the end. OSError."""
        choices, inputs = world.take_over()
        packer = msgpack.Packer(autoreset=False)
        for number in choices:
            packer.pack(number)
        self._choices += len(choices)
        self._write(0, packer.bytes())
        packer.reset()
        for each in inputs:
            packer.pack(each)
        self._inputs += len(inputs)
        self._write(1, packer.bytes())

    def _write(self, which: int, packed: bytes) -> None:
        self._files[which].write(packed)
        self.size += len(packed)

    def finish(self, recording: Recording, target: Path) -> None:
        """Write the recording of a run that ended, whose choices and inputs were taken over. OSError."""
        fields = recording.fields()
        choices = self._content(0, msgpack.Packer().pack_array_header(self._choices))
        inputs = self._content(1, msgpack.Packer().pack_array_header(self._inputs))
        with target.open("r+b") as file:
            sealed(file, pieces(fields, {"choices": choices, "inputs": inputs}))

    def _content(self, which: int, head: bytes) -> Iterator[bytes]:
        yield head
        file = self._files[which]
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece

    def close(self) -> None:
        """Remove the files."""
        for file, path in zip(self._files, self._paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)
