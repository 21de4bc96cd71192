"""The kubeconfig file with an entry for each running server.

Several sessions may share a file, each under a name of its own. An entry whose server is gone is
dropped by the next write; one whose server answers is never overwritten.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import frozen

from controlplane.api import yaml_text
from controlplane.errors import UsageError

__all__ = ["MARK", "NAME", "Address", "read", "remove", "write"]

MARK: Final = "# Written by `controlplane serve`; written over by the next one."
NAME: Final = "controlplane"
Alone = Callable[[Path], AbstractContextManager[None]]
Tree = dict[str, Any]


@frozen
class Address:
    """The address of a server: URL, token ("" for none), and the certificate's authority (PEM, b"" for none).

    `acts_as` is the user whom a client impersonates, "" for none, and `groups` are that user's.
    """

    url: str
    token: str
    authority: bytes
    acts_as: str = ""
    groups: tuple[str, ...] = ()


def _never_live(_url: str) -> bool:
    return False


def _unguarded(_folder: Path) -> AbstractContextManager[None]:
    return nullcontext()


def write(
    path: Path,
    address: Address,
    name: str = NAME,
    *,
    live: Callable[[str], bool] = _never_live,
    alone: Alone = _unguarded,
) -> None:
    """Add or renew an entry, which becomes the current one; the file is readable for its owner only.

    `live` says whether a server answers at a URL; `alone` keeps others out of a folder meanwhile.

    Raises UsageError for a file that is not of this kind, and for a name whose server answers.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.parent):
            entries = _entries(path)
            there = entries.pop(name, None)
            if there is not None and there.url != address.url and live(there.url):
                raise UsageError(
                    f"{path}: {name} is the server at {there.url}, which runs: choose another --name"
                )
            kept = {key: each for key, each in entries.items() if live(each.url)}
            _replace(path, {**kept, name: address}, name)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def remove(path: Path, address: Address, name: str = NAME, *, alone: Alone = _unguarded) -> None:
    """Take an entry out again if it is still this server's; without entries the file goes, too."""
    try:
        if not path.exists():
            return
        with alone(path.parent):
            entries = _entries(path)
            if entries.get(name) != address:
                return
            current = _current(_parsed(path)) if len(entries) > 1 else ""
            del entries[name]
            if entries:
                _replace(path, entries, current if current in entries else next(iter(entries)))
            else:
                path.unlink(missing_ok=True)
    except (OSError, UsageError):
        return  # the session ends all the same


def _entries(path: Path) -> dict[str, Address]:
    """Return all entries of a file by name. Raises UsageError for a file that this program did not write."""
    if not path.exists():
        return {}
    if not path.read_text(encoding="utf-8", errors="replace").startswith(MARK):
        raise UsageError(f"{path}: exists and was not written by `controlplane serve`: left alone")
    try:
        tree = _parsed(path)
        return {each["name"]: _address(tree, each["name"]) for each in tree["contexts"]}
    except _MALFORMED:
        return {}  # cut short or edited: nothing in it is to be kept


def _replace(path: Path, entries: dict[str, Address], current: str) -> None:
    draft = path.with_name(path.name + ".part")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600, exist_ok=False)
    draft.write_text(_text(entries, current), encoding="utf-8")
    draft.replace(path)


def _text(entries: dict[str, Address], current: str) -> str:
    clusters, contexts, users = [], [], []
    for name, address in entries.items():
        cluster: Tree = {"server": address.url}
        if address.authority:
            authority = base64.b64encode(address.authority).decode()
            cluster["certificate-authority-data"] = authority
        clusters.append({"name": name, "cluster": cluster})
        contexts.append({"name": name, "context": {"cluster": name, "user": name}})
        user: Tree = {"token": address.token} if address.token else {}
        if address.acts_as:
            user["as"] = address.acts_as
        if address.groups:
            user["as-groups"] = [*address.groups]
        users.append({"name": name, "user": user})
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": clusters,
        "contexts": contexts,
        "users": users,
    }
    text: str = yaml.safe_dump(tree, sort_keys=False, width=1_000_000)
    return f"{MARK}\n{text}"


_MALFORMED = (yaml.YAMLError, KeyError, StopIteration, TypeError, AttributeError, ValueError)


def _parsed(path: Path) -> Any:
    return yaml_text.load(path.read_text(encoding="utf-8"))


def _current(tree: Any) -> str:
    return str(tree["current-context"])


def _address(tree: Any, context: str) -> Address:
    def named(kind: str, name: str) -> Any:
        return next(each for each in tree[kind] if each["name"] == name)

    about = named("contexts", context)["context"]
    cluster = named("clusters", about["cluster"])["cluster"]
    token = named("users", about["user"])["user"].get("token", "")
    authority = base64.b64decode(cluster.get("certificate-authority-data", ""))
    return Address(str(cluster["server"]), str(token), authority)


def read(path: Path, name: str = "") -> Address:
    """The address of a context, of the current one if none is named. Raises UsageError."""
    try:
        tree = _parsed(path)
        return _address(tree, name or _current(tree))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except _MALFORMED as error:
        if name:
            raise UsageError(f"{path}: no server named {name!r} in this kubeconfig") from error
        raise UsageError(f"{path}: not a kubeconfig that `controlplane serve` wrote") from error
