"""Envelopes from records of queues: decoded by the fingerprint of their schema, and checked as an owner checks them.

A record that an owner would set aside gets a reason in ``why``, and counts as never sent. Some records can be judged only with
the state of their endpoint, for example a breach of the contract or a message after the end. These records get no reason in
``why``: they count as sent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from fastavro.schema import to_parsing_canonical_form
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.avro.functions import from_avro

from conversations import schemas
from conversations.protocol.envelope_avro import CURRENT
from conversations.protocol.fences import GENERATIONS
from conversations.protocol.limits import FRAGMENTS, KEY_BYTES, NAME, RECORD_BYTES
from conversations.protocol.registry import HEAD_SIZE, MARKER, Registry, fingerprint
from conversations.protocol.rules import Rule
from spark_jobs.reading.integrity import is_sealed
from spark_jobs.reading.partitioning import partition_of

log = logging.getLogger("conversations.spark")

_NAME = rf"\A(?:{NAME.pattern})\z"
_SOURCE = schemas.load("envelope", schemas.newest("envelope"))
_DEFAULTS = {field["name"] for field in _SOURCE["fields"] if "default" in field}
SCHEMA_CHARACTERS = 64_000
"""Maximum number of characters of a schema that is read from the catalog."""


def writer_schemas(catalog: Mapping[str, str]) -> dict[bytes, str]:
    """Return the text of every known envelope schema by its fingerprint: schemas of this package, and of the catalog.

    A text that is not a schema, or lacks a field of an envelope, is left out with a warning.
    """
    own = [schemas.load("envelope", version) for version in schemas.VERSIONS["envelope"]]
    known = {fingerprint(source): json.dumps(source) for source in own}
    registry = Registry()
    for name, text in catalog.items():
        try:
            found = _writer(text, registry)
        except (ValueError, RecursionError) as error:
            log.warning("schema %.80s of the catalog is left out: %s", name, error)
            continue
        if found is not None:
            known.setdefault(*found)
    return known


def _writer(text: str, registry: Registry) -> tuple[bytes, str] | None:
    """Read a schema of the catalog; None if it is not a schema of envelopes.

    Raises:
        ValueError: the text is not an Avro schema, or records of this schema cannot be read as envelopes.
        RecursionError: the schema is nested too deeply.
    """
    source = json.loads(text)
    if not isinstance(source, dict) or (source.get("namespace"), source.get("name")) != ("conversations", "Envelope"):
        return None
    if len(text) > SCHEMA_CHARACTERS:
        raise ValueError(f"it has {len(text)} characters, more than {SCHEMA_CHARACTERS}")
    mark = registry.register(source)
    # The canonical form has only the wire format. From the full schema Spark would also apply defaults, aliases and logical types.
    plain = to_parsing_canonical_form(source)
    there = {field["name"]: field["type"] for field in json.loads(plain)["fields"]}
    for field in json.loads(to_parsing_canonical_form(_SOURCE))["fields"]:
        if field["name"] in there and not _alike(there[field["name"]], field["type"]):
            raise ValueError(f"its field {field['name']!r} has another type")
        if field["name"] not in there and field["name"] not in _DEFAULTS:
            raise ValueError(f"it has no field {field['name']!r}")
    return mark, plain


def _alike(theirs: Any, ours: Any) -> bool:
    """Return True if two types of a field are equal, or if both are enumerations of the same name. Their symbols may differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.get("type") == ours.get("type") == "enum":
        return bool(theirs["name"] == ours["name"])
    return bool(theirs == ours)


def decode(records: DataFrame, writers: Mapping[bytes, str]) -> DataFrame:
    """Add ``envelope``: a struct with the fields of the newest schema; null if the record has no known schema."""
    value = F.col("value")
    body = F.substring(value, HEAD_SIZE + 1, RECORD_BYTES)
    fitting = F.length(value).between(HEAD_SIZE + 1, RECORD_BYTES)
    branches = [
        (fitting & (F.substring(value, 1, HEAD_SIZE) == F.lit(bytearray(MARKER + mark))), _from_avro(body, mark, text))
        for mark, text in writers.items()
    ]
    first, *others = branches
    found = reduce(lambda case, branch: case.when(*branch), others, F.when(*first))
    # Without explode(), Spark would run a later filter before the decoding, and would decode again for the filter. Spark never runs
    # a later filter before explode().
    return records.select("*", F.explode(F.array(found)).alias("envelope"))


def _from_avro(body: Column, mark: bytes, writer: str) -> Column:
    options = {"mode": "PERMISSIVE"}
    if mark == CURRENT.fingerprint:
        return from_avro(body, writer, options)
    return from_avro(body, writer, options | {"avroSchema": json.dumps(_SOURCE)})


def _is_fence(e: Column) -> Column:
    """Return True for a FENCE of an initiator with a code, and for a FENCED of a target with its answer."""
    outcome = e.extras.fence
    numbers = F.coalesce((outcome.accepted >= -1) & (outcome.transmitted >= -1), F.lit(False))
    fence = e.from_initiator & outcome.isNull() & (e.code < 0)
    return (e.seq == -1) & F.when(e.kind == "FENCE", fence).otherwise(~e.from_initiator & numbers)


def _is_fragment(e: Column) -> Column:
    """Return True for a MESSAGE that is a possible fragment of a message."""
    return (e.kind == "MESSAGE") & e.fragments.between(1, FRAGMENTS) & e.fragment.between(0, e.fragments - 1)


def _has_possible_extras(e: Column) -> Column:
    """Return True for a message that says on which dialog it was sent first, for the answer to a FENCE, and for a record with a seal alone or nothing."""
    origin, seal, fence = e.extras.origin, e.extras.seal, e.extras.fence
    first = (
        (e.kind == "MESSAGE") & fence.isNull() & e.from_initiator
        & origin.generation.between(1, GENERATIONS) & (F.length(origin.conversation_id) == 16) & (origin.seq >= e.seq)
    )  # fmt: skip
    answer = e.kind.isin("FENCE", "FENCED") & origin.isNull()
    sealed = seal.isNotNull() & origin.isNull() & fence.isNull()
    return e.extras.isNull() | F.coalesce(first | answer | sealed, F.lit(False))


def judge(decoded: DataFrame, queues: Mapping[str, tuple[str, int]]) -> DataFrame:
    """Add ``why``: the reason why an owner would set the record aside; null for a valid record.

    A sealed record is set aside only in a wrong partition, of which its seal says nothing. For any other reason its sender has not sealed it so: the owner
    discards it, and it is left out.

    Args:
        decoded: records from ``decode``, with all headers.
        queues: service and number of partitions of each topic of a queue.
    """
    e = F.col("envelope")
    service, count = _by_topic(queues)
    numbered = e.kind.isin("MESSAGE", "END")
    checks: Iterable[tuple[Column, Rule]] = (
        (F.col("value").isNull(), Rule.VALUE),
        (F.length("value") > RECORD_BYTES, Rule.SIZE),
        # If the bytes of an envelope are incomplete, the result is a struct of nulls, not null.
        (e.isNull() | e.kind.isNull(), Rule.SCHEMA),
        (e.kind.isin("FENCE", "FENCED") & ~_is_fence(e), Rule.FENCE),
        (numbered & (e.seq < 0), Rule.NUMBER),
        ((e.kind == "ERROR") & ((e.seq < -1) | (e.code == 0)), Rule.ERROR),
        (e.kind.isin("ACK", "RESEND") & (e.seq != -1), Rule.NO_NUMBER),
        ((e.kind == "ACK") & (F.array_min(e.skipped) < 0), Rule.SKIPPED),
        ((F.size(e.skipped) > 0) & (e.kind != "ACK"), Rule.FIELDS),
        ((e.fragments != 1) & ~_is_fragment(e), Rule.FRAGMENT),
        (~_has_possible_extras(e), Rule.FIELDS),
        (e.to_service != service, Rule.SERVICE),
        (F.coalesce(F.length("key"), F.lit(0)).between(1, KEY_BYTES) == F.lit(False), Rule.KEY_SIZE),
        (~F.is_valid_utf8(F.col("key").cast("string")), Rule.KEY_TEXT),
        (partition_of(F.col("key"), count) != F.col("partition"), Rule.PARTITION),
        (~(e.from_service.rlike(_NAME) & e.contract.rlike(_NAME)), Rule.NAMES),
        (~F.octet_length(e.reply_key).between(1, KEY_BYTES), Rule.REPLY_KEY),
    )
    why = F.lit(None).cast("string")
    for wrong, rule in reversed(list(checks)):
        why = F.when(wrong, F.lit(rule.value)).otherwise(why)
    sealed = F.coalesce(is_sealed(e), F.lit(False))
    stays = F.col("why").isNull() | (F.col("why") == Rule.PARTITION.value) | ~sealed
    return decoded.withColumn("why", why).where(stays)


def _by_topic(queues: Mapping[str, tuple[str, int]]) -> tuple[Column, Column]:
    service, count = F.lit(None).cast("string"), F.lit(1)
    for topic, (name, partitions) in queues.items():
        here = F.col("topic") == topic
        service, count = F.when(here, F.lit(name)).otherwise(service), F.when(here, F.lit(partitions)).otherwise(count)
    return service, count
