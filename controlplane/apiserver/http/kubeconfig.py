"""The file that tells a client where the server is and how to talk to it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml
from attrs import frozen

from controlplane.errors import UsageError

__all__ = ["MARK", "Address", "read", "write"]

MARK = "# Written by `controlplane serve`; written over by the next one."
NAME = "controlplane"


@frozen
class Address:
    """Where a server is: URL, token ("" for none), and the authority that vouches for it (PEM, b"" for none)."""

    url: str
    token: str
    authority: bytes


def _text(address: Address) -> str:
    cluster: dict[str, Any] = {"server": address.url}
    if address.authority:
        cluster["certificate-authority-data"] = base64.b64encode(address.authority).decode()
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "users": [{"name": NAME, "user": {"token": address.token} if address.token else {}}],
    }
    text: str = yaml.safe_dump(tree, sort_keys=False, width=1_000_000)
    return f"{MARK}\n{text}"


def write(path: Path, address: Address) -> None:
    """Write it whole, readable for the owner only. Refuses to write over a file that is not of this kind."""
    try:
        if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(
            MARK
        ):
            raise UsageError(
                f"{path}: exists and was not written by `controlplane serve`: left alone"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".part")
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(_text(address), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def read(path: Path) -> Address:
    """The address in a kubeconfig that `write` made. Raises UsageError."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        cluster = tree["clusters"][0]["cluster"]
        token = tree["users"][0]["user"].get("token", "")
        authority = base64.b64decode(cluster.get("certificate-authority-data", ""))
        return Address(str(cluster["server"]), str(token), authority)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"{path}: not a kubeconfig that `controlplane serve` wrote") from error
