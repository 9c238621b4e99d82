"""Records of queues. Each record is joined with its dead letters, its rows of open letters, and its events.

The common key is the **source** of a record: topic, partition and offset. The result is **facts** about dialogs for
``audit.numbers``: one row per record or letter.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.durations import SECOND
from conversations.protocol import letters as names
from conversations.protocol.events import SetAside, Settled
from conversations.protocol.limits import FRAGMENTS
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, DECISIONS, INPUTS, QUEUE
from conversations_ops.settings.given import periods
from spark_jobs.audit.faults import RECORD_FAULTS
from spark_jobs.audit.inputs import Inputs
from spark_jobs.reading.headers import has_header, header
from spark_jobs.reading.integrity import crosses, is_sealed

SOURCE = ["topic", "partition", "offset"]
FAILED = (names.HANDLER_FAILED, names.UNFIT, names.SKIPPED, names.PARKED_AT_END)
"""Reasons of final letters of accepted messages. The receiver counts these letters before it closes the dialog."""
COUNTED = (*FAILED, names.AFTER_END, names.HELD_AT_END)
"""Reasons of letters. The receiver's endpoint counts a letter with such a reason only if the letter is about a message.

The endpoint counts every letter with the reason REFUSED.
"""
PERIODS = periods()
LIFE = f"INTERVAL {(PERIODS.letter_life - PERIODS.clock_ahead) // SECOND} SECONDS"
"""From this age on, a letter need not be open. It is the life of a letter, minus a day, because clocks may disagree."""


def content_of(envelope: Column) -> Column:
    """Return a hash of the content of an envelope. All records of one number must have the same content; other fields may differ."""
    return F.xxhash64(envelope.kind, envelope.message_type, envelope.content_type, envelope.body, envelope.code)


def bytes_of() -> Column:
    """Return a hash of the key and the value of a record."""
    return F.xxhash64("key", "value", F.col("value").isNull())


# -- letters, rows and events about sources --------------------------------------------------------------------------


def marks(inputs: Inputs) -> DataFrame:
    """Return one row per source that has a letter, a row of an open letter, or an event."""
    namespace = inputs.rules.namespace
    letters = _letters(inputs.letters, inputs.extents, namespace)
    said = letters.unionByName(_open_rows(inputs.rows, namespace), allowMissingColumns=True)
    said = said.unionByName(_events(inputs.events, namespace), allowMissingColumns=True)
    final = F.col("is_letter") & ~F.col("held") & F.col("part").isNull()
    ends = F.col("is_letter") & ~F.col("held")
    first = F.min(F.when(F.col("is_letter") & F.col("part").isNull(), F.struct("at", "mark")))
    return said.groupBy(*SOURCE).agg(
        F.count_if("is_letter").alias("letters"),
        (F.count_if(final) + F.count_if(F.col("part").startswith("1/"))).alias("finals"),
        F.bool_or(F.col("is_letter") & F.col("early")).alias("early_letter"),
        F.bool_or(ends & F.col("early")).alias("early_final"),
        F.max(F.when(ends, F.col("reason"))).alias("reason"),
        F.bool_or(ends & F.col("early") & F.col("reason").isin(*FAILED, names.BREACH)).alias("failed"),
        F.bool_or(ends & F.col("early") & F.col("type_given") & F.col("reason").isin(*FAILED)).alias("counted_early"),
        F.bool_or(ends & _counts()).alias("counted"),
        F.bool_or(F.col("reason") == names.SET_ASIDE).alias("set_aside"),
        F.bool_or(F.col("reason") == names.REFUSED).alias("refused"),
        F.bool_or(F.col("reason") == names.EDITED).alias("edited"), first["mark"].alias("first_mark"),
        F.min(F.when(F.col("part").isNull(), F.col("mark"))).alias("mark_low"),
        F.max(F.when(F.col("part").isNull(), F.col("mark"))).alias("mark_high"),
        F.size(F.collect_set("part")).alias("parts"), F.max("parts_of").alias("parts_of"), F.sum("size").alias("size"),
        F.bool_or("joined").alias("joined"), F.bool_or("astray").alias("astray"), F.max("dialog").alias("letter_dialog"),
        F.bool_or("from_initiator").alias("letter_to_target"), F.max("sequence").alias("letter_number"),
        F.max(F.when(F.col("early") & ends & ~F.col("reason").isin(names.SKIPPED, names.COMMAND_REFUSED), F.col("written_at")))
        .alias("open_since"),
        F.bool_or("is_open").alias("is_open"), F.bool_or("closed").alias("closed"),
        F.bool_or(F.col("told") & F.col("early")).alias("told"),
    )  # fmt: skip


def _counts() -> Column:
    return (F.col("type_given") & F.col("reason").isin(*COUNTED)) | (F.col("reason") == names.REFUSED)


def _letters(letters: DataFrame, extents: DataFrame, namespace: str) -> DataFrame:
    """Return letters by their source. ``astray`` is true if the source is not in a topic of the letter's service."""
    before = extents.where(F.col("kind") == DEAD_LETTER).select("service", "partition", "before")
    own = F.concat_ws(".", F.lit(namespace), F.col("service"))
    topics = [F.concat_ws(".", own, F.lit(kind)) for kind in INPUTS]
    part_of = header(names.PART_OF).cast("string")
    found = letters.where(~F.col("reason").isin("foreign", names.UNDELIVERABLE)).join(
        F.broadcast(before), ["service", "partition"], "left"
    )
    return found.select(
        F.col("source_topic").alias("topic"), "partition", F.col("source_offset").alias("offset"),
        F.lit(True).alias("is_letter"), "reason", "held", "part", F.col("offset").alias("at"),
        (F.col("offset") < F.coalesce("before", F.lit(0))).alias("early"), bytes_of().alias("mark"),
        F.split_part("part", F.lit("/"), F.lit(2)).try_cast("int").alias("parts_of"),
        F.when(F.col("part").isNotNull() & (part_of == "value"), F.length("value")).alias("size"),
        (~F.col("source_topic").isin(*topics)).alias("astray"), has_header(names.FRAGMENTS).alias("joined"),
        F.unhex(F.translate("conversation_id", "-", "")).alias("dialog"), "from_initiator", "sequence", "written_at",
        (F.length("type") > 0).alias("type_given"),
    )  # fmt: skip


def returned_facts(letters: DataFrame) -> DataFrame:
    """Make facts for ``audit.numbers`` from letters in which senders gave back what their peers had not accepted.

    ``returned_for_good`` is true if the peer has said that it has not accepted the message, or if the message was never sent.
    """
    uncertain = has_header(names.UNCERTAIN)
    found = letters.where((F.col("reason") == names.UNDELIVERABLE) & F.col("sequence").isNotNull())
    fragments = header(names.FRAGMENTS).cast("string").try_cast("int")
    first = F.col("sequence") + 1 - F.least(F.coalesce(fragments, F.lit(1)), F.lit(FRAGMENTS))
    return found.select(
        F.unhex(F.translate("conversation_id", "-", "")).alias("dialog"), F.col("from_initiator").alias("to_target"),
        F.explode(F.sequence(first, F.col("sequence"))).alias("number"), F.lit(True).alias("returned"), (~uncertain).alias("returned_for_good"),
    )  # fmt: skip


def _open_rows(rows: DataFrame, namespace: str) -> DataFrame:
    first = F.substring("key", 2, 1).cast("string")
    kind = F.when(first == "q", QUEUE).when(first == "d", DECISIONS).otherwise(COMMANDS)
    topic = F.concat_ws(".", F.lit(namespace), F.col("service"), kind)
    return rows.where("current and row = 'L'").select(
        topic.alias("topic"), "partition", F.col("number").alias("offset"), F.lit(True).alias("is_open")
    )  # fmt: skip


def _events(events: DataFrame, namespace: str) -> DataFrame:
    """Return the events about records that were set aside, and about letters that were closed."""
    aside = events.where(F.col("event") == SetAside.NAME).select(*SOURCE, F.lit(True).alias("told"), "early")
    parts = [F.regexp_extract("letter", r"^(.+)\.(queue|commands|decisions)-(\d+)-(\d+)$", at) for at in (1, 2, 3, 4)]
    settled = events.where(F.col("event") == Settled.NAME).select(F.explode("letters").alias("letter")).select(
        F.concat_ws(".", F.lit(namespace), *parts[:2]).alias("topic"), parts[2].try_cast("int").alias("partition"),
        parts[3].try_cast("long").alias("offset"), F.lit(True).alias("closed"),
    )  # fmt: skip
    return aside.unionByName(settled, allowMissingColumns=True)


# -- sources ---------------------------------------------------------------------------------------------------------


def facts(inputs: Inputs, places: DataFrame) -> DataFrame:
    """Return one row per record of a dialog, and per source with a fault. Each of ``RECORD_FAULTS`` is a boolean column.

    ``dialog`` is null if a record belongs to no dialog. ``number`` is -1 if a record has no number.
    """
    e = F.col("envelope")
    wrong = F.concat_ws("\n", e.to_service, e.contract, e.message_type, e.from_initiator.cast("string"))
    records = inputs.records.select(
        *SOURCE, F.lit(True).alias("here"), bytes_of().alias("bytes"), F.length("value").alias("length"), "why",
        "timestamp", F.when(F.col("why").isNull(), e).alias("e"), is_sealed(e).alias("sealed"), crosses(e).alias("crosses"),
        # Each seal of a number has other bytes, and only a holder of the keys can compare the bodies.
        F.when(F.col("why").isNull() & ~is_sealed(e), content_of(e)).alias("content"),
        _among(wrong, inputs.rules.wrong).alias("wrong_side"),
    ).select(
        *SOURCE, "here", "bytes", "length", "why", "timestamp", "sealed", "crosses", "content", "wrong_side", "e.conversation_id", "e.from_initiator", "e.kind",
        "e.seq", F.greatest("e.ack", "e.extras.fence.accepted").alias("ack"), "e.resends", "e.contract", "e.from_service", "e.to_service",
        F.unix_micros("e.accept_until").alias("accept_until"), "e.sent_at",
    )  # fmt: skip
    sourced = records.join(marks(inputs).hint("shuffle_hash"), SOURCE, "full_outer")
    placed = sourced.join(F.broadcast(places), ["topic", "partition"], "left")
    return _facts(
        placed.select("*", *(test.alias(name) for name, test in _tests(events_cut=inputs.events_cut).items()))
    )


def _among(text: Column, known: frozenset[str]) -> Column:
    return text.isin(*sorted(known)) if known else F.lit(False)


def _tests(*, events_cut: bool) -> dict[str, Column]:
    """Return a test for each fault of a source, by its name. A test is false if it cannot be decided because records are gone."""
    here, letters = F.coalesce("here", F.lit(False)), F.coalesce("letters", F.lit(0)) > 0
    of_queue = F.coalesce(~F.col("is_commands"), F.lit(False))
    lettered = here & letters
    without = ~letters & ~F.coalesce("letters_cut", F.lit(True))
    whole = F.when(F.col("edited"), F.col("first_mark") != F.col("bytes")).otherwise(
        (F.col("mark_low") != F.col("bytes")) | (F.col("mark_high") != F.col("bytes"))
    )
    # The letter of a message that came in fragments has the whole message, and its source is the last fragment.
    joined = F.coalesce("joined", F.lit(False))
    divided = (F.col("parts") != F.col("parts_of")) | (F.coalesce("size", F.lit(0)) != F.coalesce("length", F.lit(0)))
    other = (
        (F.col("letter_dialog") != F.col("conversation_id")) | (F.col("letter_to_target") != F.col("from_initiator"))
        | (F.col("letter_number") != F.col("seq"))
    )  # fmt: skip
    sealed = F.coalesce("sealed", F.lit(False))
    expired = F.col("open_since") + F.expr(LIFE) < F.timestamp_micros("queue_time")
    gone = ~here & of_queue & (F.col("offset") >= F.col("start"))
    tests = {
        # An owner discards a sealed record that it cannot open, and a job has no keys.
        "not-set-aside": here & ~sealed & F.col("why").isNotNull() & (F.col("offset") < F.col("position")) & ~F.coalesce("set_aside", F.lit(False)) & ~F.col("letters_cut"),
        "letter-unfounded": letters & (F.col("astray") | (gone & (F.col("early_letter") | (F.col("offset") < F.col("end"))))),
        "letter-unread": lettered & F.col("early_letter") & (F.col("offset") >= F.col("position")),
        "letter-bytes": lettered & ~joined & ~sealed & F.when(F.col("parts") > 0, divided).otherwise(whole),
        "letter-twice": F.col("finals") > 1,
        "letter-mislabelled": lettered & F.col("why").isNull() & other,
        "letter-row-alone": F.col("is_open") & without,
        "letter-not-open": F.col("open_since").isNotNull() & ~F.coalesce("is_open", F.lit(False)) & ~F.coalesce("closed", F.lit(False)) & ~expired & F.lit(not events_cut),
        "event-without-letter": F.col("told") & without,
    }  # fmt: skip
    return {name: F.coalesce(tests[name], F.lit(False)) for name in RECORD_FAULTS}


def _facts(placed: DataFrame) -> DataFrame:
    here, aside = F.coalesce("here", F.lit(False)), F.coalesce("set_aside", F.lit(False))
    of_dialog = here & F.col("why").isNull()
    found = F.lit(False)
    for name in RECORD_FAULTS:
        found |= F.col(name)
    cut = ~here & F.col("letter_dialog").isNotNull() & ~F.coalesce("is_commands", F.lit(True))
    read, early = F.col("offset") < F.col("position"), F.col("offset") < F.col("before")
    late = of_dialog & F.col("refused") & (F.unix_micros("timestamp") >= F.col("accept_until"))
    lettered = (of_dialog | cut) & ~aside
    fresh = ~F.coalesce(F.unix_micros("sent_at") < F.col("oldest"), F.lit(False))
    crossed, plain = of_dialog & F.col("crosses"), of_dialog & ~F.col("sealed")
    number = F.coalesce(F.when(of_dialog, F.col("seq")).when(cut, F.col("letter_number")), F.lit(-1))
    return placed.where(of_dialog | cut | found).select(
        F.when(of_dialog, F.col("conversation_id")).otherwise(F.col("letter_dialog")).alias("dialog"),
        F.when(of_dialog, F.col("from_initiator")).otherwise(F.col("letter_to_target")).alias("to_target"),
        number.alias("number"), (of_dialog & ~aside).alias("on_wire"), (of_dialog & aside).alias("aside"), "offset",
        fresh.alias("fresh"), (of_dialog & F.col("resends")).alias("resends"), read.alias("read"), early.alias("early"), "kind", "content", "wrong_side",
        (lettered & F.col("reason").isNotNull()).alias("letter"), (lettered & F.col("early_final")).alias("early_final"),
        (lettered & F.col("failed")).alias("failed"), (lettered & F.col("counted")).alias("counted"),
        (lettered & F.col("counted_early")).alias("counted_early"), late.alias("late_refusal"),
        F.when(of_dialog & ~aside, F.col("ack")).alias("ack"), F.coalesce(crossed, F.lit(False)).alias("crosses"),
        F.coalesce(plain, F.lit(False)).alias("plain"),
        F.when(of_dialog, F.col("accept_until")).alias("accept_until"), "from_service", "to_service", "contract", "queue_time",
        F.col("cut").alias("wire_cut"), F.when(of_dialog, F.col("partition")).alias("queue_partition"), F.when(found, F.concat_ws("-", *SOURCE)).alias("place"), *RECORD_FAULTS,
    )  # fmt: skip
