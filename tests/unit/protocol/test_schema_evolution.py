"""Records of the previous and the next minor version, read both ways."""

import copy
from typing import Any

import pytest

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol import command
from conversations.protocol.command import Begin, Command, End, Tick, decode_command, encode_command
from conversations.protocol.envelope import Envelope, Extras, Kind, Origin, Prefix, decode, encode
from conversations.protocol.envelope_avro import CURRENT, to_fields
from conversations.protocol.registry import DEFAULT, Registry, Schema, fingerprint

PREFIX = Prefix(bytes(16), True, "contract", "a", "b", "key", True, 1_000, -1)
PLAIN = Envelope(PREFIX, Kind.MESSAGE, 3, 2, sent_at=5, message_type="type", body=b"body")
RESENT = Envelope(PREFIX, Kind.MESSAGE, 3, 2, extras=Extras(origin=Origin(b"o" * 16, 1, 9)))
COMMAND = Command(b"c" * 16, b"d" * 16, True, "key", "", "me", 7, (Begin("b", "contract"), End()))


def named(schema: Any, name: str) -> dict[str, Any]:
    """The definition of a record or enum somewhere inside ``schema``."""
    if isinstance(schema, dict) and schema.get("name") == name and "type" in schema:
        return schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        if found := named(part, name):
            return found
    return {}


def next_minor() -> dict[str, Any]:
    source = copy.deepcopy(schemas.load("envelope", 1))
    named(source, "Extras")["fields"].append({"name": "route", "type": ["null", "string"], "default": None})
    source["fields"].append({"name": "priority", "type": "int", "default": 5})
    return source


def previous_minor() -> dict[str, Any]:
    source = copy.deepcopy(schemas.load("envelope", 1))
    extras = named(source, "Extras")
    extras["fields"] = [field for field in extras["fields"] if field["name"] != "fence"]
    return source


def knowing(*sources: dict[str, Any]) -> Registry:
    registry = Registry()
    for source in sources:
        registry.register(source)
    return registry


def next_fields(envelope: Envelope) -> dict[str, Any]:
    fields = to_fields(envelope) | {"priority": 9}
    if fields["extras"]:
        fields["extras"] |= {"route": "remote"}
    return fields


@pytest.mark.parametrize("envelope", [PLAIN, RESENT])
def test_the_current_code_reads_the_next_version_once_it_is_registered(envelope: Envelope) -> None:
    value = Schema(next_minor()).encode(next_fields(envelope))
    with pytest.raises(UndecodableRecord, match=f"unknown schema fingerprint {fingerprint(next_minor()).hex()}"):
        decode(value)
    assert decode(value, knowing(next_minor())) == envelope


@pytest.mark.parametrize("envelope", [PLAIN, RESENT])
def test_the_next_version_reads_the_current_records(envelope: Envelope) -> None:
    reader = Schema(next_minor())
    fields = DEFAULT.decode(encode(envelope), reader)
    expected = to_fields(envelope) | {"priority": 5, "skipped": []}
    if expected["extras"]:
        expected["extras"] |= {"route": None}
    assert fields == expected


@pytest.mark.parametrize("envelope", [PLAIN, RESENT])
def test_the_previous_version_is_read_and_reads(envelope: Envelope) -> None:
    previous = Schema(previous_minor())
    fields = to_fields(envelope) | {"skipped": []}
    if fields["extras"]:
        del fields["extras"]["fence"]
    assert decode(previous.encode(fields), knowing(previous_minor())) == envelope
    assert DEFAULT.decode(encode(envelope), previous) == fields


def test_a_kind_of_a_later_version_is_refused_and_the_others_are_read() -> None:
    source = copy.deepcopy(schemas.load("envelope", 1))
    named(source, "Kind")["symbols"].append("PING")
    later, registry = Schema(source), knowing(source)
    assert decode(later.encode(to_fields(PLAIN)), registry) == PLAIN
    with pytest.raises(UndecodableRecord, match=f"schema {later.fingerprint.hex()}"):
        decode(later.encode(to_fields(PLAIN) | {"kind": "PING"}), registry)


@pytest.mark.parametrize("fields", [[], [{"name": "after", "type": "long"}]])
def test_an_operation_of_a_later_version_is_refused_and_the_others_are_read(fields: list[Any]) -> None:
    """Even when the new operation has the fields of one we know: Avro matches records by name."""
    source = copy.deepcopy(schemas.load("command", 1))
    operations = source["fields"][-1]["type"]["items"]
    operations.append({"type": "record", "name": "Pause", "fields": fields})
    later, registry = Schema(source), knowing(source)
    datum = {name: getattr(COMMAND, name) for name in Command.__slots__}
    known = later.encode(datum | {"operations": [("conversations.End", {}), ("conversations.Tick", {})]})
    assert decode_command(known, registry).operations == (End(), Tick())
    unknown = later.encode(datum | {"operations": [("conversations.Pause", {"after": 1} if fields else {})]})
    with pytest.raises(UndecodableRecord, match="has a value that this version's"):
        decode_command(unknown, registry)
    read = DEFAULT.decode(encode_command(COMMAND), later)
    assert [name for name, _ in read["operations"]] == ["conversations.Begin", "conversations.End"]


def test_fingerprints_are_those_of_the_avro_specification() -> None:
    assert fingerprint("null").hex() == "8a8f25cce724dd63"  # type: ignore[arg-type]  # 63dd24e7cc258f8a, little endian
    assert fingerprint("string").hex() == "c70345637248018f"  # type: ignore[arg-type]
    assert fingerprint(schemas.load("command", 1)).hex() == "bf8a5da4331c51c8"
    assert fingerprint(schemas.load("command", 2)).hex() == "c651570734a8cf19"
    assert command.CURRENT.fingerprint.hex() == "953f152d73e0242b"


def test_registering_is_idempotent_and_refuses_what_is_no_schema() -> None:
    registry = Registry()
    assert registry.register(schemas.load("envelope", 1)) == CURRENT.fingerprint
    with pytest.raises(ValueError, match="not an Avro schema"):
        registry.register({"type": "record", "name": "X", "fields": [{"name": "a", "type": "nonsense"}]})
