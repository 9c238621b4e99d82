"""What holds messages or says who holds what is its owner's alone; and nothing of the current directory is run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest
from typer.testing import CliRunner

from conversations.config import Kafka
from conversations.private_files import private_directory, private_file
from conversations.stores.rocksdb import RocksStores
from conversations_ops.broker import named
from conversations_ops.broker.errors import NotTheBroker
from conversations_ops.broker.named import Record, held
from conversations_ops.cache import cache_directory
from conversations_ops.cli.app import app
from conversations_ops.host.child import Spec
from conversations_ops.host.slots import take
from conversations_ops.settings.file import VARIABLE
from conversations_ops.settings.given import given as settings_given

SECRET = "hunter-2"


def mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that everybody may look into, as an earlier version left it."""
    found = tmp_path / "cache"
    found.mkdir(mode=0o755)
    monkeypatch.setenv("CONVERSATIONS_CACHE", str(found))
    return found


def test_directories_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_directory(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(made)) == (0o700, 0o700)
    assert mode(tmp_path) == mode(tmp_path.resolve()), "it was there before, and is not ours to close"


def test_what_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    (tmp_path / "a").chmod(0o775)
    assert mode(private_directory(tmp_path / "a")) == 0o700
    (tmp_path / "f").touch()
    (tmp_path / "f").chmod(0o644)
    with private_file(tmp_path / "f"):
        assert mode(tmp_path / "f") == 0o600


def test_a_directory_for_everybody_stays_open_and_what_is_in_it_is_closed(tmp_path: Path, cache: Path) -> None:
    """Root owns /tmp: who makes it root's alone breaks the machine."""
    cache.chmod(0o1777)
    assert cache_directory() == cache
    assert (mode(cache), mode(named.directory())) == (0o1777, 0o700)
    RocksStores(cache).open(0, "topic").close()
    assert (mode(cache), mode(cache / "0")) == (0o1777, 0o700)
    RocksStores(cache).open(0, "topic").close()  # as it was left, with nothing damaged
    assert not (cache / "0.damaged").exists()


def test_local_state_the_cache_slots_and_locks_are_their_owners_alone(tmp_path: Path, cache: Path) -> None:
    state = tmp_path / "given" / "orders" / "slot"
    state.mkdir(parents=True, mode=0o755)
    RocksStores(state).open(0, "topic").close()
    assert mode(state) == 0o700
    assert mode(cache_directory()) == mode(cache) == 0o700
    _, file = take(tmp_path / "slots", "a", "a-1")
    with file:
        assert (mode(tmp_path / "slots"), mode(tmp_path / "slots" / "a-1.lock")) == (0o700, 0o600)
    with held("one"):
        assert (mode(named.directory()), mode(named.lock_path("one"))) == (0o700, 0o600)


# -- passwords --------------------------------------------------------------------------------------------------------


def test_no_password_is_in_what_is_shown_of_settings() -> None:
    kafka = Kafka("host:1", settings={"sasl.password": SECRET})
    spec = Spec(
        target="a:b", bootstrap="host:1", namespace="n", settings={"sasl.password": SECRET}, state=None,
        slots="/s", base="x", log_level="info", log_json=False,
    )  # fmt: skip
    shown = [repr(kafka), repr(spec)]
    if wire := pytest.importorskip("spark_jobs.reading.wire"):
        shown.append(repr(wire.Wire(kafka, {"kafka.sasl.jaas.config": SECRET})))
    assert not [text for text in shown if SECRET in text]


@pytest.mark.parametrize(("given", "warned"), [(0o600, False), (0o640, False), (0o644, True), (0o604, True)])
def test_a_settings_file_that_everybody_may_read_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, given: int, warned: bool
) -> None:
    file = tmp_path / "settings"
    file.write_text(f"sasl.password={SECRET}\n")
    file.chmod(given)
    monkeypatch.setenv(VARIABLE, str(file))
    assert settings_given().of_clients() == {"sasl.password": SECRET}
    assert ("everybody on this machine may read" in caplog.text) is warned
    assert SECRET not in caplog.text


# -- other people's processes and modules ------------------------------------------------------------------------------


def test_a_process_that_is_no_broker_is_not_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other, held("one"):
        named.write(Record("one", other.pid, "127.0.0.1:1", "/data", "/log", kept=True, started_at=0.0))
        with pytest.raises(NotTheBroker, match=f"process {other.pid}"):
            named.stop("one")
        result = CliRunner().invoke(app, ["broker", "stop", "one", "--json"])
        assert (result.exit_code, json.loads(result.stdout)["kind"]) == (1, "NotTheBroker")
        assert other.poll() is None
        other.communicate(b"\n")
        assert other.returncode == 0


@pytest.mark.parametrize("text", ['{"pid": "x"}', "[]", "{", '{"name": "one", "pid": -1}'])
def test_a_record_of_a_broker_that_is_none_is_none(text: str) -> None:
    named.record_path("one").write_text(text)
    assert named.find_all() == []


def test_nothing_of_the_current_directory_takes_the_place_of_pythons_modules(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    here = tmp_path / "here"
    here.mkdir()
    for module in ("random", "argparse", "logging", "json"):
        (here / f"{module}.py").write_text("raise SystemExit(99)\n")
    program = Path(sys.executable).with_name("conversations")
    done = subprocess.run(
        [program, "spark", "archive", "--help"], cwd=here, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "usage: conversations spark archive" in done.stdout) == (0, True), done.stderr
