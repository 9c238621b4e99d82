"""What records are judged by says the same in columns as it does one by one."""

import random
from typing import Any
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.topics import partition_of
from spark_jobs.reading import envelopes, partitioning


def test_every_key_of_text_goes_where_the_protocol_sends_it(spark: SparkSession) -> None:
    chance = random.Random(7)
    alphabet = "abc-0123456789é€𝄞\0\x7f"
    keys = ["".join(chance.choices(alphabet, k=size)) for size in range(41) for _ in range(10)]
    counts = [chance.randint(1, 100) for _ in keys]
    pairs = [(bytearray(key.encode()), count) for key, count in zip(keys, counts, strict=True)]
    rows = spark.createDataFrame(pairs, "key binary, count int").select(
        partitioning.partition_of(F.col("key"), F.col("count"))
    )
    expected = [partition_of(key.encode(), count) for key, count in zip(keys, counts, strict=True)]
    assert [found for (found,) in rows.collect()] == expected


def test_a_record_whose_key_is_not_text_is_set_aside(spark: SparkSession) -> None:
    name = UUID(int=5)
    envelope = Envelope(
        Prefix(name.bytes, True, "C", "web", "loans", "k", False, 1, -1), Kind.MESSAGE, 3, -1, sent_at=1, message_type="Ask"
    )  # fmt: skip
    value = encode(envelope)
    good = str(name).encode()
    rows: list[Any] = [("q", partition_of(key, 3), bytearray(key), bytearray(value), []) for key in (good, b"\xff\xfe")]
    columns = "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
    decoded = envelopes.decode(spark.createDataFrame(rows, columns), envelopes.writer_schemas({}))
    judged = envelopes.judge(decoded, {"q": ("loans", 3)}).select("why").collect()
    assert [row.why for row in judged] == [None, "misrouted: the key is not text"]
