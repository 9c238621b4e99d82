"""Makes ``jars.lock``. Run ``python -m spark_jobs.running.make_lock`` after a change of JARS, and review the difference.

The lock names every jar. Spark's own descriptors are not resolved, because they ask for version 4.2.0 of ``spark-avro`` and
``spark-token-provider-kafka``, which a mirror of Maven Central may lack. The versions in JARS work together
(docs/decisions/0014).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from conversations_ops.broker.jars import LOCK_NAME, digest
from conversations_ops.broker.maven import download

JARS = (
    "org.apache.commons:commons-pool2:2.13.1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.spark:spark-avro_2.13:4.1.1",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
)
HEADER = (
    "# Jars that PySpark's wheel has not: Kafka's source and sink, and Avro. "
    "Made by make_lock.py: coordinate, sha256, size in bytes.\n"
)


def main() -> int:
    """Write the lock next to this module."""
    lines = []
    for coordinate in JARS:
        with tempfile.TemporaryDirectory() as scratch:
            jar = download(coordinate, Path(scratch), lambda _: None)
            lines.append(f"{coordinate} {digest(jar)} {jar.stat().st_size}\n")
    Path(__file__).with_name(LOCK_NAME).write_text(HEADER + "".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
