"""One row per dialog and direction: its counts, and every fault found in it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from spark_jobs.audit.faults import FAULTS, SIDE_FAULTS
from spark_jobs.audit.numbers import found
from spark_jobs.audit.state import GRACE_TIME, HEARING
from spark_jobs.reading.identifiers import uuid_text

COUNTS = (
    "sent", "accepted", "settled", "letters", "waiting", "parked", "held", "delayed", "in_flight", "duplicates", "missing",
    "reordered", "with_sender", "returned", "unaccounted",
)  # fmt: skip
"""Columns with counts of numbers. The column ``duplicates`` has the number of records that repeat a number."""
_CONSTANT = (
    "from_service", "to_service", "contract", "accept_until", "queue_time", "ack", "ack_early", "queue_partition"
)  # fmt: skip


def directions(
    judged: DataFrame, services: tuple[str, ...], times: DataFrame, lost: frozenset[tuple[str, int]]
) -> DataFrame:
    """Sum up the numbers of each direction.

    ``times`` has the latest log time that each service has read: service, ``latest``. ``lost`` has the partitions whose
    row is missing: (service, partition). The missing row may be the only cause of a fault in a dialog of these partitions. So
    such faults are counted in ``follow``, and not listed in ``faults``.

    Columns: conversation_id, to_target (both null for records that belong to no dialog), from_service, to_service, contract, the
    columns of ``COUNTS``, ``gaps`` (array of ``{first, last}``), ``cut`` (the beginning of the direction may be gone; only the
    rest is judged), ``forgotten`` (the receiver has no row any more, and need not have one), ``faults`` (array of
    ``{fault, number, count, what}``), and ``follow`` (number of faults that may follow from a partition in ``lost``).
    """
    dialog = Window.partitionBy("dialog")
    found = _summed(judged)
    opposite = [_opposite(name, dialog).alias(f"back_{name}") for name in ("ack", "ack_early", "reborn", "cut")]
    found = found.select("*", *opposite, F.max("accept_until").over(dialog).alias("begun_until"))
    times = times.select(F.col("service").alias("from_service"), F.col("latest").alias("sender_time"))
    found = found.join(F.broadcast(times), "from_service", "left")
    for step in (_known(), _absent()):
        found = found.select("*", *(column.alias(name) for name, column in step.items()))
    tests = _tests(services) | _parks() | _history()
    found = found.select("*", *(F.coalesce(tests[name], F.lit(False)).alias(f"is {name}") for name in SIDE_FAULTS))
    return _shown(found.select("*", _is_of(lost, dialog).alias("of_lost")))


def _is_of(lost: frozenset[tuple[str, int]], dialog: WindowSpec) -> Column:
    """Return a column that is true if a side of the dialog, or its queue, is in one of the partitions ``lost``."""
    names = [f"{service} {partition}" for service, partition in sorted(lost)]
    places = (
        ("r.end.service", "r.end.partition"),
        ("s.end.service", "s.end.partition"),
        ("to_service", "queue_partition"),
    )
    if not names:
        return F.lit(False)
    return F.max(F.greatest(*(F.concat_ws(" ", *place).isin(names) for place in places))).over(dialog)


def _opposite(name: str, dialog: WindowSpec) -> Column:
    """Return the value of a column in the other direction of the same dialog."""
    there = F.max(F.when(F.col("to_target"), F.col(name))).over(dialog)
    back = F.max(F.when(~F.col("to_target"), F.col(name))).over(dialog)
    return F.when(F.col("to_target"), back).otherwise(there)


# -- sums ------------------------------------------------------------------------------------------------------------


def _summed(judged: DataFrame) -> DataFrame:
    number, gap = F.col("number"), F.col("gap")
    numbered = number >= 0
    before_error = F.coalesce("first.kind", "delayed_kind") == "ERROR"
    gaps = F.when(gap > 0, F.struct((number - gap).alias("first"), (number - 1).alias("last")))
    early = numbered & F.col("early") & ((F.col("copies") > 0) | (F.col("aside") > 0))
    return judged.groupBy("dialog", "to_target").agg(
        F.any_value("r", ignoreNulls=True).alias("r"), F.any_value("s", ignoreNulls=True).alias("s"),
        F.any_value("successor", ignoreNulls=True).alias("successor"), F.bool_or("over").alias("over"),
        *(F.max(name).alias(name) for name in _CONSTANT), F.min("floor").alias("floor"),
        *(F.bool_or(name).alias(name) for name in ("reborn", "cut", "traced", "error_read", "pending_error", "crosses")),
        *(F.count_if(test).alias(name) for name, test in _places().items()),
        F.sum(F.when(F.col("inside"), F.col("copies") - 1).otherwise(0)).alias("duplicates"), F.sum(gap).alias("missing"),
        F.sum(F.when(before_error, gap).otherwise(0)).alias("missing_before_error"),
        F.array_sort(F.collect_list(gaps)).alias("gaps"), F.max(F.when(F.col("sent"), number)).alias("last"),
        F.max(F.when(early, number)).alias("last_early"), F.sum("counted").alias("counted"),
        F.sum("counted_early").alias("counted_early"),
        F.flatten(F.collect_list(F.when(F.size("found") > 0, F.col("found")))).alias("found"),
    )  # fmt: skip


def _places() -> dict[str, Column]:
    """Return a test for each count of a direction, by the name of the count. The numbers that pass the test are counted."""
    inside, accepted, number = F.col("inside"), F.col("accepted"), F.col("number")
    some = {name: (F.col(name) > 0) & (number >= 0) for name in ("waiting", "parked", "held", "delayed")}
    kept = some["waiting"] | some["parked"]
    flying = inside & ~accepted & ~kept & ~some["held"] & (~F.col("read") | (F.col("pending") > 0))
    repeats = F.col("crosses") & (F.col("with_sender") | F.col("s.end.next_out").isNull())
    owed = inside & ~repeats & F.col("first.kind").isin("MESSAGE", "END") & F.col("read") & (F.col("pending") == 0)
    message = inside & accepted & (F.col("first.kind") == "MESSAGE")
    passed = inside & number.between(F.coalesce("floor", F.lit(0)), F.col("r.end.next_in") - 1)
    return some | {
        "sent": F.col("sent"), "accepted": inside & accepted, "settled": inside & accepted & ~kept,
        "letters": F.col("letter") & (number >= 0), "delayed": some["delayed"] & ~inside, "in_flight": flying,
        "with_sender": F.col("with_sender") & ~accepted & ~flying & (number >= 0), "returned": F.col("returned") & (number >= 0),
        "reordered": inside & (F.col("later") < F.col("first.offset")), "owed": owed, "passed": passed,
        "late_numbers": passed & F.col("passed_over"), "messages": message, "kept_messages": message & kept,
        "lettered": message & ~kept & F.col("letter"), "lettered_early": message & ~kept & F.col("early_final"),
    }  # fmt: skip


# -- both sides ------------------------------------------------------------------------------------------------------


def _known() -> dict[str, Column]:
    """Return columns that tell what can be judged.

    The column ``knows`` is true if the receiver's side can be judged, and ``counts`` if the sender's side can be judged. The column
    ``whole`` is true if the whole direction can be judged.

    A side can be judged if it has a row, and this row was not made again for a late record that was refused (``reborn``).
    ``forgotten`` is true if the receiver's row was deleted in time.
    """

    def side(number: Column, reborn: Column) -> Column:
        return number.isNotNull() & ~F.coalesce(reborn, F.lit(False))

    return {
        "knows": side(F.col("r.end.next_in"), F.col("reborn")), "counts": side(F.col("s.end.next_out"), F.col("back_reborn")),
        "whole": ~F.col("cut") | F.col("floor").isNotNull(),
        "forgotten": F.col("r.end.next_in").isNull() & (F.col("queue_time") >= F.col("begun_until") + GRACE_TIME),
    }  # fmt: skip


def _absent() -> dict[str, Column]:
    """Count the numbers that are not on the wire. In ``lost`` is the count of sent numbers, in ``unfounded`` of accepted numbers."""
    r, s, floor = F.col("r.end"), F.col("s.end"), F.coalesce("floor", F.lit(0))
    tail = F.greatest(s.next_out - 1 - F.coalesce("last", floor - 1), F.lit(0))
    tail = F.when(s.is_replaced, 0).otherwise(tail)  # what was sent again is counted by ``sent-again-less``
    told = F.col("missing") - F.col("missing_before_error")
    # A side may drop unsent envelopes when it ends, or before it sends an ERROR. The count ``discarded`` of the side includes these
    # envelopes, and also the messages of the peer that the side dropped.
    counted = told + F.greatest(F.col("missing_before_error") + tail - s.discarded, F.lit(0))
    passed_over = F.size(F.filter(r.missing, lambda it: it >= floor)) - F.col("late_numbers")
    accepted = r.next_in - floor - F.col("passed") - passed_over
    return {
        # The wire between clusters loses records. What is missing there is with its sender, whose rows tell.
        "lost": F.when(F.col("counts") & F.col("whole"), F.greatest(counted, F.lit(0)))
        .when(F.col("crosses"), 0)
        .otherwise(told),
        "unfounded": F.when(F.col("knows") & F.col("whole"), F.greatest(accepted, F.lit(0))).otherwise(F.lit(0)),
    }


def _tests(services: tuple[str, ...]) -> dict[str, Column]:
    r, s, knows, counts = F.col("r.end"), F.col("s.end"), F.col("knows"), F.col("counts")
    last, told = F.coalesce("last", F.lit(-1)), F.col("back_ack_early")
    remembered = F.col("begun_until") + GRACE_TIME
    # The number of settled messages is found in two ways: from the accepted messages that no row keeps, and from the receiver's count.
    summed = knows & ~F.col("cut") & (r.handled >= 0) & (F.col("unfounded") == 0) & ~r.letters_cut
    settled, counted = F.col("messages") - F.col("kept_messages"), r.handled + F.col("lettered")
    unsent = F.when(counts, told > F.greatest(s.next_out - 1, last)).when(~F.col("cut"), told > last)
    miscounted = ((r.dead_lettered > F.col("counted")) & ~r.letters_cut) | (r.dead_lettered < F.col("counted_early"))
    return {
        "missing-on-wire": F.col("lost") > 0,
        "accepted-unsent": F.col("unfounded") > 0,
        "sent-again-less": _sent_again_less() > 0,
        "sent-again-more": _sent_again_more() > 0,
        "accepted-unsettled": summed & (settled > counted),
        "settled-twice": summed & (settled < r.handled + F.col("lettered_early")),
        "sent-uncounted": counts & (F.col("last_early") >= s.next_out),
        "endpoint-missing": r.next_in.isNull() & (F.col("owed") > 0) & (F.col("queue_time") < remembered)
        & F.col("to_service").isin(*services),
        "sender-missing": s.next_out.isNull() & F.col("last_early").isNotNull()
        & (F.coalesce("sender_time", F.lit(0)) < remembered) & F.col("from_service").isin(*services),
        "endpoint-untraced": F.col("to_target") & r.next_in.isNotNull() & ~F.col("traced") & ~F.col("cut"),
        "endpoint-twice": F.col("r.rows") > 1,
        "acknowledged-unsent": F.coalesce(unsent, F.lit(False)) | F.coalesce(s.acked >= s.next_out, F.lit(False)),
        "acknowledged-unaccepted": knows
        & (F.coalesce(told >= r.next_in, F.lit(False)) | F.coalesce(r.told >= r.next_in, F.lit(False))),
        "acknowledged-untold": counts & (s.acked > F.coalesce("back_ack", F.lit(-1))) & ~F.coalesce("back_cut", F.lit(True)),
        "letters-miscounted": knows & miscounted,
        "error-unheard": knows & F.col("error_read") & ~F.col("pending_error") & ~r.closed & r.state.isin(*HEARING),
    }  # fmt: skip


def _sent_again_less() -> Column:
    """Count the numbers that the receiver did not accept, and that the new dialog does not have. The receiver has said its last word."""
    first, it = F.col("r.end.next_in"), F.col("successor")
    final = F.col("to_target") & F.col("knows") & F.col("over")
    skipped = F.coalesce(it.from_number - first, F.lit(0))
    return F.when(final, F.greatest(F.col("s.end.next_out") - first - it.carried, skipped, F.lit(0)))


def _sent_again_more() -> Column:
    return F.when(F.col("to_target") & F.col("knows"), F.col("r.end.next_in") - F.col("successor.from_number"))


def _parks() -> dict[str, Column]:
    r = F.col("r")
    parked, has_park = r.parked > 0, r.has_park
    hole = (r.lowest != r.first) | (r.highest + 1 != r.next) | (r.highest - r.lowest + 1 != r.parked)
    return {
        "park-empty": has_park & ~parked,
        "parked-hole": has_park & parked & hole,
        "parked-disorder": r.shift != r.shift_to,
        "parked-astray": parked & (~has_park | F.coalesce(r.end.closed, F.lit(True))),
    }


def _history() -> dict[str, Column]:
    receiver = {name: F.col("r")[name] for name in ("accepted-fell", "revived", "forgotten-early", "group-missing")}
    return receiver | {name: F.col("s")[name] for name in ("sent-fell", "acknowledged-fell")}


# -- the result ------------------------------------------------------------------------------------------------------


def _shown(found: DataFrame) -> DataFrame:
    r, s = F.col("r.end"), F.col("s.end")
    names = {
        "from_service": F.coalesce("from_service", s.service, r.peer), "to_service": F.coalesce("to_service", r.service, s.peer),
        "contract": F.coalesce("contract", r.contract, s.contract),
    }  # fmt: skip
    counts = {name: F.coalesce(F.col(name), F.lit(0)) for name in COUNTS if name != "unaccounted"}
    counts["unaccounted"] = F.size(F.filter("found", lambda it: it["fault"] == "unaccounted")) + F.greatest(
        "lost", "unfounded"
    )
    named = found.select(
        uuid_text(F.col("dialog")).alias("conversation_id"), "to_target",
        *(column.alias(name) for name, column in (names | counts).items()), "gaps", "cut",
        F.coalesce("forgotten", F.lit(False)).alias("forgotten"), "of_lost", _faults().alias("found"),
    )  # fmt: skip
    count = F.aggregate("found", F.lit(0).cast("long"), lambda total, it: total + it["count"])
    none = F.filter("found", lambda _: F.lit(False))
    roots = F.when(F.col("of_lost"), none).otherwise(F.col("found")).alias("faults")
    return named.select("*", roots, F.when(F.col("of_lost"), count).otherwise(0).alias("follow")).drop(
        "found", "of_lost"
    )


def _faults() -> Column:
    """List each fault of a direction once, with its count, its first place and its meaning (``FAULTS``)."""
    of_sides = F.array_compact(F.array(*(F.when(F.col(f"is {name}"), it) for name, it in _of_sides().items())))
    every = F.concat(F.col("found"), of_sides)
    says = F.create_map(*(F.lit(it) for pair in FAULTS.items() for it in pair))

    def summed(name: Column) -> Column:
        same = F.filter(every, lambda it: it["fault"] == name)
        count = F.aggregate(same, F.lit(0).cast("long"), lambda total, it: total + it["count"])
        place = F.array_min(F.transform(same, lambda it: it["place"]))
        what = F.concat(says[name], F.coalesce(F.concat(F.lit(": "), place), F.lit("")))
        number = F.array_min(F.transform(same, lambda it: it["number"]))
        return F.struct(name.alias("fault"), number.alias("number"), count.alias("count"), what.alias("what"))

    return F.transform(F.array_sort(F.array_distinct(F.transform(every, lambda it: it["fault"]))), summed)


def _of_sides() -> dict[str, Column]:
    """Make an entry for each fault that is found when both sides are compared."""
    first = F.coalesce(F.get("gaps", F.lit(0))["first"], F.coalesce("last", F.lit(-1)) + 1)
    numbers = {
        "missing-on-wire": first, "sent-uncounted": F.col("last_early"), "acknowledged-unsent": F.col("back_ack_early"),
        "sent-again-less": F.col("r.end.next_in"), "sent-again-more": F.col("successor.from_number"),
        "acknowledged-unaccepted": F.col("back_ack_early"), "acknowledged-untold": F.col("s.end.acked"),
    }  # fmt: skip
    counts = {
        "missing-on-wire": F.col("lost"), "accepted-unsent": F.col("unfounded"),
        "sent-again-less": _sent_again_less(), "sent-again-more": _sent_again_more(),
        "accepted-unsettled": F.col("messages") - F.col("kept_messages") - F.col("lettered") - F.col("r.end.handled"),
    }  # fmt: skip
    nothing = F.lit(None)
    return {
        name: found(name, numbers.get(name, nothing), counts.get(name, F.lit(1)), nothing) for name in SIDE_FAULTS
    }  # fmt: skip
