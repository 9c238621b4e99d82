"""What records are judged by says the same in columns as it does one by one."""

import random
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.envelope import Envelope, Kind, Prefix, encode, header_of, tail_start
from conversations.protocol.topics import partition_of
from spark_jobs.reading import envelopes, partitioning

NUMBERS = sorted(
    {
        -1,
        0,
        1,
        *(edge + near for size in (6, 7, 13, 14, 20, 27, 28, 34) for edge in (1 << size,) for near in (-1, 0)),
        5_000_000_000,
    }
)


def test_headers_are_made_as_senders_make_them(spark: SparkSession) -> None:
    said = [
        (bytearray(UUID(int=(number % 97) * 2**90 + 200).bytes), number % 2 == 0, kind.name, number)
        for number in NUMBERS
        for kind in Kind
    ]
    columns = "conversation_id binary, from_initiator boolean, kind string, seq long"
    rows = spark.createDataFrame(said, columns).select(F.struct("*").alias("e"))
    made = [
        row.header and bytes(row.header)
        for row in rows.select(envelopes.header_of(F.col("e")).alias("header")).collect()
    ]
    assert made == [_header(bytes(name), side, Kind[kind], number) for name, side, kind, number in said]


def _header(name: bytes, side: bool, kind: Kind, number: int) -> bytes | None:
    if number >= 1 << 34:
        return None
    value = encode(Envelope(Prefix(name, side, "C", "a", "b", "k", False, 1, -1), kind, number, -1))
    return header_of(value, tail_start(value))


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
    headers = [("dialog", bytearray(header_of(value, tail_start(value))))]
    good = str(name).encode()
    rows = [("q", partition_of(key, 3), bytearray(key), bytearray(value), headers) for key in (good, b"\xff\xfe")]
    columns = "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
    decoded = envelopes.decode(spark.createDataFrame(rows, columns), envelopes.writer_schemas({}))
    judged = envelopes.judge(decoded, {"q": ("loans", 3)}).select("why").collect()
    assert [row.why for row in judged] == [None, "misrouted: the key is not text"]
