"""The state of owners and its history: both sides of each dialog, rows that keep envelopes, parks and positions."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.topics import COMMANDS, DEAD_LETTER, DECISIONS, QUEUE
from conversations_ops.settings.given import periods
from spark_jobs.reading.envelopes import decode
from spark_jobs.reading.identifiers import uuid_text
from spark_jobs.reading.partitioning import partition_of
from spark_jobs.reading.rows import fields_of, instant_of, is_tombstone

FALLS = ("accepted-fell", "sent-fell", "acknowledged-fell", "revived", "forgotten-early", "position-fell")
"""Faults in the history of a key: a row that cannot follow the row before it."""
OVER = (3, 5, 6, 8, 9)
"""States in which no message of the peer reaches a handler: DO, ER, CD, FO, SE."""
HEARING = (0, 1, 2, 4)
"""States that a side must leave when it reads an ERROR of the peer: SO, SI, CO, DI."""
_PLACE = ["service", "partition"]


def watched(history: DataFrame) -> DataFrame:
    """Keep the newest row of each key of the state topics, each row with a fault of ``FALLS``, and each deleted tombstone.

    Adds three columns. ``current``: the row is the newest row of its key, and not a deletion. ``forgot_at``: the log time up to
    which a deleted tombstone had to be kept. ``fell``: the faults of ``FALLS`` that the row shows.
    """
    history = _read(history, "endpoint", "tombstone", "partition").withColumn("said", _said())
    history = history.drop("endpoint", "tombstone", "partition_row")
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


_LETTERS = {"endpoint": "E", "tombstone": "E", "partition": "P", "park": "F", "waiting": "HDWRN", "unacknowledged": "U"}
"""Kinds of rows by schema."""


def _read(rows: DataFrame, *names: str) -> DataFrame:
    """Decode rows: add a column for each schema, null in rows with another schema. Each value is decoded once."""
    found = {}
    for name in names:
        mine = F.col("row").isin(*_LETTERS[name]) & F.col("value").isNotNull()
        found["partition_row" if name == "partition" else name] = F.when(mine, fields_of(name))
    return rows.select("*", *(column.alias(name) for name, column in found.items()))


def _said() -> Column:
    """Return the numbers of an E or P row that must never become smaller; null for other rows and for deletions."""
    end, stone, place = F.col("endpoint"), F.col("tombstone"), F.col("partition_row")
    nothing = F.lit(None).cast("bigint")

    def struct(closed: bool, *numbers: Column) -> Column:
        names = ("first", "second", "third", "until")
        return F.struct(
            F.lit(closed).alias("closed"),
            *(number.cast("bigint").alias(name) for name, number in zip(names, numbers, strict=True)),
        )

    closed = struct(True, stone.accepted + 1, stone.transmitted + 1, nothing, instant_of(stone.forget_at))
    is_open = struct(False, end.next_in, end.next_out, end.acked, nothing)
    position = struct(False, place.queue, place.commands, place.queue_time, nothing)
    return (
        F.when(stone.accepted.isNotNull(), closed)
        .when(end.next_in.isNotNull(), is_open)
        .when(place.queue.isNotNull(), position)
    )


# -- partitions ------------------------------------------------------------------------------------------------------


def places(rows: DataFrame, extents: DataFrame) -> DataFrame:
    """Return one row per partition of a queue, of commands or of decisions: its start and end, its position, and whether its beginning is gone.

    Columns: topic, service, partition, start, before, end, oldest, position and queue_time (0 if no worker ever owned the
    partition, null if its row is missing), ``cut`` (the beginning of the partition is gone), ``letters_cut`` (the beginning of its
    dead letters is gone), ``is_commands`` (also true for decisions). This function runs a query on the partition rows of the state. The returned table
    is joined in many places. Without the query, Spark would compute the table again in each place.
    """
    said = F.max(F.when(F.col("row") == "P", F.struct("partition_row.queue", "partition_row.queue_time"))).alias("said")
    read = _read(rows.where("current"), "partition").groupBy(*_PLACE).agg(said)
    owned = {(it["service"], it["partition"]): it["said"] or (None, None) for it in read.collect()}
    known = extents.collect()
    letters_cut = {(it["service"], it["partition"]): it["start"] > 0 for it in known if it["kind"] == DEAD_LETTER}
    found: list[tuple[object, ...]] = []
    for it in known:
        if it["kind"] != QUEUE:
            continue
        place, stem = (it["service"], it["partition"]), it["topic"].removesuffix(QUEUE)
        position, time = owned.get(place, (0, 0))
        cut = letters_cut.get(place, False)
        found += [
            (it["topic"], *place, it["start"], it["before"], it["end"], it["oldest"], position, time, it["start"] > 0, cut, False),
            *((stem + kind, *place, None, None, None, None, None, time, True, cut, True) for kind in (COMMANDS, DECISIONS)),
        ]  # fmt: skip
    return rows.sparkSession.createDataFrame(found, _PLACES)


_PLACES = (
    "topic string, service string, partition int, start long, before long, end long, oldest long, position long, queue_time long, "
    "cut boolean, letters_cut boolean, is_commands boolean"
)


# -- sides -----------------------------------------------------------------------------------------------------------


def sides(rows: DataFrame, kept: DataFrame, places: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """Return one row per dialog with state rows: ``dialog`` (16 bytes), and structs ``initiator`` and ``target``.

    A struct is null if this side has no rows. Its fields are:

    * ``end``: the newest E row; null if only the history of the side or its park is left. ``rows``: the number of newest E rows;
      more than one is a fault
    * a flag for each fault of the history of the side;
    * ``has_park``; ``first`` and ``next`` of the park's row; ``edited``: an operator has changed the body of the
      head of the park;
    * ``parked``: the number of parked rows; ``lowest`` and ``highest``: the smallest and largest index of these rows;
    * ``shift`` and ``shift_to``: the smallest and largest difference between the number of a parked message and its index. They
      are equal if the numbers follow each other.

    The field ``peer_cut`` of ``end`` is about the queue partition that this side sends to. It is true if the beginning of that
    partition is gone. It is null if the row does not name the peer (a tombstone), or if the peer's service is not audited.
    The argument ``partitions`` is ``Rules.partitions``.
    """
    ends, heads, shift = _ends(rows, places, partitions), _heads(rows), F.col("envelope.seq") - F.col("index")
    behind = kept.where("row = 'R'").select(F.col("of").alias("dialog"), "initiates", "index", shift.alias("shift"))
    facts = ends.unionByName(heads, allowMissingColumns=True).unionByName(behind, allowMissingColumns=True)
    flags = [
        F.coalesce(F.bool_or(name), F.lit(False)).alias(name)
        for name in (*FALLS[:5], "has_park", "edited", "group-missing")
    ]
    side = facts.repartition("dialog").groupBy("dialog", "initiates").agg(
        F.max("now").alias("end"), F.count("now").alias("rows"), *flags, F.max("first").alias("first"),
        F.max("next").alias("next"), F.count("index").alias("parked"), F.min("index").alias("lowest"),
        F.max("index").alias("highest"), F.min("shift").alias("shift"), F.max("shift").alias("shift_to"),
    )  # fmt: skip
    struct = F.struct(*(name for name in side.columns if name not in {"dialog", "initiates"}))
    return side.groupBy("dialog").agg(
        F.max(F.when(F.col("initiates"), struct)).alias("initiator"),
        F.max(F.when(~F.col("initiates"), struct)).alias("target"),
    )


def _identity() -> tuple[Column, Column]:
    return F.substring("key", 2, 16).alias("dialog"), (F.hex(F.substring("key", 18, 1)) == "01").alias("initiates")


def _ends(rows: DataFrame, places: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """Return E rows: the newest rows in ``now``, and the faults of their history."""
    queues = places.where("not is_commands").select("service", "partition", "queue_time", "cut", "letters_cut")
    found = _read(rows.where("row = 'E'"), "endpoint", "tombstone").join(F.broadcast(queues), _PLACE, "left")
    found = _grouped(_sending(found, queues, partitions), rows)
    early = (F.col("forgot_at") > F.col("queue_time")) | F.array_contains("fell", "forgotten-early")
    return found.select(
        *_identity(), F.when(F.col("current"), _end()).alias("now"),
        *(F.array_contains("fell", name).alias(name) for name in FALLS[:4]), early.alias("forgotten-early"),
        (F.col("current") & F.col("groups_row") & ~F.col("group_found")).alias("group-missing"),
    )  # fmt: skip


def _sending(ends: DataFrame, queues: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """Add ``peer_cut``. The owner of a side computes the partition that the side sends to in the same way."""
    counts = F.create_map(*(F.lit(it) for pair in partitions.items() for it in pair))
    peer, key = F.col("endpoint.peer"), F.col("endpoint.peer_key")
    place = partition_of(key, F.try_element_at(counts, peer))
    peers = queues.select(
        F.col("service").alias("peer"), F.col("partition").alias("peer_partition"), F.col("cut").alias("peer_cut")
    )
    sending = ends.select("*", peer.alias("peer"), place.alias("peer_partition"))
    return sending.join(F.broadcast(peers), ["peer", "peer_partition"], "left")


def _grouped(ends: DataFrame, rows: DataFrame) -> DataFrame:
    """Add ``groups_row`` (the group of an open endpoint must have a row) and ``group_found`` (the group has a row)."""
    end, dialog = F.col("endpoint"), uuid_text(F.substring("key", 2, 16))
    name = F.concat(
        F.lit("G").cast("binary"), F.encode(end.origin, "utf-8"), F.lit(bytearray(1)), F.encode(end.key, "utf-8")
    )
    groups = rows.where("current and row = 'G'").select(
        *_PLACE, F.col("key").alias("group"), F.lit(True).alias("has_row")
    )
    named = ends.select(
        "*", name.alias("group"), F.coalesce(end.stateful | (end.key != dialog), F.lit(False)).alias("groups_row")
    )
    found = named.join(groups, [*_PLACE, "group"], "left")
    return found.select("*", F.coalesce("has_row", F.lit(False)).alias("group_found"))


def _end() -> Column:
    """Read the fields of an E row. Some are fields of endpoints and tombstones, the others only of endpoints."""
    end, stone, closed = F.col("endpoint"), F.col("tombstone"), is_tombstone()

    def either(name: str, other: Column) -> Column:
        return F.when(closed, other).otherwise(end[name]).alias(name)

    nothing = F.lit(None)
    return F.struct(
        "service", "partition", closed.alias("closed"), F.coalesce("queue_time", F.lit(0)).alias("queue_time"),
        F.coalesce("cut", F.lit(True)).alias("cut"), F.coalesce("letters_cut", F.lit(True)).alias("letters_cut"),
        either("state", nothing), either("next_in", stone.accepted + 1), either("next_out", stone.transmitted + 1),
        either("acked", nothing), either("told", nothing), either("discarded", stone.discarded),
        either("dead_lettered", stone.dead_lettered), either("missing", stone.missing), either("contract", nothing),
        either("peer", nothing), either("handled", nothing), either("code", stone.code), "peer_cut",
        F.coalesce(F.length(stone.replaced_by) > 0, F.lit(False)).alias("is_replaced"),
    )  # fmt: skip


def _heads(rows: DataFrame) -> DataFrame:
    found = _read(rows.where("current and row = 'F'"), "park")
    edited = (F.col("park.edited") != "").alias("edited")
    return found.select(*_identity(), F.lit(True).alias("has_park"), "park.first", "park.next", edited)


# -- dialogs that replace others -------------------------------------------------------------------------------------


def successors(rows: DataFrame, records: DataFrame, kept: DataFrame) -> DataFrame:
    """Return one row for each closed initiator whose dialog was replaced by a new dialog.

    Columns: ``dialog``; ``carried``: the count of numbers that the new dialog has sent, 0 if it has no row; ``from_number``: the number
    of the first message that was sent again, counted on the replaced dialog, null if no record is left that says so.
    """
    found = _read(rows.where("current and row = 'E' and hex(substring(key, 18, 1)) = '01'"), "endpoint", "tombstone")
    end, stone, e = F.col("endpoint"), F.col("tombstone"), F.col("envelope")
    dialog = F.substring("key", 2, 16)
    counts = found.select(dialog.alias("successor"), F.coalesce(end.next_out, stone.transmitted + 1).alias("carried"))
    again = [
        it.where(e.extras.origin.isNotNull()).select(
            e.conversation_id.alias("successor"), (e.extras.origin.seq - e.seq).alias("base")
        )
        for it in (records.where("why is null"), kept.where("readable"))
    ]  # fmt: skip
    bases = again[0].unionByName(again[1]).groupBy("successor").agg(F.max("base").alias("base"))
    own = bases.select(F.col("successor").alias("dialog"), F.col("base").alias("own_base"))
    replaced = found.where(F.length(stone.replaced_by) > 0).select(
        dialog.alias("dialog"), stone.replaced_by.alias("successor")
    )
    joined = replaced.join(counts, "successor", "left").join(bases, "successor", "left").join(own, "dialog", "left")
    return joined.select(
        "dialog",
        F.coalesce("carried", F.lit(0)).alias("carried"),
        # The first dialog of a chain has no origin. A dialog in the middle of a chain has one, unless its records are gone.
        (F.col("base") - F.coalesce("own_base", F.lit(0))).alias("from_number"),
    )


# -- envelopes kept as rows ------------------------------------------------------------------------------------------


def kept(rows: DataFrame, writers: Mapping[bytes, str], places: DataFrame) -> DataFrame:
    """Return one row per envelope that is kept as a row: held, delayed, waiting or parked.

    Columns: service, partition, ``row`` (H, D, W, R), ``of`` and ``initiates`` (the dialog and the side that the row belongs to;
    null for W), ``index`` (place among the parked rows), ``accepted``, ``source`` (offset in the queue), ``cut`` (this offset is
    gone), ``readable``, ``envelope``.
    """
    found = _read(rows.where("current and row in ('H', 'D', 'W', 'R', 'N')"), "waiting")
    kind = F.substring_index("waiting.topic", ".", -1)
    commands = F.coalesce(kind.isin(COMMANDS, DECISIONS), F.lit(False))
    parts = found.where(~commands).select(
        "service", "partition", "row", *_identity(), F.col("number").alias("index"), F.col("waiting").alias("it"),
        F.col("waiting.value").alias("value"),
    )  # fmt: skip
    starts = places.where("not is_commands").select("service", "partition", F.col("start"))
    return decode(parts, writers).join(F.broadcast(starts), _PLACE, "left").select(
        "service", "partition", "row", F.when(F.col("row") != "W", F.col("dialog")).alias("of"),
        F.when(F.col("row") != "W", F.col("initiates")).alias("initiates"), "index",
        F.col("it.accepted").alias("accepted"), F.col("it.offset").alias("source"),
        (F.col("it.offset") < F.coalesce("start", F.lit(0))).alias("cut"),
        F.col("envelope.kind").isNotNull().alias("readable"), "envelope",
    )  # fmt: skip


GRACE_TIME = periods().grace
"""Log time, in microseconds, that a tombstone stays after the last record that could begin its dialog again."""


def unreadable() -> Column:
    """Return a column that is true if a row fits none of the schemas, or is cut off.

    Rows of letters, groups and commands are not checked.
    """
    fields = (
        fields_of("endpoint").next_in, fields_of("tombstone").accepted, fields_of("park").first, fields_of("partition").queue,
        fields_of("waiting").offset, F.nullif(F.size(fields_of("unacknowledged").tails), F.lit(-1)),
    )  # fmt: skip
    return (
        F.col("row").isin("E", "F", "P", "H", "D", "W", "R", "U")
        & F.coalesce(*(it.cast("long") for it in fields)).isNull()
    )
