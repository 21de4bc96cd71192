"""Keys for tokens: from the system, kept beside a store, and nobody else's."""

from __future__ import annotations

import os
import stat

import pytest
from cryptography.hazmat.primitives import serialization

from controlplane.apiserver.requests.token_keys import token_key
from controlplane.errors import UsageError
from controlplane.serving.token_files import fresh, kept, key_of_store


def test_a_store_keeps_its_key_and_memory_has_a_new_one_each_time(tmp_path):
    spec = f"sqlite:{tmp_path}/store.db"
    first = key_of_store(spec)
    assert key_of_store(spec) == first
    assert len({first, fresh(), key_of_store("memory"), key_of_store("memory")}) == 4


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_read_the_key_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        kept(tmp_path / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_the_file_is_a_key_as_others_know_it(tmp_path):
    secret = kept(tmp_path / "key")
    found = serialization.load_pem_private_key((tmp_path / "key").read_bytes(), None)
    assert found.private_numbers().private_value == int.from_bytes(secret)
    assert token_key(secret).kid


def test_a_key_that_others_may_read_is_refused_in_one_line(tmp_path):
    path = tmp_path / "key"
    kept(path)
    path.chmod(0o640)
    with pytest.raises(UsageError, match=r"others may read \(mode 0640\)"):
        kept(path)


@pytest.mark.parametrize("content", [b"", b"nothing", b"x" * 100_000])
def test_what_is_no_key_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="expected a P-256 private key"):
        kept(path)
    assert path.read_bytes() == content


def test_no_place_for_a_key_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="no key for tokens: No such file"):
        kept(tmp_path / "none" / "key")
