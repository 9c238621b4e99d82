"""Integrity of records from other clusters: their receiver discards a damaged record without a word, so the jobs leave it out."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.integrity import CRC, EARLIER
from spark_jobs.reading.headers import has_header, header

_CHECKSUM_BYTES = 4


def undamaged(decoded: DataFrame, far: Collection[str]) -> DataFrame:
    """Leave out the records that their receiver discards, as ``conversations.protocol.integrity`` says.

    Args:
        decoded: records from ``envelopes.decode``, with all headers.
        far: the services on other clusters, as the catalog of the receiver names them. Their records have a checksum.
    """
    said = F.concat(*(F.coalesce(it, F.lit(bytearray())) for it in (header(EARLIER), F.col("key"), F.col("value"))))
    number = F.conv(F.hex(header(CRC)), 16, 10).cast("long")
    right = F.coalesce((F.length(header(CRC)) == _CHECKSUM_BYTES) & (number == F.crc32(said)), F.lit(False))
    from_far = F.coalesce(F.col("envelope.from_service").isin(*sorted(far)), F.lit(False)) if far else F.lit(False)
    return decoded.where(F.when(has_header(CRC), right).otherwise(~from_far))


def crosses(envelope: Column) -> Column:
    """Return a column that is true if a record came from another cluster, or is sealed.

    Its receiver may discard it, and its sender keeps it and transmits it again.
    """
    return has_header(CRC) | is_sealed(envelope)


def is_sealed(envelope: Column) -> Column:
    """Return a column that is true if the body of an envelope is sealed."""
    return envelope.extras.seal.isNotNull()
