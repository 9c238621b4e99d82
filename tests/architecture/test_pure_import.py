"""What importing the core drags in, seen from a fresh interpreter: import contracts do not see ``__init__`` at run time."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BLOCKED_IMPORT = """
import importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"confluent_kafka", "rocksdict"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["conversations", "conversations.protocol", "conversations.schemas"])
def test_pure_packages_import_without_kafka_or_rocksdb(module: str) -> None:
    """A Spark executor decodes envelopes with the protocol alone; librdkafka is not installed there."""
    done = run(f"{BLOCKED_IMPORT}\nimport {module}")
    assert done.returncode == 0, done.stderr


def test_the_block_itself_works() -> None:
    assert run(f"{BLOCKED_IMPORT}\nimport confluent_kafka").returncode != 0
