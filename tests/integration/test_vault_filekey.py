# SPDX-License-Identifier: Apache-2.0
"""The key of a store whose passphrase is in a file is made once, and remembered for that file only."""

import errno
import json
import os
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from vault_driver import VALUE, Vault  # noqa: E402


@pytest.fixture
def vault(runner):
    v = Vault(runner)
    v.define(one={"store": "file"})
    yield v
    v.run("--lock")


# 128 MiB are what scrypt needs: where there are less, only a key that is known already opens the store.
LITTLE_MEMORY = ["prlimit", f"--as={100 << 20}"]


def opens_without_scrypt(vault, **env):
    r = vault.runner.run(*LITTLE_MEMORY, vault.program, "--check", "one", env={**vault.env, **env})
    answer = json.loads(r.out)
    assert r.rc == (0 if answer["ok"] else 1) and not r.err, r
    return True if answer["ok"] else answer["error"]


@pytest.fixture
def remembered(vault):
    assert vault.run("--unlock").rc == 1  # no store yet
    assert vault.put("one").rc == 0
    found = opens_without_scrypt(vault)
    if found is not True and b"keyring cannot be used" in vault.run("--unlock").err:
        pytest.skip("needs a kernel with keyrings")
    assert found is True, found
    return vault


def test_passphrase_file_is_derived_once(remembered):
    """The key is remembered for the file, until it is locked; then it is made once more."""
    vault = remembered
    assert opens_without_scrypt(vault) is True
    assert vault.run("--lock").rc == 0
    assert "128 MiB" in opens_without_scrypt(vault)
    assert vault.get("one").value == VALUE
    assert opens_without_scrypt(vault) is True
    keys = pathlib.Path("/proc/keys").read_text() if vault.runner.is_root else ""
    mine = [line for line in keys.splitlines() if f"bawn:{vault.file.read_bytes()[16:32].hex()}-file" in line]
    assert not vault.runner.is_root or re.search(r" 3f0b0000 ", mine[0]) and re.search(r" (1h|\d+m) ", mine[0]), "only the user, for an hour"


def test_only_the_passphrase_file_opens(remembered):
    """A key that is remembered for a file is none for vaults that have not this file, or another one with the same words, or none."""
    vault, path = remembered, pathlib.Path(remembered.env["BAWN_PASSPHRASE_FILE"])
    assert "bawn secret unlock" in opens_without_scrypt(vault, BAWN_PASSPHRASE_FILE=None)
    assert vault.get("one", env={"BAWN_PASSPHRASE_FILE": None}).status == -errno.ENOKEY
    assert "128 MiB" in opens_without_scrypt(vault, BAWN_PASSPHRASE_FILE=str(vault.secret_file("same", path.read_text())))
    wrong = str(vault.secret_file("wrong", "open barley\n"))
    assert vault.get("one", env={"BAWN_PASSPHRASE_FILE": wrong}).status == -errno.ENOKEY
    assert opens_without_scrypt(vault) is True, "what others tried changes nothing"
    before = path.stat()
    path.write_text("open barley\n")  # as long, in the same place, with the same time
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert vault.get("one").status == -errno.ENOKEY
    path.write_text("open sesame\n")
    path.chmod(0o644)
    assert "chmod 600" in opens_without_scrypt(vault)
    path.chmod(0o600)
    assert vault.get("one").value == VALUE
    path.rename(path.with_name("elsewhere"))
    assert "open the file" in opens_without_scrypt(vault)


def test_remembered_for_another_store(remembered):
    """A store that is put in its place has another key."""
    vault = remembered
    first = vault.file.read_bytes()
    vault.file.unlink()
    assert vault.put("one", "a-new-value-0123").rc == 0
    vault.file.write_bytes(first[:16] + vault.file.read_bytes()[16:32] + first[32:])  # the new one's id in the old one's file
    assert vault.get("one").status != 0
    vault.file.write_bytes(first)
    assert vault.get("one").value == VALUE
