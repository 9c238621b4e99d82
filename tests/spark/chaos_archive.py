"""``python -m tests.spark.chaos_archive``: an archive whose driver is killed again and again has everything once.

Dialogs are said on queues that repeat, re-order and spoil; the archive is run by ``conversations spark archive`` and killed at
random moments (SIGKILL of the driver and its JVM). What is then in the archive is compared with what the queues have, worked
out by the checker of the chaos runs, which shares no code with the product. Exit 0 when both are the same, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from random import Random
from uuid import uuid4

from conversations.config import Kafka
from conversations_ops.broker import EmbeddedBroker
from spark_jobs.reading.archived import read_archive, read_archived_set_aside
from spark_jobs.running.session import spark_session
from tests.spark.support.expected_messages import Message, messages_of
from tests.spark.support.killing import run_until_done
from tests.spark.support.queues import PARTITIONS, Queues
from tests.spark.support.unreliable_wire import Unreliable

MESSAGES_OF_A_DIALOG = 20


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.chaos_archive", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as directory:
        verdict = _run(Kafka(broker.bootstrap, namespace=f"c{uuid4().hex[:8]}"), directory, options)
    sys.stdout.write(f"{json.dumps(verdict)}\n")
    return 0 if verdict["clean"] else 1


def _run(kafka: Kafka, directory: str, options: argparse.Namespace) -> dict[str, object]:
    started, chance = time.monotonic(), Random(options.seed)
    wire = Unreliable(Queues(kafka), chance)
    # Half as many answers as asks, and an END for each dialog.
    dialogs = max(1, round(options.messages / (MESSAGES_OF_A_DIALOG * 1.5 + 1) / options.kills))

    def more() -> None:
        wire.speak(dialogs=dialogs, messages=MESSAGES_OF_A_DIALOG)
        if wire.said:
            wire.repeat_old(dialogs)
        sys.stderr.write(f"{time.monotonic() - started:5.0f} s: {len(wire.said):,} messages said\n")

    where = ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace]
    command = [
        "-m",
        "spark_jobs.archive",
        directory,
        *where,
        "--most",
        str(max(1, options.messages // 30)),
        "--compact",
    ]
    killed = run_until_done(command, kills=options.kills, chance=chance, before_each=more)
    said = messages_of(kafka, ["loans", "web"], PARTITIONS)
    spark = spark_session("chaos")
    columns = ("conversation_id", "to_target", "coalesce(sequence, -1)", "kind", "content")
    rows = read_archive(spark, directory).selectExpr(*columns).collect()
    found = Counter(Message(row[0], row[1], row[2], row[3], bytes(row[4])) for row in rows)
    aside = read_archived_set_aside(spark, directory).count()
    spark.stop()
    facts = {
        "said": len(said), "archived": found.total(), "kills": killed, "missing": len(said - found.keys()),
        "unknown": len(found.keys() - said), "twice": sum(count - 1 for count in found.values()),
        "set_aside": aside, "nonsense": wire.nonsense, "seconds": round(time.monotonic() - started),
    }  # fmt: skip
    wrong = facts["missing"] or facts["unknown"] or facts["twice"] or aside != wire.nonsense
    return {"clean": not wrong and len(said) == len(wire.said), **facts}


if __name__ == "__main__":
    sys.exit(main())
