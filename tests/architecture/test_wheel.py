"""What the wheel installs: names that nobody else uses, and everything that the code reads."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files of a wheel that is built from the tree as it is."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (wheel,) = out.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_no_name_is_installed_that_others_use(names: list[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "conversations", "conversations_ops", "spark_jobs",
    }  # fmt: skip


def test_all_data_is_installed_with_the_code(names: list[str]) -> None:
    """Every file of the packages that git knows, but for none."""
    listed = subprocess.run(
        ["git", "ls-files", "conversations", "spark_jobs", "ops/conversations_ops"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    expected = {name.removeprefix("ops/") for name in listed}
    assert expected - set(names) == set()
    assert {"conversations/py.typed", "conversations_ops/py.typed", "spark_jobs/py.typed"} <= expected


def test_a_users_own_modules_keep_their_names(tmp_path: Path) -> None:
    """A project with ``schemas.py`` and ``ops.py`` beside its service is read as it is."""
    (tmp_path / "schemas.py").write_text("NAME = 'shop'\n")
    (tmp_path / "ops.py").write_text("raise SystemExit('not ours to import')\n")
    (tmp_path / "shop.py").write_text(
        "from conversations import Service\nimport schemas\nservice = Service(schemas.NAME)\n"
    )
    program = Path(sys.executable).with_name("conversations")
    done = subprocess.run(
        [program, "check", "shop:service"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "shop" in done.stdout
