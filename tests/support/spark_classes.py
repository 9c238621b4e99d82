"""Halves the CPU of each start of Spark in the tests: its JVM maps the classes that an earlier JVM has loaded.

Tests start Spark dozens of times, and half of each start is the loading of classes. The JVM of a first session, which a run of all tests starts
beside them, writes these classes into an archive (JEP 350). Drivers find the archive through ``SPARK_SUBMIT_OPTS``, and start without it as long as
it does not exist.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

from conversations_ops.broker import BrokerError
from conversations_ops.broker.class_archive import ClassArchive
from conversations_ops.broker.java import find_java
from conversations_ops.cache import cache_directory

VARIABLE = "SPARK_SUBMIT_OPTS"
PATIENCE = 300.0
"""Seconds within which the JVM of the first session must end."""
QUIET = "-Xlog:disable"
"""Without it, a JVM with other jars says on its standard output that the archive does not fit."""


def archive() -> ClassArchive:
    """Return the archive for the PySpark and the Java of this process."""
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    return ClassArchive(cache_directory() / "classes", find_java(), [], jars)


def use(*, write: bool) -> None:
    """Let the drivers of all tests use the archive. With ``write``, write it beside the tests if there is none.

    Without a Java there is nothing to do: most tests need none, and the others say that it is missing.
    """
    try:
        classes = archive()
    except BrokerError:
        return
    os.environ.setdefault(VARIABLE, f'{QUIET} "-XX:SharedArchiveFile={classes.path}"')
    if write and not classes.reading():
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_classes"], cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        Thread(target=writer.wait, daemon=True).start()  # nobody waits for it, and Python would warn


def write() -> None:
    """Start a session, let it load what most jobs need, and keep what its JVM writes at its end."""
    from pyspark.sql import SparkSession

    classes = archive()
    os.environ[VARIABLE] = f'{QUIET} "{classes.reading_or_writing()[0]}"'
    builder = SparkSession.builder.master("local[1]").config(
        map={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    )
    session = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as directory:
        numbers = session.range(1_000).selectExpr("id % 7 as k", "named_struct('v', cast(id as string)) as s")
        numbers.write.partitionBy("k").parquet(f"{directory}/rows")
        rows = session.read.parquet(f"{directory}/rows")
        rows.groupBy("k").count().join(rows, "k").orderBy("k").toJSON().take(3)
        rows.rdd.map(lambda row: row.k).count()
        stream = session.readStream.schema(rows.schema).parquet(f"{directory}/rows").dropDuplicates(["k"]).writeStream
        sink = stream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
        sink.trigger(availableNow=True).start(f"{directory}/copy").awaitTermination(int(PATIENCE))
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.proc.stdin.close()
    classes.keep(gateway.proc.wait(PATIENCE))


if __name__ == "__main__":
    write()
