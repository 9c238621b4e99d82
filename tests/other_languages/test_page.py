"""The numbers and bytes on docs/other-languages.md are those of the code."""

import json
import re
from pathlib import Path

import pytest

from conversations import Kafka, schemas
from conversations.kafka.catalog import own_schemas, read_catalog, service_record
from conversations.protocol import codes
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.envelope import Envelope, Kind, Prefix, decode, encode
from conversations.protocol.registry import fingerprint
from conversations.protocol.topics import murmur2, partition_of
from tests.support.documents import block, with_words

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "other-languages.md").read_text()


def section(title: str) -> str:
    """Return the text from a heading to the next one."""
    return re.split(r"^#+ ", PAGE.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_partitions_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `([^`]+)` (?:\(.*\) )?\| (\d+) \| (\d+) \|$", section("Which partition"), re.MULTILINE)
    assert len(rows) == 3
    assert [(key, str(murmur2(key.encode())), str(partition_of(key.encode(), 12))) for key, _, _ in rows] == rows


def test_the_fingerprints_of_the_page_are_those_of_the_schemas() -> None:
    rows = re.findall(r"\| `(\w+)\.v(\d)\.avsc` \| `(\w{16})` \|", section("Bytes of a record"))
    assert [(n, v, fingerprint(schemas.load(n, int(v))).hex()) for n, v, _ in rows] == rows
    assert {given for _, _, given in rows} == set(own_schemas())


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    conversation = bytes.fromhex("018f6b1c7a0070008000000000000001")
    key = "018f6b1c-7a00-7000-8000-000000000001"
    prefix = Prefix(conversation, True, "Counting", "source", "sink", key, False, 1_700_003_600_000_000, -1)
    envelope = Envelope(
        prefix, Kind.MESSAGE, 70, -1, sent_at=1_700_000_000_000_000, message_type="Number", content_type="application/json",
        body=b'{"n":70}',
    )  # fmt: skip
    text = section("An example")
    value = bytes.fromhex("".join(re.findall(r"^    (.+)$", text, re.MULTILINE)))
    assert decode(value) == envelope
    assert value == encode(envelope)


def test_the_kinds_and_operations_of_the_page_are_in_the_order_of_the_schemas() -> None:
    kinds = re.findall(r"^\| ([A-Z]+) \| (\d) \|", section("The envelope"), re.MULTILINE)
    assert kinds == [(kind.name, str(kind.value)) for kind in list(Kind)[: len(kinds)]]
    assert len(kinds) == 5
    operations = re.findall(r"^\| `(\w+)` \| (\d) \|", section("A client"), re.MULTILINE)
    (union,) = (it["type"]["items"] for it in schemas.load("command", 1)["fields"] if it["name"] == "operations")
    assert operations == [(it["name"], str(at)) for at, it in enumerate(union)][: len(operations)]
    assert len(operations) == 6


def test_the_fields_of_the_page_are_those_of_the_envelope() -> None:
    named = {
        field
        for line in re.findall(r"^\| (`.*?) \|", section("The envelope"), re.MULTILINE)
        for field in re.findall(r"`(\w+)`", line)
    }
    assert named == {field["name"] for field in schemas.load("envelope", 1)["fields"]}


def test_the_codes_of_the_page_are_those_of_the_code() -> None:
    known = {each.number for each in vars(codes).values() if isinstance(each, codes.SystemCode)}
    sent = {int(number) for number in re.findall(r"-\d{4}", section("ERROR"))}
    assert sent == known - {codes.TOO_LARGE.number}  # only a sender itself knows that a topic refuses its record


@pytest.mark.kafka
def test_the_lines_of_python_put_a_service_into_the_catalog(kafka: Kafka) -> None:
    address = f'Kafka("{kafka.bootstrap}", namespace="{kafka.namespace}")'
    text = with_words(block("docs/other-languages.md 1"), {'Kafka("localhost:9092")': address})
    exec(compile(text, "<the block>", "exec"), {})
    assert read_catalog(kafka).partitions("sink") == 4


def test_the_entry_of_the_page_is_what_apply_writes() -> None:
    counting = {"Counting": {"initiator": ["Number", "Total"], "target": ["Echo"], "any": []}}
    key, value = service_record("sink", ServiceDeclaration("sink", accepts=counting).entry(4))
    shown = re.search(r"^    (service/sink)\s+(.*\n.*)$", section("The catalog"), re.MULTILINE)
    assert shown is not None
    assert (shown[1].encode(), json.loads(shown[2])) == (key, json.loads(value))
