"""Where the keys for seals come from, and that no secret is told."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conversations import DeclarationError, WorkerSettings
from conversations.seal_keys import (
    SECRET_BYTES,
    Key,
    KeyFile,
    Keys,
    KeyTable,
    KeyVariable,
    check_place,
    new_secret,
    provider_at,
)
from conversations_ops.settings.given import differences, given
from tests.support.documents import block

SECRET = bytes(range(SECRET_BYTES))
WRITTEN = base64.b64encode(SECRET).decode()
TABLE = {"credit": [{"id": "new", "secret": WRITTEN}, {"id": "old", "secret": new_secret()}]}


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_has_the_keys_of_each_peer_and_the_first_one_seals(tmp_path: Path) -> None:
    keys = KeyFile(written(tmp_path / "keys.json", json.dumps(TABLE))).keys_for("credit")
    assert keys is not None
    assert (keys.first.id, keys.first.secret) == ("new", SECRET)
    assert [key.id for key in keys.keys] == ["new", "old"]
    assert keys.find("old") is keys.keys[1]
    assert keys.find("none") is None
    assert KeyFile(tmp_path / "keys.json").keys_for("other") is None


def test_the_group_may_read_the_file_and_nobody_else_may(tmp_path: Path) -> None:
    path = written(tmp_path / "keys.json", json.dumps(TABLE), 0o640)
    KeyFile(path)
    for mode in (0o604, 0o644, 0o620, 0o602, 0o610, 0o601):
        path.chmod(mode)
        with pytest.raises(DeclarationError, match="run chmod 600"):
            KeyFile(path)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"absent\.json cannot be read: No such file"):
        KeyFile(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        (WRITTEN, "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "has the form"),
        ('{"no service!": []}', "no service can have the name"),
        ('{"credit": {}}', "keys of credit have the form"),
        ('{"credit": []}', "from 1 to 16 keys, not 0"),
        (json.dumps({"credit": TABLE["credit"] * 9}), "from 1 to 16 keys, not 18"),
        (json.dumps({"credit": TABLE["credit"][:1] * 2}), "same id"),
        ('{"credit": [{"id": "a"}]}', "keys of credit have the form"),
        ('{"credit": [{"id": "a", "secret": 5}]}', "key 'a' does not have 32 bytes"),
        ('{"credit": [{"id": "a", "secret": "c2hvcnQ="}]}', "key 'a' does not have 32 bytes"),
        (json.dumps({"credit": [{"id": WRITTEN * 2, "secret": "a"}]}), "is it the secret"),
        ('{"credit": [{"id": 5, "secret": "a"}]}', "is it the secret"),
        (" " * 1_000_001, "more than 1000000 bytes"),
    ],
)
def test_what_is_not_a_table_of_keys_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(DeclarationError, match=why) as error:
        KeyFile(written(tmp_path / "keys.json", text))
    assert WRITTEN not in str(error.value)
    assert "c2hvcnQ" not in str(error.value)


def test_a_variable_has_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEYS", json.dumps(TABLE))
    assert KeyVariable("THE_KEYS").keys_for("credit") is not None
    monkeypatch.delenv("THE_KEYS")
    with pytest.raises(DeclarationError, match="no environment variable THE_KEYS"):
        KeyVariable("THE_KEYS")


def test_no_secret_is_in_a_repr(tmp_path: Path) -> None:
    provider = KeyFile(written(tmp_path / "keys.json", json.dumps(TABLE)))
    keys = provider.keys_for("credit")
    told = f"{provider!r} {provider} {keys!r} {keys} {WorkerSettings(keys=provider)!r} {vars(Key('a', SECRET)).keys()}"
    assert "KeyFile(credit)" in told
    for secret in (WRITTEN, repr(SECRET)[2:-1], SECRET.hex(), "\\x1e"):
        assert secret not in told


class Vault:
    """A provider of an application."""

    def keys_for(self, peer: str) -> Keys | None:
        return Keys((Key(peer, SECRET),))


class Sealed:
    """A vault that cannot be opened, and tells its secret."""

    def __init__(self) -> None:
        raise OSError(WRITTEN)


def test_a_class_of_the_application_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "the_vault", sys.modules[__name__])
    keys = provider_at("class:the_vault:Vault").keys_for("credit")
    assert keys is not None
    assert keys.first.id == "credit"
    with pytest.raises(DeclarationError, match="the_vault:Sealed cannot be made: OSError") as error:
        provider_at("class:the_vault:Sealed")
    assert WRITTEN not in str(error.value)
    with pytest.raises(DeclarationError, match="cannot be made: AttributeError"):
        provider_at("class:the_vault:Absent")
    with pytest.raises(DeclarationError, match="no method keys_for"):
        provider_at("class:pathlib:Path")


@pytest.mark.parametrize("text", ["", WRITTEN, "file:", "file", "keys.json", "class:module", "class:a:b:c", "vault:x"])
def test_a_place_has_a_kind(text: str) -> None:
    with pytest.raises(ValueError, match="keys are at file:PATH") as error:
        check_place(text)
    assert text != WRITTEN or text not in str(error.value)
    with pytest.raises(ValueError, match="keys are at file:PATH"):
        WorkerSettings(keys=text)


def test_the_setting_names_the_place_and_the_start_shows_only_that(tmp_path: Path) -> None:
    path = written(tmp_path / "keys.json", json.dumps(TABLE))
    settings = given([f"worker.keys=file:{path}"]).worker_settings()
    assert settings.keys == f"file:{path}"
    assert differences(settings) == {"worker.keys": (f"file:{path}", "never")}
    assert given(["worker.keys=never"]).worker_settings(settings).keys is None
    shown: Any = differences(WorkerSettings(keys=KeyTable({"credit": Keys((Key("a", SECRET),))})))
    assert shown == {"worker.keys": ("class:conversations.seal_keys:KeyTable", "never")}


def test_the_examples_of_the_page_are_keys(tmp_path: Path) -> None:
    keys = KeyFile(written(tmp_path / "keys.json", block("docs/sealing.md 1"))).keys_for("credit")
    assert keys is not None
    names: dict[str, Any] = {}
    exec(block("docs/sealing.md 2"), names)
    found = names["Vault"]().keys_for("credit")
    assert found.first.id == keys.first.id == "2026-11"
    assert names["Vault"]().keys_for("other") is None


def test_a_new_secret_is_a_secret() -> None:
    found = {new_secret() for _ in range(10)}
    assert len(found) == 10
    assert all(len(base64.b64decode(it)) == SECRET_BYTES for it in found)
