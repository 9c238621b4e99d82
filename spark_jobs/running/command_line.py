"""The command line of all jobs: shared options, progress on stderr, the result on stdout, exit codes, Ctrl-C.

A job's ``main`` makes its parser with ``parser_of`` and hands it to ``carry_out``. This also works under ``spark-submit``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING

from conversations.config import Kafka
from conversations.errors import DeclarationError, KafkaUnreachable
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations_ops.console.exit_codes import EXIT_CODES, Exit, code_of
from conversations_ops.console.log_lines import show_warnings
from conversations_ops.printable import json_line, lines, unstyled
from conversations_ops.settings.file import VARIABLE as SETTINGS
from conversations_ops.settings.given import given
from spark_jobs.errors import SparkJobError, explained
from spark_jobs.running.arguments import pair, whole
from spark_jobs.running.progress import shown
from spark_jobs.running.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXIT_CODES = f"{EXIT_CODES.removesuffix('.')}, 130 interrupted."
BOOTSTRAP, NAMESPACE = "CONVERSATIONS_BOOTSTRAP", "CONVERSATIONS_NAMESPACE"
ENDING = 20.0
"""Seconds that an interrupted job has to end after its session was stopped."""


@dataclass(frozen=True)
class Result:
    """The result of a job: ``data`` as JSON, ``text`` for people, and the exit code.

    Pass text from outside through ``conversations_ops.printable.one_line`` before you put it into ``text``.
    """

    data: Mapping[str, object]
    text: str
    exit: Exit = Exit.FINE


Job = Callable[["SparkSession", argparse.Namespace], Result]


def parser_of(name: str, description: str, example: str) -> argparse.ArgumentParser:
    """Make a parser with the shared options, for the job of ``conversations spark NAME``."""
    made = argparse.ArgumentParser(
        prog=f"conversations spark {name}", description=description, epilog=f"example:\n  {example}\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    made.add_argument(
        "--bootstrap", metavar="HOST:PORT", default=os.environ.get(BOOTSTRAP, ""),
        help=f"addresses of one or more brokers, with commas between them (default: {BOOTSTRAP})",
    )  # fmt: skip
    made.add_argument(
        "--namespace", default=os.environ.get(NAMESPACE, DEFAULT_NAMESPACE), help="first part of every topic's name"
    )
    made.add_argument(
        "--setting", metavar="NAME=VALUE", type=pair, action="append", default=[],
        help=f"a setting of librdkafka (TLS, SASL, ...), translated for Spark's Kafka client; may be repeated. Put passwords "
        f"as NAME=VALUE lines into the file that {SETTINGS} names",
    )  # fmt: skip
    made.add_argument(
        "--option", metavar="NAME=VALUE", type=pair, action="append", default=[],
        help="an option of Spark's Kafka source, e.g. minPartitions=16; may be repeated",
    )  # fmt: skip
    made.add_argument("--cores", type=whole(1), help="cores of a local session (default: all cores of this machine)")
    made.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return made


def kafka_of(options: argparse.Namespace) -> Kafka:
    """Return the ``Kafka`` with the address, namespace and settings from the options of ``parser_of``.

    Raises:
        DeclarationError: no address is given, or the file of settings cannot be read.
    """
    if not options.bootstrap:
        raise DeclarationError(f"the address of Kafka is missing: give --bootstrap HOST:PORT, or set {BOOTSTRAP}")
    found = given(f"{name}={value}" for name, value in options.setting)
    return Kafka(options.bootstrap, namespace=options.namespace, settings=found.without_options().of_clients())


def add_clusters(parser: argparse.ArgumentParser) -> None:
    """Add the option for other clusters to the parser of a job that reads them, too."""
    parser.add_argument(
        "--cluster", metavar="NAME[=FILE]", action="append", default=[],
        help="also read the services that live on another cluster, as `route add` named it; FILE has NAME=VALUE lines for it: login, TLS. May be repeated",
    )  # fmt: skip


def carry_out(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    job: Job,
    *,
    needs_kafka: Callable[[argparse.Namespace], bool] = lambda _: True,
) -> int:
    """Parse the options, start a session, run the job, print its result; return the exit code."""
    options = parser.parse_args(argv)
    show_warnings()
    try:
        if needs_kafka(options):
            kafka_of(options)
        spark = spark_session(parser.prog, cores=options.cores)
        with shown(spark, parser.prog):
            result = _interruptible(lambda: job(spark, options), spark)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return Exit.INTERRUPTED
    except Exception as error:  # an error of Spark is either explained or raised again
        known = explained(error)
        if known is None:
            raise
        _show_error(known, as_json=options.json)
        return _code_of(known)
    print(json_line(result.data) if options.json else unstyled(result.text))
    return result.exit


def _code_of(error: Exception) -> Exit:
    """Return the exit code for an expected error. A ``KafkaUnreachable`` decides the code, also if it is the cause of the error."""
    if of_kafka := [code_of(it) for it in (error, error.__cause__) if isinstance(it, KafkaUnreachable)]:
        return min(of_kafka)
    return Exit.USAGE if isinstance(error, SparkJobError) else code_of(error)


def _show_error(error: Exception, *, as_json: bool) -> None:
    if as_json:
        print(json_line({"error": str(error), "kind": type(error).__name__}))
    else:
        print(lines(f"error: {error}"), file=sys.stderr)


def _interruptible(work: Callable[[], Result], spark: SparkSession) -> Result:
    """Run work in a thread of its own, so that Ctrl-C does not interrupt a call to the JVM.

    PySpark's handler of Ctrl-C makes a second call to the JVM within the interrupted call, and the second call fails. Here
    Ctrl-C stops the session, which also stops the work on a cluster.
    """
    ended: Future[Result] = Future()
    worker = Thread(target=_carry_on, args=(work, ended), daemon=True, name="job")
    before = None
    if current_thread() is main_thread():
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    worker.start()
    try:
        return ended.result()
    except KeyboardInterrupt:
        spark.stop()
        worker.join(ENDING)
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _carry_on(work: Callable[[], Result], ended: Future[Result]) -> None:
    try:
        ended.set_result(work())
    except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
        ended.set_exception(error)
