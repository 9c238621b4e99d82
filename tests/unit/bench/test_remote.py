"""The benchmark between two clusters: its records are those of the product, and its tables say what was measured."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from bench.remote import mirror
from bench.remote.ground import AWAY, Sizes, commands, envelopes, ids, plain
from bench.remote.part import sheets
from bench.remote.services import LARGE, SINK, SOURCE, Arrivals, Item, memory
from conversations import Client
from conversations.protocol.command import Send, decode_command
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.topics import COMMANDS, service_topic, transmission_topic
from conversations_ops.broker.server import KAFKA_VERSION

NAMES = ids(3)


def test_the_lock_names_the_kafka_that_is_measured_and_no_address() -> None:
    assert f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}" in {jar.coordinate for jar in mirror.jars()}
    assert "://" not in mirror.LOCK.read_text(encoding="utf-8")


def test_envelopes_wait_in_the_transmission_topic_in_the_order_of_their_dialogs() -> None:
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, _, key, value, _ in envelopes("space", NAMES, range(9)):
        envelope = decode(value)
        assert topic == transmission_topic("space", AWAY)
        assert (envelope.kind, envelope.prefix.from_service, envelope.prefix.to_service) == (Kind.MESSAGE, SOURCE, SINK)
        assert Item.model_validate_json(envelope.body).n == envelope.seq
        numbers[key.decode()].append(envelope.seq)
    assert numbers == {name: [0, 1, 2] for name in NAMES}


def test_a_command_and_a_plain_record_have_the_same_items() -> None:
    names = [Client.new_id() for _ in range(3)]
    sent = []
    for topic, _, key, value, _ in commands("space", names, range(3, 9)):
        command = decode_command(value)
        (operation,) = command.operations
        assert isinstance(operation, Send)
        assert topic == service_topic("space", SOURCE, COMMANDS)
        sent.append((key.decode(), Item.model_validate_json(operation.body).n))
    others = plain("topic", names, range(3, 9))
    assert sent == [(key.decode(), Item.model_validate_json(value).n) for _, _, key, value, _ in others]


@pytest.mark.parametrize(("numbers", "wrong"), [([0, 1, 2], 0), ([0, 2, 1], 2), ([0, 0, 1], 1), ([1], 1)])
def test_what_is_lost_repeated_or_out_of_order_is_counted(numbers: list[int], wrong: int) -> None:
    arrivals = Arrivals()
    for number in numbers:
        arrivals.take("d", number, 0.0, 150)
    arrivals.take("other", 5, 0.0, LARGE)
    told = arrivals.figures()
    assert (told["wrong"], told["count"], len(told["large"])) == (wrong, len(numbers), 1)
    assert memory()["peak_mb"] > 10


def way(per_second: int, **more: Any) -> dict[str, Any]:
    return {"per_second": per_second, "latency": {"p50_ms": 5.0, "p99_ms": 9.0}, "forwarder_cpu_us": 20, **more}


def found(**mirror_maker: dict[str, Any]) -> dict[str, Any]:
    remote = way(500, caught_up_per_second=40_000, caught_up_cpu_us=10.0)
    sample = {"near": way(1_000), "remote": remote, **mirror_maker}
    return {"rounds": 1, "samples": [sample], "sizes": vars(Sizes())}


def test_each_way_is_compared_with_one_cluster_and_the_forwarder_with_mirrormaker() -> None:
    ways, catching = sheets(found(mirror=way(2_000, caught_up_per_second=20_000)))
    assert [row[:3] for row in ways.rows] == [
        ("a dialog on one cluster", "1,000", "1"),
        ("a dialog between two clusters", "500", "0.50 (0.50-0.50)"),
        ("MirrorMaker 2, from a plain producer to a plain consumer", "2,000", "2.00 (2.00-2.00)"),
    ]
    assert list(catching.rows) == [
        ("one forwarder", "40,000", "2.00 (2.00-2.00)"),
        ("MirrorMaker 2", "20,000", "1"),
    ]


def test_without_mirrormaker_the_rest_is_shown() -> None:
    ways, catching = sheets(found())
    assert len(ways.rows) == 2
    assert list(catching.rows) == [("one forwarder", "40,000", "")]


def test_small_messages_beside_large_ones_are_compared_with_those_alone() -> None:
    told = found()
    figures = {"p50_ms": 5.0, "p99_ms": 20.0, "source_mb": 100.0, "sink_mb": 90.0, "large": []}
    told["samples"][0]["large"] = {
        "alone": figures,
        "beside": figures | {"p99_ms": 30.0, "sink_mb": 250.0, "large": [4.0, 6.0]},
    }
    *_, beside = sheets(told)
    assert list(beside.rows) == [
        ("nothing else", "5.0", "20.0", "1.00 (1.00-1.00)", "100", "90"),
        ("messages of 64 MB", "5.0", "30.0", "1.50 (1.50-1.50)", "100", "250"),
    ]
    assert "2 of them arrived meanwhile, after 5.0 s" in beside.notes[0]
