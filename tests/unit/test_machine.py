"""The memory that a process may use, as the system and its control groups tell it."""

from pathlib import Path

import pytest

from conversations import Limits, machine
from conversations.worker.residents import CACHED_SHARE, ENDPOINT_BYTES, most_of


def limits(tmp_path: Path, own: str, files: dict[str, str]) -> list[int]:
    """Read limits in a tree of control groups that has these files."""
    groups, told = tmp_path / "cgroup", tmp_path / "own"
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    told.write_text(own)
    return list(machine._limits(groups, told))


def test_a_container_has_the_limit_of_its_own_group(tmp_path: Path) -> None:
    """It sees its group as the root."""
    assert limits(tmp_path, "0::/\n", {"memory.max": "512000000\n"}) == [512_000_000]


def test_each_group_above_limits_too(tmp_path: Path) -> None:
    files = {"a/memory.max": "900\n", "a/b/memory.max": "max\n", "a/b/c/memory.max": "1000\n"}
    assert limits(tmp_path, "0::/a/b/c\n", files) == [1_000, 900]


def test_groups_of_version_1_and_no_groups_at_all(tmp_path: Path) -> None:
    assert limits(tmp_path, "5:memory:/x\n", {"memory/memory.limit_in_bytes": "700\n"}) == [700]
    assert list(machine._limits(tmp_path / "none", tmp_path / "none")) == []


def test_memory_is_at_most_that_of_the_machine() -> None:
    assert 1 << 20 < machine.memory() <= machine.installed()


def test_endpoints_in_memory_are_a_share_of_it_unless_a_setting_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conversations.worker.residents.memory", lambda: 24_000 * ENDPOINT_BYTES)
    assert most_of(Limits()) == 24_000 // CACHED_SHARE
    assert most_of(Limits(cached_bytes=7 * ENDPOINT_BYTES)) == 7
    assert most_of(Limits(cached_bytes=1)) == 1


def test_without_control_groups_it_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "none")
    monkeypatch.setattr(machine, "OWN_GROUP", tmp_path / "none")
    assert machine.memory.__wrapped__() == machine.installed()
