"""Missing events. Each skip that a sender learned of must have an event. Each decision of an operator must also have an event."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol import letters as names
from conversations.protocol.command import Action
from conversations.protocol.events import Resolved, SkippedByPeer
from conversations.protocol.topics import DEAD_LETTER
from spark_jobs.audit.inputs import Inputs
from spark_jobs.reading.identifiers import uuid_text
from spark_jobs.reading.rows import fields_of

_DECISIONS = {names.SKIPPED: Action.SKIP.lower(), names.EDITED: Action.EDIT.lower()}
"""Reasons of letters that only a decision of an operator makes. Beside each is the word for the decision in the event."""


def facts(inputs: Inputs, kept: DataFrame, places: DataFrame) -> DataFrame:
    """Return one row for each number whose event is missing, with ``skip_unreported`` or ``decision_unreported``.

    If the beginning of the events topic is gone, no row is returned. ``kept`` and ``places`` come from ``audit.state``.
    """
    skips = _skips(inputs, kept, places)
    decisions = _decisions(inputs)
    found = skips.unionByName(decisions, allowMissingColumns=True)
    return found.where(F.lit(not inputs.events_cut))


def _skips(inputs: Inputs, kept: DataFrame, places: DataFrame) -> DataFrame:
    """Return the numbers that are skipped in an acknowledgement, but are in no SKIPPED_BY_PEER event of the sender."""
    e = F.col("envelope")
    queues = places.where("not is_commands").select("topic", "service", "partition", "position")
    told = inputs.records.where(F.col("why").isNull() & (e.kind == "ACK") & (F.size(e.skipped) > 0))
    read = told.join(F.broadcast(queues), ["topic", "partition"]).where("offset < position")
    waits = kept.where("row = 'W'").select("service", "partition", F.col("source").alias("offset"))
    numbers = read.join(waits, ["service", "partition", "offset"], "left_anti").select(
        "service", e.conversation_id.alias("dialog"), (~e.from_initiator).alias("to_target"),
        F.explode(e.skipped).alias("number"), uuid_text(e.conversation_id).alias("conversation"),
    )  # fmt: skip
    reported = inputs.events.where(F.col("event") == SkippedByPeer.NAME)
    reported = reported.select("service", "conversation", F.explode("numbers").alias("number"))
    missing = numbers.join(reported, ["service", "conversation", "number"], "left_anti")
    return missing.select("dialog", "to_target", "number", F.lit(True).alias("skip_unreported"))


def _decisions(inputs: Inputs) -> DataFrame:
    """Return the numbers about which an operator decided without a RESOLVED event. The decisions are read from letters and parks."""
    resolved = inputs.events.where(F.col("event") == Resolved.NAME)
    before = inputs.extents.where(F.col("kind") == DEAD_LETTER).select("service", "partition", "before")
    action = F.create_map(*(F.lit(it) for pair in _DECISIONS.items() for it in pair))[F.col("reason")]
    early = inputs.letters.join(F.broadcast(before), ["service", "partition"]).where("offset < before")
    letters = early.where(F.col("reason").isin(*_DECISIONS) & F.col("sequence").isNotNull()).select(
        "service", F.col("conversation_id").alias("conversation"), F.col("sequence").alias("number"),
        action.alias("action"), F.unhex(F.translate("conversation_id", "-", "")).alias("dialog"),
        F.col("from_initiator").alias("to_target"),
    )  # fmt: skip
    decided = resolved.select("service", "conversation", "number", "action")
    untold = letters.join(decided, ["service", "conversation", "number", "action"], "left_anti")
    parks = inputs.rows.where("current and row = 'F'").withColumn("park", fields_of("park")).select(
        "service", F.col("park.returned").alias("command"), F.substring("key", 2, 16).alias("dialog"),
        (F.hex(F.substring("key", 18, 1)) != "01").alias("to_target"), F.lit(-1).cast("long").alias("number"),
    ).where("command != ''")  # fmt: skip
    returned = parks.join(resolved.select("service", "command"), ["service", "command"], "left_anti")
    return _unreported(untold).unionByName(_unreported(returned))


def _unreported(found: DataFrame) -> DataFrame:
    return found.select("dialog", "to_target", "number", F.lit(True).alias("decision_unreported"))


def is_unreported(sender: Column) -> dict[str, Column]:
    """Return a test for each fault of a missing event, by the name of the fault.

    A closed sender need not report a skip, because it ignores late acknowledgements.
    """
    return {
        "skip-unreported": F.col("skip_unreported") & ~F.coalesce(sender.closed, F.lit(True)),
        "decision-unreported": F.col("decision_unreported"),
    }
