"""Open sides of dialogs and their parked messages, from state rows. ``conversations_ops.operate.parked`` gives the same facts.

``endpoints`` has a row for each open side of a dialog:

    service, partition, conversation_id, initiator   the side
    key, contract, peer                              key of its group, its contract, and the service on the other side
    state                                            state as in docs/protocol.md: CONVERSING, DISCONNECTED_OUTBOUND, ...
    begun_at, expires_at                             beginning of the dialog, and end of its lifetime (null: unlimited)
    unacknowledged                                   number of messages, END included, that the peer has not acknowledged
    written_at                                       log time of the newest row of the side

``parked`` has a row for each head. A head is a failed message for which its dialog waits. The failed handler of a timer or of an
error is also a head while it waits:

    letter                          name of the head, for operators
    service, partition, conversation_id, initiator, key, contract, peer
    handler                         handler that failed: MESSAGE, TIMER, ERROR or SKIPPED
    number, what                    number of the message (null without a message); its message type, or END, TIMER, ERROR or SKIPPED
    attempts, since, failure        number of failures, time of the first failure, and the handler's last exception
    due                             time of the next attempt; null if ``held`` or ``queue_off``
    held                            true if the head waits for an operator
    queue_off                       true if the head waits until its queue is on, or until the brake of its worker is off
    behind, size, returns           number of records behind the head, bytes of the head and these records, and number of times
                                    that an operator gave the head back to its handler
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.park_row import QUEUE_ON
from conversations.protocol.states import State
from spark_jobs.reading.envelopes import decode, writer_schemas
from spark_jobs.reading.identifiers import drawn_at
from spark_jobs.reading.letters import letter_of
from spark_jobs.reading.rows import fields_of, instant_of, is_tombstone

SIDE = ("service", "partition", "conversation_id", "initiator")
_HANDLER_START = 19
"""Position of the handler's letter in the key of a T row, counted from 1."""


def endpoints(rows: DataFrame) -> DataFrame:
    """List the open sides of dialogs among newest state rows."""
    e = F.col("e")
    found = _decoded(rows.where((F.col("row") == "E") & ~is_tombstone()), "endpoint", "e")
    names = F.create_map(*(F.lit(it) for state in State for it in (int(state), state.name)))
    return found.select(
        *SIDE, e["key"].alias("key"), e["contract"].alias("contract"), e["peer"].alias("peer"),
        names[e["state"]].alias("state"), F.coalesce(drawn_at(F.col("conversation_id")), "written_at").alias("begun_at"),
        F.when(e["expires_at"] >= 0, F.timestamp_micros(e["expires_at"])).alias("expires_at"),
        (e["next_out"] - 1 - e["acked"]).alias("unacknowledged"), "written_at",
    )  # fmt: skip


def parked(rows: DataFrame) -> DataFrame:
    """List the failed messages and failed handlers that wait in open dialogs. ``rows`` has the newest row of each key."""
    p, w, e = F.col("p"), F.col("w"), F.col("envelope")
    waits = _decoded(rows.where(F.col("row").isin("F", "T")), "park", "p").select(
        *SIDE, p,
        F.when(F.col("row") == "T", F.substring("key", _HANDLER_START, 1).cast("string")).alias("letter_of_handler"),
        F.expr(f"nullif(cast(substring(key, {_HANDLER_START + 1}) as string), '')").alias("timer"),
        F.when(F.col("row") == "F", p["first"]).alias("first"),
    )  # fmt: skip
    heads = rows.where("row = 'R'").select(*SIDE, F.col("number").alias("first"), "value")
    sides = endpoints(rows).select(*SIDE, "key", "contract", "peer")
    together = waits.join(sides, [*SIDE]).join(heads, [*SIDE, "first"], "left")
    found = decode(_decoded(together, "waiting", "w").withColumn("value", w["value"]), writer_schemas({}))
    letter = F.col("letter_of_handler")
    handler = F.when(letter == "t", "TIMER").when(letter == "e", "ERROR").when(letter == "s", "SKIPPED")
    due = instant_of(p["due"])
    side = F.when(F.col("initiator"), "initiator").otherwise("target")
    without = F.concat_ws(
        "-",
        F.concat_ws(".", "service", F.lower(handler)),
        "conversation_id",
        side,
        F.when(letter == "t", F.col("timer")),
    )
    return found.select(
        F.when(handler.isNotNull(), without).otherwise(letter_of(F.col("service"), w["topic"], w["offset"])).alias("letter"),
        *SIDE, "key", "contract", "peer", F.coalesce(handler, F.lit("MESSAGE")).alias("handler"),
        F.when(handler.isNull(), e["seq"]).alias("number"),
        F.coalesce(handler, F.when(e["kind"] == "MESSAGE", e["message_type"]).otherwise(e["kind"])).alias("what"),
        F.when(handler.isNull(), w["attempts"]).otherwise(p["attempts"]).alias("attempts"),
        F.timestamp_micros(p["since"]).alias("since"), p["failure"].alias("failure"),
        F.when(due < QUEUE_ON, F.timestamp_micros(due)).alias("due"), (due > QUEUE_ON).alias("held"),
        (due == QUEUE_ON).alias("queue_off"), F.greatest(p["next"] - p["first"] - 1, F.lit(0)).alias("behind"),
        p["size"].alias("size"), p["returns"].alias("returns"),
    )  # fmt: skip


def _decoded(rows: DataFrame, schema: str, name: str) -> DataFrame:
    # Inside explode() Spark decodes a value once, even if a query reads several fields of the value.
    return rows.select("*", F.explode(F.array(fields_of(schema))).alias(name))
