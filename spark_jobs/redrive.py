"""Redrive plans of failed messages that a predicate of Spark SQL chooses.

The predicate sees one row for each letter that waits for an operator now. A letter is about a failed message, or about a failed
handler without a message.

    letter                       name of the letter, e.g. orders.queue-3-17
    service, contract, peer      service whose handler failed, contract, and sender
    conversation_id, initiator   dialog; ``initiator`` is true if the initiator's handler failed
    key                          key of the conversation group
    handler                      the handler that failed: MESSAGE, TIMER, ERROR or SKIPPED
    sequence                     number of the message; null without a message
    type                         message type, END, TIMER, ERROR or SKIPPED
    body                         body as text, null if it is not text: get_json_object(body, '$.amount') reads JSON
    content                      bytes of the body
    exception, exception_message the handler's last exception; ``failure`` is both, 200 characters at most
    attempts, returns            number of failed attempts, and number of times that an operator gave the letter back
    failed_at                    time of the first failure
    behind, size                 number of records behind the letter, and bytes of the letter and these records
    ticket                       number that changes with every attempt

    spark-submit --packages ... spark_jobs/redrive.py --bootstrap HOST:PORT --out plan.json
        --where "exception_message like '%timeout%' and get_json_object(body, '$.amount') > 100"

The job changes no dialog. Without ``--out`` it only shows the letters that match. With ``--out`` it writes a plan for
``conversations redrive``. This command gives the letters back through the owners of the dialogs. If a letter
changed after the plan was made, the command leaves the letter alone. A redrive can be stopped and resumed. Each run of
the job makes a new plan.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.errors import DeclarationError
from conversations.protocol.parked import Parked
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.redrive.plan import Care, Plan, plan_of, to_json
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.printable import one_line
from spark_jobs.errors import SparkJobError
from spark_jobs.running.arguments import argument, whole
from spark_jobs.running.command_line import Result, carry_out, kafka_of, parser_of

COLUMNS = (
    "letter string, service string, contract string, peer string, conversation_id string, initiator boolean, key string, "
    "handler string, sequence long, type string, body string, content binary, exception string, exception_message string, "
    "failure string, attempts int, returns int, failed_at timestamp, behind long, size long, ticket long"
)
CODE = "Spark runs the predicate as code, with your rights: it may read files and call Java. Use only a predicate that you understand"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PredicateError(SparkJobError):
    """A predicate cannot be parsed, or fails on a row."""


def letters_of(spark: SparkSession, held: Iterable[Parked]) -> DataFrame:
    """Make the rows that the predicate sees. The docstring of the module describes the rows."""
    return spark.createDataFrame([_row(it) for it in held], COLUMNS)


def _row(it: Parked) -> tuple[Any, ...]:
    try:
        text = it.body.decode() if it.number >= 0 else None
    except UnicodeDecodeError:
        text = None
    name, _, message = it.failure.partition(":")
    return (
        it.letter, it.service, it.contract, it.peer, it.conversation, it.initiator, it.key, it.handler.value,
        it.number if it.number >= 0 else None, it.what, text, bytearray(it.body), name, message.strip(), it.failure, it.attempts,
        it.returns, _EPOCH + timedelta(microseconds=it.since), it.behind, it.size, it.ticket,
    )  # fmt: skip


def transform(letters: DataFrame, where: str) -> DataFrame:
    """Keep the rows for which a predicate is true. Null counts as false.

    Raises:
        PredicateError: the text is not a predicate over the columns of ``letters``. The message names the columns.
    """
    try:
        return letters.where(where)
    except AnalysisException as error:  # the parser raises it too
        raise PredicateError(
            f"--where {where!r} cannot be used: {_first_line(error)}\nthe columns are: {', '.join(letters.columns)}"
        ) from error


def summary(chosen: DataFrame) -> DataFrame:
    """Count letters by service, exception and type, the largest group first. Columns: letters, behind, first, last."""
    counts = (
        F.count("*").alias("letters"), F.sum("behind").alias("behind"), F.min("failed_at").alias("first"),
        F.max("failed_at").alias("last"),
    )  # fmt: skip
    grouped = chosen.groupBy("service", "exception", "type").agg(*counts)
    return grouped.orderBy(F.desc("letters"), "service", "exception", "type")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


# -- the command line ----------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's options."""
    made = parser_of(
        "redrive", "Choose failed messages by a predicate of Spark SQL, and write a redrive plan.",
        "conversations spark redrive --where \"exception_message like '%timeout%'\" --out plan.json",
    )  # fmt: skip
    columns = ", ".join(name.split()[0] for name in COLUMNS.split(", "))
    made.add_argument("--where", required=True, metavar="PREDICATE", help=f"over the columns {columns}. {CODE}")
    made.add_argument("--service", default="", help="only letters of this service")
    made.add_argument("--out", type=Path, metavar="FILE", help="file for the plan (default: no plan is written)")
    made.add_argument(
        "--canary", type=whole(0), default=Care().canary, help="letters to try first, one by one (default: 3)"
    )
    made.add_argument(
        "--rate", type=argument(_rate), default=Care().rate, help="letters a second after the canary (default: 20)"
    )
    made.add_argument(
        "--max-returns", type=whole(1), default=Care().max_returns,
        help="leave out letters that were given back this many times or more (default: 3)",
    )  # fmt: skip
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Show the letters that a predicate chooses, and write a plan of them."""
    return carry_out(parser(), argv, _job)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError(f"{text!r} is no number above 0")
    return rate


def _job(spark: SparkSession, options: argparse.Namespace) -> Result:
    kafka = kafka_of(options)
    held = {it.letter: it for it in parked_messages(kafka, options.service) if it.held}
    chosen = transform(letters_of(spark, held.values()), options.where)
    try:
        names = [row.letter for row in chosen.select("letter").collect()]
        # The predicate is not evaluated again for the groups, because it might then choose other letters.
        groups = [row.asDict() for row in _texts(summary(letters_of(spark, [held[name] for name in names]))).collect()]
    except PySparkException as error:
        raise PredicateError(
            f"--where {options.where!r} fails on a letter: {_first_line(error)}\n"
            "use functions like try_cast where a value may not fit: they return null"
        ) from error
    selector = Selector(options.service, where=options.where)
    care = Care(options.canary, options.rate, options.max_returns)
    plan = plan_of(
        [held[name] for name in names], selector, care, kafka.namespace,
        by=getpass.getuser(), now=time.time_ns() // 1_000, random=os.urandom(4),
    )  # fmt: skip
    written = _write(plan, options.out)
    data = {
        "redrive": plan.redrive if written else None, "plan": written, "waiting": len(held), "matching": len(names),
        "letters": len(plan.letters), "behind": plan.behind, "left_out": plan.left_out, "groups": groups,
    }  # fmt: skip
    return Result(data, _told(plan, groups, len(held), written))


def _texts(groups: DataFrame) -> DataFrame:
    """Write times as text, in UTC."""
    return groups.withColumns({name: F.date_format(name, "yyyy-MM-dd HH:mm:ss") for name in ("first", "last")})


def _write(plan: Plan, out: Path | None) -> str | None:
    """Write the plan, unless it is empty or ``out`` is None; return its path."""
    if out is None or not plan.letters:
        return None
    try:
        out.write_text(to_json(plan), encoding="utf-8")
    except OSError as error:
        raise DeclarationError(f"--out {out}: {error.strerror}") from error
    return str(out)


def _told(plan: Plan, groups: Sequence[dict[str, Any]], held: int, written: str | None) -> str:
    matching = sum(group["letters"] for group in groups)
    if not matching:
        return f"none of {held} letters that wait for a decision matches"
    out = f"; {plan.left_out} are left out (given back {plan.care.max_returns} times or more)" if plan.left_out else ""
    head = f"{matching} of {held} letters that wait for a decision match, {plan.behind} records wait behind them{out}"
    lines = [head, *_table(groups)]
    if written is not None:
        canary = min(plan.care.canary, len(plan.letters))
        lines.append(
            f"{plan.redrive}: {len(plan.letters)} letters are in the plan (later letters are not included); canary: the {canary} oldest\n"
            f"nothing is changed yet; next: conversations redrive start {written} --reason WHY"
        )
    else:
        lines.append("nothing is changed; next: run the same command with --out plan.json to write a plan")
    return "\n".join(lines)


_HEADINGS = ("letters", "behind", "service", "exception", "type", "first", "last")


def _table(groups: Sequence[dict[str, Any]]) -> list[str]:
    cells = [_HEADINGS, *(tuple(one_line(str(group[name])) for name in _HEADINGS) for group in groups)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(_HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


if __name__ == "__main__":
    sys.exit(main())
