"""The recording `run.rec`: everything a run needs to happen again, bit for bit.

Four bytes that say what it is, a checksum, then MessagePack: one map, keys in a fixed order, holding
`format` (this file's format version), `package` (version of the package that wrote it), `header`
(what the caller gave: seed, release, gates, scenario, ...), `labels` and `choices` (see
`actors.choices`; the choices are one flat array kind-and-label number, n, value, ...), `inputs` from
outside, and what came of it: `verdict`, `reason`, `steps`, `t_ns`, `trace_hash`, and the marks that
tell where a replay parts from it. Nothing of the host goes in, so the bytes are the same on every
machine.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgpack
from attrs import field, frozen

from actors import private_files
from actors.choices import N_BITS, N_MAX, ChoiceList
from actors.errors import RecordingError
from actors.inlet import Input
from actors.log import Marks, parted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FORMAT = 2
MAGIC = b"\x93run"
CHECKSUM_BYTES = 16


@frozen
class Recording:
    """A run that can be repeated."""

    package: str
    header: dict[str, Any]
    choices: ChoiceList = field(repr=False)
    inputs: tuple[Input, ...]
    verdict: str
    reason: str
    steps: int
    t_ns: int
    marks: Marks

    @property
    def trace_hash(self) -> str:
        """Identifier of everything that happened."""
        return self.marks.trace_hash

    def to_bytes(self) -> bytes:
        """The file's content."""
        packed = b"".join(pieces(self.fields(), {}))
        return MAGIC + _checksum(packed) + packed

    def fields(self) -> dict[str, Any]:
        """Return the entries of the file's map, in order."""
        return {
            "format": FORMAT,
            "package": self.package,
            "header": _sorted(self.header),
            "labels": self.choices.labels,
            "choices": flat(self.choices.packed),
            "inputs": self.inputs,
            "verdict": self.verdict,
            "reason": self.reason,
            "steps": self.steps,
            "t_ns": self.t_ns,
            "trace_hash": self.trace_hash,
            "digests": b"".join(self.marks.digests),
            "checks": zlib.compress(self.marks.checks, 9),
        }

    def save(self, path: Path) -> None:
        """Write it whole or not at all, for its owner alone to read."""
        private_files.write(path, self.to_bytes())


def flat(packed: Iterable[int]) -> list[int]:
    """Choices as the file has them: number of the label, how many options, which one."""
    found: list[int] = []
    for word in packed:
        found += (word >> (2 * N_BITS), (word >> N_BITS) & N_MAX, word & N_MAX)
    return found


def pieces(fields: dict[str, Any], instead: dict[str, Iterable[bytes]]) -> Iterator[bytes]:
    """Pack a map piece by piece; `instead` has packed values of some of its keys."""
    packer = msgpack.Packer()
    yield packer.pack_map_header(len(fields))
    for name, value in fields.items():
        yield packer.pack(name)
        if name in instead:
            yield from instead[name]
        else:
            yield packer.pack(value)


def sealed(file: IO[bytes], packed: Iterable[bytes]) -> None:
    """Write a recording's content behind what it begins with. OSError."""
    checksum = blake2b(digest_size=CHECKSUM_BYTES)
    file.write(MAGIC + bytes(CHECKSUM_BYTES))
    for piece in packed:
        checksum.update(piece)
        file.write(piece)
    file.seek(len(MAGIC))
    file.write(checksum.digest())


def _checksum(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=CHECKSUM_BYTES).digest()


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value


def load(path: Path, *, package: str | None = None) -> Recording:
    """Read a recording.

    With `package` given, one written by another version of it is refused: schedules move with the code.

    Raises RecordingError with one line that names the file and what is wrong.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
    return from_bytes(raw, str(path), package=package)


def from_bytes(raw: bytes, name: str, *, package: str | None = None) -> Recording:
    """Decode a recording; `name` is used in error messages."""
    if not raw.startswith(MAGIC):
        raise RecordingError(f"{name}: not a recording of this version (it begins otherwise)")
    start = len(MAGIC) + CHECKSUM_BYTES
    packed = raw[start:]
    if _checksum(packed) != raw[len(MAGIC) : start]:
        raise RecordingError(f"{name}: damaged recording: its checksum is wrong")
    try:
        data = msgpack.unpackb(packed, strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise RecordingError(f"{name}: not a recording (not MessagePack, or cut short)") from error
    if not isinstance(data, dict) or "format" not in data:
        raise RecordingError(f"{name}: not a recording (no format number)")
    if data["format"] != FORMAT:
        found = repr(data["format"])[:_SAID]
        raise RecordingError(f"{name}: recording format {found}, expected {FORMAT}")
    if package is not None and data.get("package") != package:
        found = repr(data.get("package"))[:_SAID]
        raise RecordingError(f"{name}: recorded by version {found}, this is {package!r}")
    try:
        choices = _choices(data["labels"], data["choices"])
        return Recording(
            data["package"],
            dict(data["header"]),
            choices,
            tuple(_input(*entry) for entry in data["inputs"]),
            str(data["verdict"]),
            str(data["reason"]),
            int(data["steps"]),
            int(data["t_ns"]),
            Marks(
                str(data["trace_hash"]),
                parted(_bytes(data["digests"])),
                _inflated(_bytes(data["checks"])),
            ),
        )
    except (LookupError, TypeError, ValueError, OverflowError, zlib.error) as error:
        said = " ".join(str(error).split())[:_SAID]
        raise RecordingError(
            f"{name}: damaged recording: {type(error).__name__}: {said}"
        ) from error


_SAID = 200
_RATIO = 1 << 8
_ROOM = 1 << 20
"""A compressed part may hold this number of bytes, and a multiple of its own size: random data are not compressed."""


def _bytes(value: object) -> bytes:
    if type(value) is bytes:
        return value
    raise TypeError("digests that are no bytes")


def _inflated(packed: bytes) -> bytes:
    """Return the decompressed bytes. ValueError if they are far more than such a part ever has."""
    reader = zlib.decompressobj()
    found = reader.decompress(packed, _ROOM + _RATIO * len(packed))
    if not reader.eof:
        raise ValueError("a compressed part is cut short, or holds too much")
    return found


def _input(step: object, t_ns: object, actor: object, payload: object) -> Input:
    if type(step) is int and type(t_ns) is int and type(actor) is str and type(payload) is bytes:
        return Input(step, t_ns, actor, payload)
    raise TypeError("an input of another form")


def _choices(labels: list[list[str]], flat: list[int]) -> ChoiceList:
    if len(flat) % 3:
        raise ValueError("choice list cut short")
    choices = ChoiceList()
    for at in range(0, len(flat), 3):
        kind, label = labels[flat[at]]
        choices.append(kind, flat[at + 1], flat[at + 2], label)
    return choices
