"""The choices and inputs of a long run, kept in files instead of memory until its recording is written.

The files hold choices, labels and inputs in the packed form of the recording, which `finish` puts together piece
by piece. See `actors.recording` for the format.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import msgpack

from actors import private_files
from actors.recording import pieces, sealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from actors.recording import Recording
    from actors.world import World

__all__ = ["Spool"]

CHOICES: Final = "choices.part"
LABELS: Final = "labels.part"
INPUTS: Final = "inputs.part"
_PIECE: Final = 1 << 20


class Spool:
    """Takes a world's choices, labels and inputs from time to time. The files are for their owner alone."""

    def __init__(self, folder: Path) -> None:
        """Begin with empty files in a folder. Raises OSError."""
        self._paths = folder / CHOICES, folder / LABELS, folder / INPUTS
        self._files: list[IO[bytes]] = []
        for path in self._paths:
            private_files.touch(path)
            self._files.append(path.open("r+b"))
        self._counts = [0, 0, 0]
        self.size = 0
        """The size of the files in bytes."""

    def take(self, world: World) -> None:
        """Take the choices, labels and inputs since the last call; between two steps, or at the end. OSError."""
        parts: tuple[Sequence[object], ...] = world.take_over()
        for which, news in enumerate(parts):
            packer = msgpack.Packer(autoreset=False)
            for each in news:
                packer.pack(each)
            packed = packer.bytes()
            self._files[which].write(packed)
            self._counts[which] += len(news)
            self.size += len(packed)

    def finish(self, recording: Recording, target: Path) -> None:
        """Write the recording of a run that ended, whose choices and inputs were taken. Raises OSError."""
        fields = recording.fields()
        names = ("choices", "labels", "inputs")
        instead: dict[str, Iterable[bytes]] = {
            name: self._content(which) for which, name in enumerate(names)
        }
        with target.open("r+b") as file:
            sealed(file, pieces(fields, instead))

    def _content(self, which: int) -> Iterator[bytes]:
        yield msgpack.Packer().pack_array_header(self._counts[which])
        file = self._files[which]
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece

    def close(self) -> None:
        """Remove the files."""
        for file, path in zip(self._files, self._paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)
