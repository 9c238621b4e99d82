"""What owners remember: both sides of each dialog, what is kept as rows, parks, positions; and how it changed."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.topics import COMMANDS, DEAD_LETTER, QUEUE
from conversations.worker.partition import GRACE
from spark_jobs.envelopes import decode
from spark_jobs.rows import fields_of, instant_of, is_tombstone

FALLS = ("accepted-fell", "sent-fell", "acknowledged-fell", "revived", "forgotten-early", "position-fell")
"""Faults of the history of a row."""
OVER = (3, 5, 6)
"""States in which nothing of the peer reaches a handler any more: DO, ER, CD."""
HEARING = (0, 1, 2, 4)
"""States that an error of the peer ends: SO, SI, CO, DI."""
_PLACE = ["service", "partition"]


def watched(history: DataFrame) -> DataFrame:
    """Keep of all rows of state topics the last of each key, and those that cannot follow the one before.

    Adds ``current``: it is what its key says now; ``forgot_at``: of a deleted tombstone, the log time it was kept for;
    and ``fell``: the faults of ``FALLS`` that it shows.
    """
    history = history.withColumn("said", _said())
    by_key = Window.partitionBy("service", "partition", "key").orderBy("offset")
    before, now = F.lag("said").over(by_key), F.col("said")
    found = history.select(
        "*", before.alias("before"), (F.lead("offset").over(by_key).isNull() & F.col("value").isNotNull()).alias("current")
    )  # fmt: skip
    before = F.col("before")
    side, partition = F.col("row") == "E", F.col("row") == "P"
    fell = {
        "accepted-fell": side & (now.first < before.first),
        "sent-fell": side & (now.second < before.second),
        "acknowledged-fell": side & (now.third < before.third),
        "revived": side & before.closed & ~now.closed,
        "forgotten-early": side & F.col("value").isNull() & ~before.closed,
        "position-fell": partition & ((now.first < before.first) | (now.second < before.second) | (now.third < before.third)),
    }  # fmt: skip
    shown = F.array_compact(F.array(*(F.when(is_so, F.lit(name)) for name, is_so in fell.items())))
    forgot_at = F.when(side & F.col("value").isNull() & before.closed, before.until)
    return (
        found.withColumn("fell", shown).withColumn("forgot_at", forgot_at)
        .where(F.col("current") | (F.size("fell") > 0) | F.col("forgot_at").isNotNull()).drop("before", "said")
    )  # fmt: skip


def _said() -> Column:
    """Read the numbers of an E or a P row that never fall, null for others and for deletions."""
    end, stone, place = fields_of("endpoint"), fields_of("tombstone"), fields_of("partition")
    struct = "struct<closed: boolean, first: bigint, second: bigint, third: bigint, until: bigint>"
    nothing = F.lit(None).cast("bigint")
    closed = F.struct(
        F.lit(True).alias("closed"), (stone.accepted + 1).alias("first"), (stone.transmitted + 1).alias("second"),
        nothing.alias("third"), instant_of(stone.forget_at).alias("until"),
    )  # fmt: skip
    is_open = F.struct(
        F.lit(False).alias("closed"), end.next_in.alias("first"), end.next_out.alias("second"),
        end.acked.alias("third"), nothing.alias("until"),
    )  # fmt: skip
    position = F.struct(
        F.lit(False).alias("closed"), place.queue.alias("first"), place.commands.alias("second"),
        place.queue_time.alias("third"), nothing.alias("until"),
    )  # fmt: skip
    some = F.col("value").isNotNull()
    return (
        F.when(some & (F.col("row") == "E") & is_tombstone(), closed.cast(struct))
        .when(some & (F.col("row") == "E"), is_open.cast(struct))
        .when(some & (F.col("row") == "P"), position.cast(struct))
    )


# -- partitions ------------------------------------------------------------------------------------------------------


def positions(rows: DataFrame) -> DataFrame:
    """One row per partition that was ever owned: service, partition, queue and commands (offsets), queue_time."""
    row = fields_of("partition")
    found = rows.where("current and row = 'P'").select("service", "partition", row.alias("at"))
    return found.select("service", "partition", "at.queue", "at.commands", "at.queue_time")


def places(extents: DataFrame, positions: DataFrame) -> DataFrame:
    """One row per partition of a queue or of commands: where it begins and ends, how far it was read, what is cut.

    Columns: topic, service, partition, start, before, end, position (0 when nobody ever owned it), queue_time,
    ``cut`` (its beginning is gone), ``letters_cut`` (likewise that of the dead letters), ``commands`` (it is none of a queue).
    """
    letters = extents.where(F.col("kind") == DEAD_LETTER).select(
        "service", "partition", (F.col("start") > 0).alias("letters_cut")
    )
    queues = extents.where(F.col("kind") == QUEUE).join(positions, _PLACE, "left").join(letters, _PLACE, "left")
    time = F.coalesce("queue_time", F.lit(0)).alias("queue_time")
    cut = F.coalesce("letters_cut", F.lit(False)).alias("letters_cut")
    of_queue = queues.select(
        "topic", "service", "partition", "start", "before", "end", F.coalesce("queue", F.lit(0)).alias("position"), time,
        (F.col("start") > 0).alias("cut"), cut, F.lit(False).alias("is_commands"),
    )  # fmt: skip
    nothing = F.lit(None).cast("bigint")
    stem = F.col("topic").substr(F.lit(1), F.length("topic") - len(QUEUE))
    of_commands = queues.select(
        F.concat(stem, F.lit(COMMANDS)).alias("topic"), "service", "partition", nothing.alias("start"),
        nothing.alias("before"), nothing.alias("end"), nothing.alias("position"), time, F.lit(True).alias("cut"), cut,
        F.lit(True).alias("is_commands"),
    )  # fmt: skip
    return of_queue.unionByName(of_commands)


# -- sides -----------------------------------------------------------------------------------------------------------


def sides(rows: DataFrame, parks: DataFrame, places: DataFrame) -> DataFrame:
    """One row per dialog that somebody remembers: ``dialog`` (16 bytes), and structs ``initiator`` and ``target``.

    Each struct is null where that side is not remembered; ``end`` in it is null when only its history is, or its park.
    """
    queues = places.where("not is_commands").select(
        "service", "partition", "queue_time", "cut", "letters_cut"
    )  # fmt: skip
    ends = rows.where("row = 'E'").join(F.broadcast(queues), _PLACE, "left")
    early = (F.col("forgot_at") > F.col("queue_time")) | F.array_contains("fell", "forgotten-early")
    flags = [
        F.bool_or(F.array_contains("fell", name)).alias(name) for name in FALLS[:4]
    ] + [F.bool_or(F.coalesce(early, F.lit(False))).alias("forgotten-early")]  # fmt: skip
    by_side = ends.select(*_identity(), "*", _end().alias("now")).groupBy("dialog", "initiates").agg(
        F.max(F.when(F.col("current"), F.col("now"))).alias("end"), F.count_if("current").alias("rows"), *flags,
    )  # fmt: skip
    found = by_side.join(parks, ["dialog", "initiates"], "full_outer")
    side = F.struct(*(name for name in found.columns if name not in {"dialog", "initiates"}))
    return found.groupBy("dialog").agg(
        F.max(F.when(F.col("initiates"), side)).alias("initiator"),
        F.max(F.when(~F.col("initiates"), side)).alias("target"),
    )


def _identity() -> tuple[Column, Column]:
    return F.substring("key", 2, 16).alias("dialog"), (F.hex(F.substring("key", 18, 1)) == "01").alias("initiates")


def _end() -> Column:
    """Read an E row: what an endpoint and a tombstone have in common, and what only an endpoint has."""
    end, stone, closed = fields_of("endpoint"), fields_of("tombstone"), is_tombstone()

    def either(name: str, other: Column) -> Column:
        return F.when(closed, other).otherwise(end[name]).alias(name)

    nothing = F.lit(None)
    return F.struct(
        "service", "partition", closed.alias("closed"), F.coalesce("queue_time", F.lit(0)).alias("queue_time"),
        F.coalesce("cut", F.lit(True)).alias("cut"), F.coalesce("letters_cut", F.lit(True)).alias("letters_cut"),
        either("state", nothing), either("next_in", stone.accepted + 1), either("next_out", stone.transmitted + 1),
        either("acked", nothing), either("told", nothing), either("discarded", stone.discarded),
        either("dead_lettered", stone.dead_lettered), either("missing", stone.missing), either("contract", nothing),
        either("peer", nothing),
    )  # fmt: skip


# -- what is kept ----------------------------------------------------------------------------------------------------


def kept(rows: DataFrame, writers: Mapping[bytes, str], places: DataFrame) -> DataFrame:
    """One row per envelope that is kept as a row: held, delayed, waiting or parked.

    Columns: service, partition, ``row`` (H, D, W, R), ``initiates`` (whose row it is; null of W), ``index`` (place among the
    parked), ``accepted``, ``source`` (offset in the queue), ``cut`` (that offset is gone), ``readable``, ``envelope``.
    """
    found = rows.where("current and row in ('H', 'D', 'W', 'R')")
    own = _identity()
    parts = found.select(
        "service", "partition", "row", *own, F.col("number").alias("index"), fields_of("waiting").alias("it")
    )  # fmt: skip
    starts = places.where("not is_commands").select("service", "partition", F.col("start"))
    values = parts.select("*", F.col("it.value").alias("value")).where(
        ~F.coalesce(F.col("it.topic").endswith(f".{COMMANDS}"), F.lit(False))
    )
    return decode(values, writers).join(F.broadcast(starts), _PLACE, "left").select(
        "service", "partition", "row", F.when(F.col("row") != "W", F.col("dialog")).alias("of"),
        F.when(F.col("row") != "W", F.col("initiates")).alias("initiates"), "index",
        F.col("it.accepted").alias("accepted"), F.col("it.offset").alias("source"),
        (F.col("it.offset") < F.coalesce("start", F.lit(0))).alias("cut"),
        F.col("envelope.kind").isNotNull().alias("readable"), "envelope",
    )  # fmt: skip


def parks(rows: DataFrame, kept: DataFrame) -> DataFrame:
    """One row per side of a dialog with a park, or with parked rows.

    Columns: dialog, initiates, ``has_park``, ``first`` and ``next`` of its row, ``edited`` (its head has another body than
    was sent), and of the parked rows ``parked``, ``lowest``, ``highest`` (indexes), ``shift`` and ``shift_to`` (least and
    largest difference of a number and its index: the same when the numbers follow each other).
    """
    row = fields_of("park")
    heads = rows.where("current and row = 'F'").select(*_identity(), row.alias("row")).select(
        "dialog", "initiates", F.lit(True).alias("has_park"), "row.first", "row.next", (F.col("row.edited") != "").alias("edited")
    )  # fmt: skip
    shift = F.col("envelope.seq") - F.col("index")
    behind = kept.where("row = 'R'").groupBy(F.col("of").alias("dialog"), "initiates").agg(
        F.count("*").alias("parked"), F.min("index").alias("lowest"), F.max("index").alias("highest"),
        F.min(shift).alias("shift"), F.max(shift).alias("shift_to"),
    )  # fmt: skip
    return heads.join(behind, ["dialog", "initiates"], "full_outer")


GRACE_TIME = GRACE
"""Log time in microseconds that a tombstone outlives what could revive its dialog."""
