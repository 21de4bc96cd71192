"""`tar` of the emulated shell, over archives in memory."""

from __future__ import annotations

import io
import posixpath
import tarfile
from typing import TYPE_CHECKING, Final

from controlplane.shell.shell import COMMAND, Shell
from controlplane.shell.streams import Exhausted, Input, Ran, check_output

if TYPE_CHECKING:
    from typing import Self

__all__ = ["tar"]

MEMBER: Final = 60
"""Steps of reading or writing one file of an archive."""
_PAGE: Final = 10
"""The number of bytes (as a power of two) whose reading is one step."""
_EXTENDED: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.GNUTYPE_SPARSE,
)


def tar(shell: Shell, words: list[str], given: Input) -> Ran:
    """`tar cf - PATH...` and `tar xmf - -C FOLDER`, which is all that `kubectl cp` asks for."""
    letters, rest = words[0].lstrip("-") if words else "", words[1:]
    folder = shell.directory
    if "-C" in rest:
        at = rest.index("-C")
        folder = shell.path(rest[at + 1]) if at + 1 < len(rest) else folder
        rest = rest[:at] + rest[at + 2 :]
    if "x" in letters:
        return _unpacked(shell, folder, given.rest())
    if "c" not in letters:
        return Ran(err=b"tar: must specify one of c, x\n", code=1)
    made = io.BytesIO()
    files = shell.all_files()
    names = sorted(files)
    missing = ""
    with tarfile.open(fileobj=made, mode="w") as archive:
        for word in [word for word in rest if word != "-"]:
            path = posixpath.normpath(posixpath.join(folder, word))
            shell.spend(COMMAND + len(files))
            chosen = [each for each in names if each == path or each.startswith(f"{path}/")]
            if not chosen:
                missing += f"tar: {word}: Cannot stat: No such file or directory\n"
            for each in chosen:
                about = tarfile.TarInfo(word.lstrip("/") + each[len(path) :])
                about.size = len(files[each])
                shell.spend(MEMBER, 2 * about.size)
                check_output(made.tell() + about.size)
                about.mode = 0o644
                archive.addfile(about, io.BytesIO(files[each]))
    return Ran(made.getvalue(), missing.encode(), 2 if missing else 0)


def _counting(shell: Shell) -> type[tarfile.TarInfo]:
    """Headers of archives whose reading is counted: Python reads extended ones in the square of their length."""

    class Member(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            found = super().frombuf(buf, encoding, errors)
            extended = found.type in _EXTENDED
            shell.spend(MEMBER + (found.size**2 >> _PAGE if extended else 0))
            return found

    return Member


def _unpacked(shell: Shell, folder: str, given: bytes) -> Ran:
    try:
        members = _counting(shell)
        with tarfile.open(fileobj=io.BytesIO(given), mode="r:", tarinfo=members) as archive:
            for member in archive:
                if member.size > len(given):  # holes are not kept
                    raise Exhausted(f"{member.name}: Unexpected EOF in archive")
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    shell.spend(MEMBER, 2 * member.size)
                    path = posixpath.normpath(posixpath.join(folder, member.name.lstrip("/")))
                    shell.keep(path, content.read())
    except tarfile.TarError as error:
        return Ran(err=f"tar: {error}\n".encode(), code=1)
    return Ran()
