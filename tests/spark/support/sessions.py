"""The Spark session of the tests. If its JVM ends, the failed test says how it ended, and the next test gets a new session."""

from pathlib import Path
from subprocess import TimeoutExpired

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_jobs.running.session import LOCAL, spark_session

SMALL = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings that turn off the compilation of queries. With few rows, it takes longer than the query. Jobs that tests start as programs compile."""
OPTIONS = "spark.driver.extraJavaOptions"
SHOWN = 4_000
"""Maximum number of characters of the JVM's own report that a failed test shows."""


class Sessions:
    """At most one Spark session at a time. A second one, in another process, would take a core and two gigabytes of memory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._session: SparkSession | None = None

    def current(self) -> SparkSession:
        """Return the session. If there is none, or its JVM has ended, start one."""
        if self.end() is not None:
            _forget()
            self._session = None
        if self._session is None:
            files = f"{LOCAL[OPTIONS]} -XX:ErrorFile={self._directory}/jvm-%p.log"
            self._session = spark_session("tests", cores=2, settings={**SMALL, OPTIONS: files})
        return self._session

    def end(self, patience: float = 0.0) -> str | None:
        """Return how the JVM ended, with its own report if it crashed; None if it still runs after ``patience`` seconds, or if there is none."""
        process = getattr(SparkContext._gateway, "proc", None)
        if process is None:
            return None
        try:
            process.wait(patience)
        except TimeoutExpired:
            return None
        report = self._directory / f"jvm-{process.pid}.log"
        said = report.read_text(errors="replace")[:SHOWN] if report.exists() else "It left no report."
        return f"Spark's JVM has ended with {process.returncode}\n{said}"

    def stop(self) -> None:
        """Stop the session, if there is one."""
        if self._session is not None and self.end() is None:
            self._session.stop()
        self._session = None


def _forget() -> None:
    """Let PySpark forget a JVM that has ended, so that it starts another."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
