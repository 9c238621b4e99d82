"""Facts about each number of a direction, joined with the rows of both sides, and the faults of the number.

There is one row per dialog, direction and number. Facts without a number, for example acknowledgements, are in a row with number
-1. Each direction of a dialog with state rows has a row with number -1.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from spark_jobs.audit.faults import NUMBER_FAULTS, RECORD_FAULTS
from spark_jobs.audit.reports import is_unreported
from spark_jobs.audit.sources import content_of
from spark_jobs.audit.state import OVER
from spark_jobs.reading.rows import fields_of

NUMBER = ["dialog", "to_target", "number"]


def kept_facts(kept: DataFrame) -> DataFrame:
    """Make the facts for ``numbers`` from rows that keep an envelope."""
    e, row = F.col("envelope"), F.col("row")
    waits = ((row == "W") & F.col("accepted") & (e.kind == "MESSAGE")) | (row == "N")
    return kept.where("readable").select(
        e.conversation_id.alias("dialog"), e.from_initiator.alias("to_target"), e.seq.alias("number"),
        (row == "H").alias("held"), (row == "R").alias("parked"), (row == "D").alias("delayed"), waits.alias("waiting"),
        ((row == "W") & ~F.col("accepted")).alias("pending"),
        ((row == "W") & ~F.col("accepted") & (e.kind == "ERROR")).alias("pending_error"),
        ((row != "D") & ~F.col("cut")).alias("was_sent"),
        F.when(row != "D", content_of(e)).alias("kept_content"),
        F.when(row == "R", F.col("index")).alias("index"),
        F.when(row == "D", e.from_service).alias("from_service"), F.when(row == "D", e.to_service).alias("to_service"),
        F.when(row == "D", e.contract).alias("contract"), F.when(row == "D", e.kind).alias("delayed_kind"),
    )  # fmt: skip


def sent_facts(rows: DataFrame) -> DataFrame:
    """Make the facts for ``numbers`` from rows in which a sender keeps what its peer has not acknowledged."""
    tails = fields_of("unacknowledged").tails
    kept = rows.where("current and row = 'U'").select("key", "number", F.posexplode(tails).alias("at", "tail"))
    return kept.select(
        F.substring("key", 2, 16).alias("dialog"), (F.hex(F.substring("key", 18, 1)) == "01").alias("to_target"),
        (F.col("number") + F.col("at")).alias("number"), F.lit(True).alias("with_sender"),
    )  # fmt: skip


def side_facts(rows: DataFrame) -> DataFrame:
    """Make a row with number -1 for each direction of a dialog that has rows of kinds E, F or R."""
    both = F.explode(F.array(F.lit(True), F.lit(False))).alias("to_target")
    own = rows.where("row in ('E', 'F', 'R')")
    return own.select(F.substring("key", 2, 16).alias("dialog"), both, F.lit(-1).cast("long").alias("number"))


def numbers(facts: DataFrame, sides: DataFrame) -> DataFrame:
    """Put facts together by number, and add both sides of the dialog: ``r`` is the receiver's side, ``s`` the sender's side.

    The column ``successor`` comes with ``sides``.
    """
    flags = (
        "read", "letter", "early_final", "failed", "late_refusal", "pending_error", "was_sent", "skip_unreported",
        "decision_unreported", "resends", "with_sender", "returned", "returned_for_good", "crosses",
    )  # fmt: skip
    counts = ("held", "parked", "delayed", "waiting", "pending", "counted", "counted_early", "aside")
    wire = F.col("on_wire")
    any_record = wire | F.col("aside")
    found = facts.repartition("dialog").groupBy(*NUMBER).agg(
        F.count_if(wire).alias("copies"), *(F.count_if(name).alias(name) for name in counts),
        *(F.coalesce(F.bool_or(name), F.lit(False)).alias(name) for name in flags if name != "read"),
        F.coalesce(F.bool_or(wire & F.col("read")), F.lit(False)).alias("read"),
        F.coalesce(F.bool_or(any_record & F.col("early")), F.lit(False)).alias("early"),
        F.coalesce(F.bool_or(wire & F.col("early")), F.lit(False)).alias("early_copy"),
        F.coalesce(F.bool_or(any_record), F.lit(False)).alias("traced"),
        F.min(F.when(wire, F.struct("offset", "kind", "wrong_side"))).alias("first"),
        F.min(F.when(wire & F.col("fresh"), F.col("offset"))).alias("fresh"),
        F.min(F.when(wire, F.col("content"))).alias("content_low"), F.max(F.when(wire, F.col("content"))).alias("content_high"),
        F.min("kept_content").alias("kept_low"), F.max("kept_content").alias("kept_high"), F.min("index").alias("index"),
        F.coalesce(F.bool_or(wire & F.col("plain")), F.lit(False)).alias("plain"),
        F.coalesce(F.bool_or(wire & F.col("plain") & F.col("read") & (F.col("kind") == "ERROR")), F.lit(False)).alias("error_read"),
        F.max(F.when(F.col("early") & F.col("plain"), F.col("ack"))).alias("ack_early"), F.max("ack").alias("ack"),
        F.max("accept_until").alias("accept_until"), F.max("queue_time").alias("queue_time"),
        F.max("from_service").alias("from_service"), F.max("to_service").alias("to_service"), F.max("contract").alias("contract"),
        F.max("delayed_kind").alias("delayed_kind"), F.bool_or("wire_cut").alias("wire_cut"), F.max("queue_partition").alias("queue_partition"), F.min("place").alias("place"),
        *(F.count_if(name).alias(name) for name in RECORD_FAULTS),
    )  # fmt: skip
    joined = found.join(sides, "dialog", "left")
    receiver = F.when(F.col("to_target"), F.col("target")).when(~F.col("to_target"), F.col("initiator"))
    sender = F.when(F.col("to_target"), F.col("initiator")).when(~F.col("to_target"), F.col("target"))
    return joined.select("*", receiver.alias("r"), sender.alias("s")).drop("initiator", "target")


def judged(numbers: DataFrame) -> DataFrame:
    """Add to each number: facts about the other numbers of its direction, its outcome, and its faults (``NUMBER_FAULTS``)."""
    by_number = Window.partitionBy("dialog", "to_target").orderBy("number")
    all_of_it = by_number.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    before = by_number.rowsBetween(Window.unboundedPreceding, -1)
    after = by_number.rowsBetween(1, Window.unboundedFollowing)
    numbered = F.col("number") >= 0
    # Anybody may write a record that looks sealed. It counts only if its receiver has opened and kept or accepted it.
    inside = (F.col("copies") > 0) & (F.col("plain") | _is_accepted() | _is_kept())
    with_sender = F.col("with_sender") | F.col("returned")
    sent = numbered & (inside | (F.col("aside") > 0) | (F.col("delayed") > 0) | with_sender)
    # True if the beginning of the queue's partition is gone. This is read from the receiver's row. Without that row it is read
    # from a record, and without a record it is read from the sender's row.
    cut = F.coalesce(F.col("r.end.cut"), F.max("wire_cut").over(all_of_it), F.col("s.end.peer_cut"), F.lit(True))
    there = numbers.withColumn("cut", cut)
    there = there.select(
        "*", sent.alias("sent"), (numbered & inside).alias("inside"),
        F.max(F.when(sent, F.col("number"))).over(before).alias("before"),
        # A fresh record was sent after the cut. Any other record may repeat a record that is gone, so it cannot be the first.
        F.min(F.when(numbered & F.col("fresh").isNotNull(), F.struct("fresh", "number"))).over(all_of_it)["number"].alias("base"),
        F.min(F.when((F.col("waiting") > 0) | (F.col("parked") > 0), F.col("number"))).over(all_of_it).alias("kept_from"),
        F.min(F.when(numbered & inside & F.col("first.kind").isin("END", "ERROR"), F.col("number"))).over(all_of_it).alias("end_at"),
        F.min(F.when(numbered, F.col("first.offset"))).over(after).alias("later"),
        F.max("late_refusal").over(all_of_it).alias("reborn"),
    )  # fmt: skip
    r = F.col("r.end")
    floor = F.when(F.col("cut"), F.col("base")).otherwise(F.lit(0))
    there = there.select(
        "*",
        _is_accepted().alias("accepted"),
        (_is_passed_over() & numbered).alias("passed_over"),
        floor.alias("floor"),
        _is_kept().alias("kept"),
        (r.closed | r.state.isin(*OVER)).alias("over"),
    )
    # What a replaced dialog had not accepted was sent again, or never sent: only numbers below can be missing.
    end = F.when(F.col("s.end.is_replaced"), F.least("number", r.next_in)).otherwise(F.col("number"))
    gap = F.greatest(end - F.coalesce("before", F.col("floor") - 1, F.col("number") - 1) - 1, F.lit(0))
    in_range = F.col("sent") & F.coalesce(F.col("number") > F.col("floor"), F.lit(False))
    return there.select("*", F.when(in_range, gap).otherwise(F.lit(0)).alias("gap"), _found().alias("found"))


def _is_passed_over() -> Column:
    return F.coalesce(F.array_contains("r.end.missing", F.col("number")), F.lit(False))


def _is_accepted() -> Column:
    accepted = F.coalesce(F.col("number") < F.col("r.end.next_in"), F.lit(False))
    return accepted & ~_is_passed_over() & (F.col("number") >= 0)


def _is_kept() -> Column:
    return (F.col("held") + F.col("waiting") + F.col("pending") + F.col("parked")) > 0


def _found() -> Column:
    """List the faults of a number, and of the records with this number, as entries of ``found``."""
    at, once = F.when(F.col("number") >= 0, F.col("number")), F.lit(1).cast("long")
    nowhere = F.lit(None).cast("string")
    faults = [F.when(test, found(name, at, once, nowhere)) for name, test in _tests().items()]
    faults += [F.when(F.col(name) > 0, found(name, at, F.col(name), F.col("place"))) for name in RECORD_FAULTS]
    return F.array_compact(F.array(*faults))


def found(name: str, number: Column, count: Column, place: Column) -> Column:
    """Make one entry of a list of faults."""
    return F.struct(
        F.lit(name).alias("fault"), number.cast("long").alias("number"), count.cast("long").alias("count"),
        place.cast("string").alias("place"),
    )  # fmt: skip


def _tests() -> dict[str, Column]:
    """Return a test for each fault of a number, by its name. A test is null if it cannot be decided."""
    r, number, kind = F.col("r.end"), F.col("number"), F.col("first.kind")
    inside, accepted, over = F.col("inside"), F.col("accepted"), F.col("over")
    known = r.next_in.isNotNull() & ~F.coalesce("reborn", F.lit(False))
    # A receiver whose dialog is over leaves what it does not accept to a sender that keeps it. So does one on another cluster at any time.
    left = (over & F.col("resends")) | F.col("crosses")
    owed = ~left & ((kind == "MESSAGE") | ((kind == "END") & (~over | (number == r.next_in))))
    s = F.col("s.end")
    with_sender = F.col("with_sender") | (F.col("delayed") > 0) | F.col("returned") | s.is_replaced
    neither = F.col("read") & ~accepted & ~F.col("kept") & ~F.col("letter")
    rows = F.col("held") + F.col("waiting") + F.col("parked")
    edited = F.coalesce(F.col("r.edited"), F.lit(False)) & (F.col("index") == F.col("r.first"))
    other = ~F.col("kept_low").isin(F.col("content_low"), F.col("content_high")) | ~F.col("kept_high").isin(
        F.col("content_low"), F.col("content_high")
    )
    tests = {
        "number-twice": inside & (F.col("content_low") != F.col("content_high")),
        "unaccounted": known & inside & F.col("read") & owed & ~accepted & ~F.col("kept") & ~F.col("letter") & ~(over & r.letters_cut),
        "lost": known & inside & neither & left & (kind == "MESSAGE") & F.col("early_copy") & (number < s.next_out)
        & ~with_sender & ~s.letters_cut,
        "twice": known & accepted & F.col("returned_for_good"),
        "accepted-unread": known & inside & accepted & ~F.col("read") & ~F.col("cut"),
        "held-below": (F.col("held") > 0) & (r.closed | ((number < r.next_in) & ~over)),
        "kept-unsent": F.col("was_sent") & F.col("kept") & ~inside & (F.col("aside") == 0) & (number >= 0),
        "kept-twice": rows > 1,
        "kept-bytes": inside & F.col("kept") & ~F.coalesce(edited, F.lit(False)) & other,
        "parked-settled": F.col("early_final") & ((F.col("parked") > 0) | (F.col("waiting") > 0)),
        "settled-unaccepted": known & F.col("failed") & (number >= r.next_in),
        "settled-early": inside & accepted & ~F.col("kept") & (number > F.col("kept_from")) & ~over,
        "wrong-side": inside & F.col("first.wrong_side") & accepted & ~F.col("letter") & ~F.col("kept"),
        # A message that its receiver asks for again may be delayed, though it was sent before.
        "delayed-sent": (F.col("delayed") > 0) & F.col("early_copy") & (number >= 0) & ~F.col("with_sender"),
        "after-end": inside & (kind == "MESSAGE") & (number > F.col("end_at")),
    }  # fmt: skip
    tests |= is_unreported(F.col("s.end"))
    return {name: tests[name] for name in NUMBER_FAULTS}
