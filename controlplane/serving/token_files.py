"""Keys for tokens of service accounts, from the operating system's chance; kept beside a store.

The file is what kube-apiserver takes as --service-account-signing-key-file: a PEM private key.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from actors import private_files
from controlplane.apiserver.requests.token_keys import KEY_BYTES
from controlplane.errors import UsageError

__all__ = ["SUFFIX", "fresh", "kept", "key_of_store"]

SUFFIX: Final = ".token-key"
"""The key of a store in FILE is in FILE.token-key."""
_SIZE_LIMIT: Final = 16_384


def fresh() -> bytes:
    """A fresh key."""
    return _number(ec.generate_private_key(ec.SECP256R1()))


def key_of_store(spec: str) -> bytes:
    """The key of the store that --store names: kept for a file, fresh for memory. Raises UsageError."""
    _, separator, path = spec.partition(":")
    return kept(Path(path + SUFFIX)) if separator else fresh()


def kept(path: Path) -> bytes:
    """The key in a file, which is made when it is not there.

    Raises UsageError: others may read it, it holds no P-256 key, or it cannot be read or written.
    """
    try:
        try:
            made = private_files.create(path)
        except FileExistsError:
            return _read(path)
        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        with os.fdopen(made, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"{path}: no key for tokens: {error.strerror}") from error
    return _number(key)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        text = file.read(_SIZE_LIMIT)
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        shown = f"{stat.S_IMODE(mode):04o}"
        raise UsageError(
            f"{path}: a key for tokens that others may read (mode {shown}): chmod 600 it if no other user read it,"
            " else take it away and a new one is made"
        )
    try:
        key = serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UsageError(f"{path}: no key for tokens: expected a P-256 private key as PEM")
    return _number(key)


def _number(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_numbers().private_value.to_bytes(KEY_BYTES)
