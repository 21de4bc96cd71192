"""Start a command in a mount namespace of its own: `python launcher.py FILE COMMAND...`.

FILE is JSON: `hostname`, `files` by path (base64) and `folders` that are mounted empty over what is there. A script of
its own, which imports nothing of this package, so that it starts in a few milliseconds. Exit status 125 where the
system does not allow namespaces.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import sys
from pathlib import Path

NEWNS, NEWUTS, NEWUSER = 0x00020000, 0x04000000, 0x10000000
BIND, PRIVATE, RECURSIVE = 4096, 1 << 18, 16384
REFUSED = 125

_libc = ctypes.CDLL(None, use_errno=True)


def _unshare(flags: int) -> bool:
    done: int = _libc.unshare(flags)
    return done == 0


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    done = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode())
    if done != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def enter() -> bool:
    """Enter namespaces of its own, as root or by a user namespace; return whether that was allowed."""
    user, group = os.getuid(), os.getgid()
    if not _unshare(NEWNS | NEWUTS):
        if not _unshare(NEWUSER | NEWNS | NEWUTS):
            return False
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
    _mount("none", "/", "none", RECURSIVE | PRIVATE)
    return True


def _cover(folder: Path) -> None:
    """Mount a writable copy of a folder's entries over it, so that new ones can be made."""
    descriptor = os.open(folder, os.O_PATH)
    old = f"/proc/self/fd/{descriptor}"
    entries = [(each.name, each.is_dir(), each.is_symlink()) for each in folder.iterdir()]
    _mount("tmpfs", str(folder), "tmpfs", 0, "mode=755")
    for name, is_folder, is_link in entries:
        here, there = folder / name, f"{old}/{name}"
        if is_link:
            here.symlink_to(Path(there).readlink())
            continue
        if is_folder:
            here.mkdir()
        else:
            here.touch()
        try:
            _mount(there, str(here), "none", BIND | RECURSIVE)
        except OSError:
            continue


def lay_out(folders: list[str], files: dict[str, str]) -> None:
    """Mount the folders empty, and write the files."""
    for name in folders:
        folder = Path(name)
        if not folder.is_dir():
            parent = folder
            while not parent.is_dir():
                parent = parent.parent
            if str(parent) != "/":
                _cover(parent.resolve())
            folder.mkdir(parents=True, exist_ok=True)
        _mount("tmpfs", str(folder.resolve()), "tmpfs", 0, "mode=755")
    for name, data in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))


def main() -> None:
    """Do it."""
    told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        if not enter():
            sys.exit(REFUSED)
        lay_out(told["folders"], told["files"])
        hostname = told["hostname"].encode()
        _libc.sethostname(hostname, len(hostname))
    except OSError as error:
        print(f"launcher: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(REFUSED)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606
    except OSError as error:
        print(f"{sys.argv[2]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(127)


if __name__ == "__main__":
    main()
