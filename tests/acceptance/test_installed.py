"""The installed wheel on a user's first day: beside modules of common names, and in a container."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conversations_ops.broker.jars import ensure_jars
from conversations_ops.cache import cache_directory
from spark_jobs.running.session import spark_jars
from tests.support.documents import block, with_words
from tests.support.waiting import SLOWER

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = Path(__file__).parent / "support"
VOLUME = "/volume"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing but the wheel of this tree."""
    out = tmp_path_factory.mktemp("installed")
    build = ["-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    made = out / "environment"
    python = str(made / "bin" / "python")
    for command in (
        [sys.executable, *build],
        [sys.executable, "-m", "venv", "--without-pip", str(made)],
    ):
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100 * SLOWER)
    (wheel,) = out.glob("*.whl")
    install = ["-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True, timeout=100 * SLOWER)
    return made


@pytest.fixture(scope="module")
def jars(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that everybody may read, with the jars of the broker and of Spark's connectors. So no step needs the network."""
    out = tmp_path_factory.mktemp("downloaded") / "cache"
    ensure_jars(spark_jars(), cache_directory() / "spark-jars", "Spark's connectors")
    for name in ("jars", "spark-jars"):
        shutil.copytree(cache_directory() / name, out / name).chmod(0o755)
    return out


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a user: the README's service, test and client beside ``schemas.py``, ``ops.py`` and a package ``tests``."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    trap = "raise SystemExit('a module of the user was imported')\n"
    for name in ("schemas.py", "ops.py", "spark.py", "kafka.py", "protocol.py", "tests/__init__.py"):
        (folder / name).write_text(trap)
    (folder / "hello.py").write_text(block("README.md 1"))
    (folder / "test_hello.py").write_text(block("README.md 5"))
    address = 'Kafka(__import__("os").environ["CONVERSATIONS_BOOTSTRAP"])'
    (folder / "ask.py").write_text(with_words(block("README.md 4"), {'Kafka("127.0.0.1:9092")': address}))
    return folder


def dependencies() -> str:
    """Return the directory of the packages that this environment has. Its own ``.pth`` files have no effect elsewhere."""
    return str(Path(pytest.__file__).parents[1])


def variables(environment: Path, project: Path, volume: str, jars: Path) -> list[str]:
    """Return the whole environment of the user's terminal, as ``env`` takes it."""
    java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}
    given = java | {
        "PATH": f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": dependencies(),
        "WORK": str(project),
        "VOLUME": volume,
        "JARS": str(jars),
        "JAVA_TOOL_OPTIONS": os.environ.get("JAVA_TOOL_OPTIONS", ""),
    }
    return [f"{name}={value}" for name, value in given.items()]


def first_day(command: list[str]) -> list[str]:
    """Run the steps of the first day, and return the lines that they print."""
    done = subprocess.run(
        [*command, "/bin/bash", str(SUPPORT / "first_day.sh")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=280 * SLOWER,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def check_day(lines: list[str], environment: Path) -> None:
    """Check what the steps printed: the code is the wheel's, and every step did its work."""
    assert lines[1].startswith(str(environment)), lines[1]
    assert lines.count("Hello, Ada") == 2
    assert any("1 passed" in line for line in lines)
    assert any(line.startswith("1 dialog, 4 messages sent, 4 accepted") for line in lines), "\n".join(lines)
    assert "no faults" in lines


@pytest.mark.long
def test_the_wheel_beside_modules_of_common_names(environment: Path, project: Path, jars: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = variables(environment, project, str(tmp_path), jars)
    check_day(first_day(["/usr/bin/env", "-i", *settings, f"HOME={home}"]), environment)
    assert not list(home.iterdir()), "all files are on the volume"


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare, for a root of its own"
)
def test_the_wheel_in_a_container_as_nobody(environment: Path, project: Path, jars: Path, tmp_path: Path) -> None:
    """No home directory, a root that is read-only, one volume that is writable."""
    root = tmp_path / "root"
    root.mkdir()
    shared = [
        "/usr", "/bin", "/lib", "/lib64", "/etc", sys.base_prefix, str(environment), dependencies(), str(project), str(SUPPORT), str(jars),
    ]  # fmt: skip
    there = " ".join(dict.fromkeys(it for it in shared if Path(it).is_dir()))
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    container = ["/bin/bash", str(SUPPORT / "container.sh"), str(root), VOLUME, there]
    check_day(
        first_day([*own, *container, "/usr/bin/env", "-i", *variables(environment, project, VOLUME, jars)]), environment
    )
