"""The measured queries, from the plain read to whole dialogs, as batches and as streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.avro.functions import from_avro

from bench.contenders.our_loop import ANSWERING, ORDERS
from bench.spark import clock, with_state
from bench.spark.clock import Told
from bench.spark.subject import AUDIT, CORES, MOST, Contents
from bench.spark.with_arrow import Seen, once_in_place
from conversations import Contract
from conversations.protocol.limits import RECORD_BYTES
from conversations.protocol.registry import HEAD_SIZE
from spark_jobs.archive import Archive
from spark_jobs.reading.dialogs import in_order, read_dialogs, stream_dialogs
from spark_jobs.reading.envelopes import decode, writer_schemas
from spark_jobs.reading.messages import IDENTITY, concerns, is_message, judged_records, message_columns
from spark_jobs.reading.wire import Wire
from spark_jobs.running.storage import Directory

REMEMBERED = timedelta(days=1)
PLACE = ("topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class Subject:
    """A queue and a session to read it in."""

    spark: SparkSession
    wire: Wire
    contents: Contents

    @property
    def topics(self) -> list[str]:
        """Names of the queues that the dialogs are in."""
        return [self.wire.queue(name) for name in self._talkers]

    @property
    def _talkers(self) -> list[str]:
        return self.wire.talkers(ANSWERING, None)

    def records(self) -> DataFrame:
        """Read all records, as a batch."""
        return self.wire.read(self.spark, self.topics)

    def record_stream(self) -> DataFrame:
        """Read all records, as a stream."""
        return self.wire.stream(self.spark, self.topics, most=MOST)

    def messages(self, records: DataFrame) -> DataFrame:
        """Return the messages among the records, duplicates included."""
        judged = judged_records(self.wire, self._talkers, records)
        return judged.where(is_message() & concerns(ANSWERING)).select(*message_columns())

    def dialogs(self, contract: Contract | None = None) -> DataFrame:
        """Read the dialogs with the public function."""
        return read_dialogs(self.spark, bootstrap=self.wire.kafka, service=ANSWERING, contract=contract)


def _plain(records: DataFrame) -> DataFrame:
    """Decode like a reader who knows the schema and trusts every record."""
    (text,) = writer_schemas({}).values()
    body = F.substring("value", HEAD_SIZE + 1, RECORD_BYTES)
    return records.select(from_avro(body, text).alias("envelope"), *PLACE).select("envelope.*", *PLACE)


def _without_headers(it: Subject) -> Wire:
    return Wire(it.wire.kafka, {"includeHeaders": "false"})


def _decoded(it: Subject) -> DataFrame:
    return decode(it.records(), writer_schemas(it.wire.catalog.schemas)).select("envelope", *PLACE)


BATCHES: Mapping[str, Callable[[Subject], DataFrame]] = {
    "plain": lambda it: _plain(_without_headers(it).read(it.spark, it.topics)),
    "decoded": _decoded,
    "judged": lambda it: it.messages(it.records()),
    "read_dialogs": lambda it: it.dialogs(),
    "with_aggregate": lambda it: it.messages(it.records()).dropDuplicates(IDENTITY),
    "in_place": lambda it: once_in_place(it.messages(it.records())),
    "typed": lambda it: it.dialogs(ORDERS),
    "in_order": lambda it: in_order(it.dialogs()),
}


def _archive(it: Subject, directory: Path, *, counted: bool) -> Told:
    archive = Archive(it.spark, it.wire, Directory(it.spark, str(directory / "archive")))
    began = time.perf_counter()
    rows = sum(each.messages for each in archive.catch_up())
    return {
        "records": it.contents.records,
        "seconds": time.perf_counter() - began,
        "rows": rows if counted else None,
    }


def _audit(it: Subject, directory: Path, *, counted: bool) -> Told:  # noqa: ARG001 - it writes nothing
    job = import_module(AUDIT)
    kafka = it.wire.kafka
    options = job.parser().parse_args(["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace])
    began = time.perf_counter()
    totals = job.audited(it.spark, options).data["totals"]
    seconds = time.perf_counter() - began
    return {"records": it.contents.records, "seconds": seconds, "rows": totals["sent"] if counted else None}


def _plain_stream(it: Subject, directory: Path, *, counted: bool) -> Told:
    records = _without_headers(it).stream(it.spark, it.topics, most=MOST)
    return clock.stream(_plain(records), directory, counted=counted)


def _judged_stream(it: Subject, directory: Path, *, counted: bool) -> Told:
    return clock.stream(it.messages(it.record_stream()), directory, counted=counted)


def _stream(it: Subject, directory: Path, *, counted: bool) -> Told:
    frame = stream_dialogs(
        it.spark, bootstrap=it.wire.kafka, service=ANSWERING, remember=REMEMBERED, most=MOST
    )  # fmt: skip
    return clock.stream(frame, directory, counted=counted)


def _forever(it: Subject, directory: Path, *, counted: bool) -> Told:
    kept = it.messages(it.record_stream()).dropDuplicates(IDENTITY)
    return clock.stream(kept, directory, counted=counted)


def _with_state(it: Subject, directory: Path, *, counted: bool) -> Told:
    return clock.stream(with_state.once(it.messages(it.record_stream())), directory, counted=counted)


def _with_arrow(it: Subject, directory: Path, *, counted: bool) -> Told:
    seen = Seen(directory, CORES)
    return clock.stream(it.messages(it.record_stream()), directory, counted=counted, each=seen.once)


OTHERS: Mapping[str, Callable[..., Told]] = {
    "archive": _archive,
    "audit": _audit,
    "plain_stream": _plain_stream,
    "judged_stream": _judged_stream,
    "stream": _stream,
    "stream_forever": _forever,
    "with_state": _with_state,
    "with_arrow": _with_arrow,
}


def run(name: str, it: Subject, directory: Path, *, counted: bool) -> Told:
    """Run a query to its end. With ``counted``, count its rows; then its time is not exact."""
    if name in BATCHES:
        return clock.batch(BATCHES[name](it), it.contents.records, counted=counted)
    return OTHERS[name](it, directory, counted=counted)
