"""Makes ``jars.lock``. After a change of ROOTS, run ``python -m bench.remote.make_lock``, and review the difference."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.remote.mirror import LOCK
from conversations_ops.broker.jars import digest
from conversations_ops.broker.maven import resolve
from conversations_ops.broker.server import KAFKA_VERSION

ROOTS = [f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36"]
HEADER = "# Jars of MirrorMaker 2, made by make_lock.py: coordinate, sha256, size in bytes.\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        resolved = resolve(ROOTS, Path(scratch))
        rows = [(coordinate, digest(path), path.stat().st_size) for coordinate, path in resolved]
    LOCK.write_text(HEADER + "".join(f"{name} {sha256} {size}\n" for name, sha256, size in rows), encoding="utf-8")
    print(f"{len(rows)} jars, {sum(size for _, _, size in rows) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
