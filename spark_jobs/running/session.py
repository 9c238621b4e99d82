"""The Spark session of a job.

A job that is started as a plain Python program makes a local session, with PySpark's pinned version and the jars of ``jars.lock``.
If a session exists already, or the job runs under ``spark-submit``, the job uses that session. Then the job only checks that the
session can use Kafka and Avro: a cluster needs jars of its own version (``--packages``).
"""

from __future__ import annotations

import contextlib
import importlib.resources
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from conversations_ops.broker import BrokerError
from conversations_ops.broker.jars import LOCK_NAME, Jar, ensure_jars, parse_lock
from conversations_ops.broker.java import FIX, OLDEST, find_java
from conversations_ops.cache import cache_directory
from spark_jobs.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTORS = ("org.apache.spark:spark-sql-kafka-0-10_2.13", "org.apache.spark:spark-avro_2.13")
"""Packages that ``--packages`` must name on a cluster, each with the cluster's Spark version."""
_CLASSES = ("org.apache.spark.sql.kafka010.KafkaSourceProvider", "org.apache.spark.sql.avro.AvroDataToCatalyst")
_INSTALL = (
    f"For Spark install Java {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install "
    "openjdk), or set JAVA_HOME to such a Java"
)
UTC = "spark.sql.session.timeZone"
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
"""Setting of the type of times in Parquet. Spark's old default type has no statistics, so readers cannot skip files by time."""

LOCAL: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # jobs show their own progress
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # A query that is stopped while it waits for Python can overflow a small stack.
    "spark.driver.extraJavaOptions": "-Xss4m",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Without Hadoop's native library the default manager starts a program for every file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # If true, Spark notes the Python line of every expression for error messages. This takes half the time of building a query.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings of a local session, fit for one machine."""


def spark_jars() -> tuple[Jar, ...]:
    """Return the jars that a local session needs in addition to PySpark's own, from the lock in this package."""
    return parse_lock((importlib.resources.files("spark_jobs.running") / LOCK_NAME).read_text(encoding="utf-8"))


def spark_session(app: str, *, cores: int | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session of the job: the active session, the session of spark-submit, or a new local session.

    Args:
        app: name of the job, for Spark's own displays.
        cores: number of cores of a local session; by default all cores of the machine.
        settings: settings of a local session; they add to ``LOCAL`` and override it.

    Raises:
        SparkUnavailable: PySpark or Java is missing, or the session lacks Kafka or Avro. The message says what to install, or which
            option to give.
        DownloadFailed, JarCorrupted, DiskFull: the jars of a local session cannot be downloaded or stored.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailable(f"PySpark is not installed ({error}): pip install 'kafka-dialogs[spark]'") from error
    given = SparkSession.getActiveSession()
    if given is None and "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM
        given = SparkSession.builder.appName(app).getOrCreate()
    session = given or _local(app, cores or os.cpu_count() or 1, settings or {})
    session.conf.set(UTC, "UTC")
    session.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    check_connectors(session)
    return session


def _local(app: str, cores: int, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    java = _java()
    jars = ensure_jars(spark_jars(), cache_directory() / "spark-jars", "Spark's connectors")
    builder = SparkSession.builder.appName(app).master(f"local[{cores}]")
    wanted = {**LOCAL, "spark.sql.shuffle.partitions": str(cores), "spark.jars": ",".join(map(str, jars)), **settings}
    for name, value in wanted.items():
        builder = builder.config(name, value)
    # Python workers use the interpreter of this process, and Spark uses the Java that was checked.
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    with _environment({"JAVA_HOME": java, "PYSPARK_PYTHON": python, "SPARK_SUBMIT_OPTS": _java_options()}):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _java_options() -> str:
    """Return the options of Spark's Java. Java takes no notice of TMPDIR, and /tmp may be read-only in a container."""
    return f'{os.environ.get("SPARK_SUBMIT_OPTS", "")} "-Djava.io.tmpdir={tempfile.gettempdir()}"'.strip()


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the JVM is started. The JVM inherits them."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _java() -> str:
    """Return the home of a Java that can run Spark. The Java of the ``embedded-java`` extra cannot run Spark: it lacks a module."""
    try:
        java = find_java()
    except BrokerError as error:
        raise SparkUnavailable(f"{error.message.removesuffix(FIX)}{_INSTALL}") from error
    if java.found_by == "the embedded-java extra":
        raise SparkUnavailable(
            f"Spark cannot run on the Java of the embedded-java extra, which lacks a module. {_INSTALL}"
        )
    return str(java.path.resolve().parent.parent)


def check_connectors(session: SparkSession) -> None:
    """Check that a session can read Kafka and Avro.

    Raises:
        SparkUnavailable: the session cannot read them. The message names the option for spark-submit.
    """
    jvm = getattr(session, "_jvm", None)
    if jvm is None:  # Spark Connect: the classes are on the server, which reports missing classes itself
        return
    loader = jvm.Thread.currentThread().getContextClassLoader()
    for name in _CLASSES:
        try:
            loader.loadClass(name)
        except Exception as error:  # py4j wraps every exception of Java
            packages = ",".join(f"{connector}:{session.version}" for connector in CONNECTORS)
            raise SparkUnavailable(
                f"this Spark {session.version} session has no {name.rpartition('.')[2]}: start it with "
                f"spark-submit --packages {packages}"
            ) from error
