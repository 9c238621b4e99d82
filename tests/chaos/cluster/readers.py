"""``python -m tests.chaos.cluster.readers BOOTSTRAP NAMESPACE DIRECTORY``: a stream of dialogs and the archive, until told to end.

When standard input ends, both read all there is, and the process ends with 0.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from conversations.config import Kafka
from spark_jobs.archive import Archive
from spark_jobs.reading.dialogs import stream_dialogs
from spark_jobs.reading.wire import Wire
from spark_jobs.running.session import spark_session
from spark_jobs.running.storage import Directory

EVERY = 5.0
"""Seconds between two batches, and two runs of the archive."""


def _write(directory: Path, rows: DataFrame, batch: int) -> None:
    """Write a batch in the place of what it wrote before, if it is made again."""
    columns = ("conversation_id", "to_target", "sequence", "kind", "content")
    rows.select(*columns).coalesce(1).write.mode("overwrite").parquet(str(directory / f"batch-{batch}"))


def _started(spark: SparkSession, kafka: Kafka, directory: Path) -> StreamingQuery:
    rows = stream_dialogs(spark, bootstrap=kafka)
    writer = rows.writeStream.foreachBatch(partial(_write, directory / "stream"))
    where = str(directory / "stream-checkpoint")
    return writer.option("checkpointLocation", where).trigger(processingTime=f"{EVERY:g} seconds").start()


def main(bootstrap: str, namespace: str, where: str) -> int:
    """Read until standard input ends."""
    kafka, directory = Kafka(bootstrap, namespace=namespace), Path(where)
    over = threading.Event()

    def listen() -> None:
        sys.stdin.buffer.read()
        over.set()

    threading.Thread(target=listen, name="orders", daemon=True).start()
    spark = spark_session("chaos", cores=2, settings={"spark.driver.memory": "700m"})
    archive = Archive(spark, Wire(kafka, {}), Directory(spark, str(directory / "archive")))
    query = _started(spark, kafka, directory)
    last = False
    while not last:
        last = over.wait(EVERY)
        for _ in archive.catch_up():
            pass
        if last:
            query.processAllAvailable()
        if (failure := query.exception()) is not None:
            raise failure
    query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
