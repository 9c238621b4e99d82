"""Makes ``jars.lock``. After a change of ROOTS, run ``python -m conversations_ops.broker.make_lock``.

It resolves ROOTS and their runtime dependencies, and writes the coordinate, sha256 and size of each jar. Review the difference before
you commit it: the machines of all users will run the code in these jars.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from conversations_ops.broker.jars import LOCK_NAME, digest
from conversations_ops.broker.maven import resolve

ROOTS = [
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.slf4j:slf4j-simple:1.7.36",  # Kafka's jars have no logger for slf4j; this logger writes to stderr, which is our log file
]
HEADER = "# Jars of the embedded broker, made by make_lock.py: coordinate, sha256, size in bytes.\n"


def main() -> int:
    """Write the lock next to this module, and print the number and the size of the jars."""
    with tempfile.TemporaryDirectory() as scratch:
        resolved = resolve(ROOTS, Path(scratch))
        rows = [(coordinate, digest(path), path.stat().st_size) for coordinate, path in resolved]
    text = HEADER + "".join(f"{coordinate} {sha256} {size}\n" for coordinate, sha256, size in rows)
    Path(__file__).with_name(LOCK_NAME).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(rows)} jars, {sum(size for _, _, size in rows) / 1e6:.0f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
