"""Every example under ``conversations/schemas/examples`` does what its name says."""

import re
from typing import Any

import pytest

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol import command, envelope, envelope_avro
from conversations.protocol.registry import DEFAULT, Schema, fingerprint
from tests.golden.records import from_json
from tests.support.documents import ROOT

NAMES = ("envelope", "command")
EXAMPLES = [
    (name, version, file, content)
    for name in NAMES
    for version in schemas.VERSIONS[name]
    for file, content in schemas.examples(name, version).items()
]
IDS = [f"{name}.v{version}/{file}" for name, version, file, _ in EXAMPLES]


def decode(name: str, value: bytes) -> Any:
    return envelope.decode(value) if name == "envelope" else command.decode_command(value)


def encode(record: Any) -> bytes:
    return envelope.encode(record) if isinstance(record, envelope.Envelope) else command.encode_command(record)


@pytest.mark.parametrize(("name", "version", "file", "content"), EXAMPLES, ids=IDS)
def test_example(name: str, version: int, file: str, content: dict[str, Any]) -> None:
    schema = Schema(schemas.load(name, version))
    if file.startswith("good-"):
        value = schema.encode(from_json(schema.parsed, schema.names, content["record"]))
        again = encode(decode(name, value))
        assert decode(name, again) == decode(name, value)
        if version == schemas.newest(name):
            assert again == value
    elif "hex" in content:
        with pytest.raises(UndecodableRecord) as refusal:
            decode(name, bytes.fromhex(content["hex"]))
        assert str(refusal.value) == content["why"]
    else:
        assert content["why"]
        with pytest.raises((ValueError, TypeError, KeyError, OverflowError)):
            refused(name, schema, content["record"])


def refused(name: str, schema: Schema, record: dict[str, Any]) -> None:
    """Write the record, then read it: one of the two must refuse."""
    decode(name, schema.encode(from_json(schema.parsed, schema.names, record)))


def test_there_are_good_and_bad_examples_of_every_version() -> None:
    for name in NAMES:
        for version in schemas.VERSIONS[name]:
            assert {file.split("-")[0] for file in schemas.examples(name, version)} == {"good", "bad"}


def test_the_page_of_the_schemas_has_their_fingerprints() -> None:
    page = (ROOT / "conversations" / "schemas" / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+\.v\d+)\.avsc` .* `([0-9a-f]{16})` \|$", page, re.MULTILINE))
    assert told == {
        f"{name}.v{version}": fingerprint(schemas.load(name, version)).hex()
        for name in NAMES
        for version in schemas.VERSIONS[name]
    }


def test_the_loader_knows_no_other_version() -> None:
    with pytest.raises(KeyError):
        schemas.load("envelope", 99)
    with pytest.raises(KeyError):
        schemas.newest("letter")


def test_timestamps_are_declared_in_the_files_and_integers_in_the_code() -> None:
    fields = {field["name"]: field["type"] for field in schemas.load("envelope", 1)["fields"]}
    assert fields["sent_at"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert DEFAULT.writer(envelope_avro.CURRENT.head).parsed["fields"][14]["type"] == {"type": "long"}
