"""Readers of topics that many write go on behind what is not understood, and say where it stands."""

import json
import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conversations import schemas
from conversations.kafka.catalog import Catalog, schema_record, service_record
from conversations.memory.record import MemoryRecord
from conversations.ports import Headers, Out
from conversations.protocol import letters as names
from conversations.protocol import rows
from conversations.protocol.events import CommandDone
from conversations.protocol.parked import parked
from conversations.protocol.registry import fingerprint
from conversations_ops.operate.events import understood
from conversations_ops.operate.open_letters import letter_in
from conversations_ops.operate.parked import parked_in
from tests.hostile.support.texts import HOSTILE

ID = str(uuid4())


def record(value: bytes | None, offset: int = 7, headers: Headers | None = None) -> MemoryRecord:
    return MemoryRecord("conv.events", 0, offset, 5_000_000, Out("conv.events", 0, b"k", value, headers))


BAD_EVENTS: dict[str, bytes | None] = {
    "no value": None,
    "empty": b"",
    "no JSON": b"\x00\x01",
    "cut off": b'{"event": "RETURNED"',
    "not UTF-8": b'{"event": "\xff"}',
    "a list": b"[]",
    "a number": b"5",
    "nothing": b"null",
    "no name": b"{}",
    "a name that is none": b'{"event": ["RETURNED"]}',
    "a command that is none": b'{"event": "X", "command": ["a"]}',
    "a redrive that is none": b'{"event": "REDRIVE_STARTED", "redrive": {}, "by": "a"}',
    "an end nobody says": b'{"event": "REDRIVE_ENDED", "redrive": "rd-1", "by": "a"}',
    "outcomes that are none": b'{"event": "REDRIVE_PROGRESS", "redrive": "rd-1", "by": "a", "outcomes": [1]}',
    "counts that are none": b'{"event": "REDRIVE_PROGRESS", "redrive": "rd-1", "by": "a", "outcomes": {"open": "5"}}',
    "nobody's": b'{"event": "REDRIVE_STOP", "redrive": "rd-1"}',
    "no outcome": b'{"event": "RETURNED", "command": "x"}',
    "refused without a word": b'{"event": "COMMAND_REFUSED", "command": "x"}',
    "no dialog": json.dumps({"event": "RESUBMITTING", "conversation": ID, "letters": [], "at": 1}).encode(),
    "a dialog that is none": json.dumps(
        {"event": "RESUBMITTING", "conversation": ID, "dialog": "x", "letters": [], "at": 1}
    ).encode(),
    "letters that are none": json.dumps(
        {"event": "RESUBMITTING", "conversation": ID, "dialog": ID, "letters": [[]], "at": 1}
    ).encode(),
    "a time that is none": json.dumps(
        {"event": "RESUBMITTING", "conversation": ID, "dialog": ID, "letters": [], "at": "1"}
    ).encode(),
    "nested deeply": b"[" * 200_000,
    "a number of 5,000 digits": b'{"event": "X", "at": ' + b"9" * 5_000 + b"}",
}
GOOD = json.dumps({"event": "COMMAND_DONE", "command": "x"}).encode()


@pytest.mark.parametrize("bad", BAD_EVENTS.values(), ids=BAD_EVENTS.keys())
def test_an_event_that_is_none_is_left_out_and_named(bad: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    found = understood([record(GOOD), record(bad, 8), record(GOOD, 9), record(b"x", 10)])
    assert [type(event) for event in found] == [CommandDone, CommandDone]
    (warning,) = caplog.messages
    assert warning.startswith(
        "conv.events: 2 records are not understood and left out; the first, partition 0 offset 8: "
    )


def test_events_of_other_names_may_say_anything(caplog: pytest.LogCaptureFixture) -> None:
    later = record(b'{"event": "LATER", "letters": 5, "end": []}')
    (found,) = understood([later, record(GOOD)])
    assert isinstance(found, CommandDone)
    assert not caplog.messages


# -- letters --------------------------------------------------------------------------------------------------------------

OURS: Headers = [
    (names.REASON, b"expired"), (names.SOURCE_TOPIC, b"conv.s.queue"), (names.SOURCE_OFFSET, b"3"), (names.FAILED_AT, b"4"),
    (names.SEQUENCE, b"5"),
]  # fmt: skip


class Unreadable(MemoryRecord):
    """A record whose headers the client cannot say, and must not be asked for again."""

    asked = 0

    def headers(self) -> Headers | None:
        self.asked += 1
        assert self.asked == 1
        raise SystemError("error return without exception set")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (names.SEQUENCE, b"abc"), (names.SEQUENCE, b"\xff"), (names.SOURCE_OFFSET, b"9" * 5_000), (names.FAILED_AT, b"-5"),
        (names.FAILED_AT, "²".encode()), (names.SOURCE_OFFSET, b"-1"),
    ],
)  # fmt: skip
def test_a_letter_with_numbers_that_are_none_is_listed_as_foreign(name: str, value: bytes) -> None:
    headers: Headers = [*((n, v) for n, v in OURS if n != name), (name, value)]
    assert letter_in("s", record(b"x", headers=headers)).foreign


def test_a_letter_whose_headers_cannot_be_read_is_listed_as_foreign() -> None:
    unreadable = Unreadable("conv.s.dead-letter", 0, 7, 5_000_000, Out("t", 0, b"k", b"v"))
    found = letter_in("s", unreadable)
    assert (found.letter, found.foreign) == ("s.dead-letter-0-7", "another program")


def test_our_letters_are_ours() -> None:
    found = letter_in("s", record(b"x", headers=[*OURS, (names.EXCEPTION_MESSAGE, HOSTILE.encode("utf-8", "replace"))]))
    assert (found.letter, found.foreign, found.number) == ("s.queue-0-3", "", 5)


def test_rows_that_are_none_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    from conversations.config import Kafka

    own = bytes(16) + b"\1"
    table = {rows.PARK + own: b"none", rows.ENDPOINT + own: b"none"}
    with pytest.raises(ValueError, match="too short"):
        parked(table, "s", 0)
    assert parked_in(table, Kafka("x"), "s", 0) == []
    assert "conv.s.state: a record is not understood" in caplog.text


# -- the catalog ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retries", 5), ("retries", "5s"), ("retries", [5]), ("retries", ["\x1b[31m"]), ("retries", {"5s": 1}),
        ("accepts", 5), ("accepts", []), ("accepts", {"C": 5}), ("accepts", {"C": {"any": 5}}), ("initiates", {"C": {"any": [[]]}}),
    ],
)  # fmt: skip
def test_a_field_of_a_catalogs_entry_that_is_none_is_left_out(
    field: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog()
    catalog.take([service_record("s", {"partitions": 3, "accepts": {}, "initiates": {}, field: value, "later": 1})])
    assert field not in catalog.services["s"]
    assert catalog.services["s"]["later"] == 1
    assert catalog.partitions("s") == 3
    assert field in caplog.text


@pytest.mark.parametrize("name", ["", "a b", "..", ".a", "a/b", HOSTILE[:50], "x" * 129, "ä"])
def test_a_service_that_none_can_be_called_is_left_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    catalog = Catalog()
    key = f"service/{name}".encode("utf-8", "replace")
    catalog.take([(key, b'{"partitions": 1}'), service_record("s", {"partitions": 1})])
    assert list(catalog.services) == ["s"]
    assert caplog.messages


ENVELOPE = schemas.load("envelope", schemas.newest("envelope"))


def changed(**fields: Any) -> str:
    return json.dumps(ENVELOPE | fields)


BAD_SCHEMAS = {
    "no JSON": "{",
    "nested deeply": '{"namespace": "conversations", "name": "Envelope", "type":' + "[" * 200_000,
    "no fields": changed(fields=[]),
    "fields that are none": changed(fields=5),
    "fields without names": changed(fields=[{}]),
    "no type": json.dumps({"namespace": "conversations", "name": "Envelope"}),
    "an unknown type": changed(fields=[*ENVELOPE["fields"], {"name": "x", "type": "Unknown"}]),
    "a field of another type": changed(
        fields=[{**field, "type": "string"} if field["name"] == "seq" else field for field in ENVELOPE["fields"]]
    ),
    "too long": changed(doc="x" * 100_000),
}


@pytest.mark.parametrize("text", BAD_SCHEMAS.values(), ids=BAD_SCHEMAS.keys())
def test_a_schema_nothing_can_be_read_with_is_left_out_of_spark_jobs(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    envelopes = pytest.importorskip("spark_jobs.reading.envelopes")
    assert envelopes.writer_schemas({"ff": text}) == envelopes.writer_schemas({})
    assert "schema ff of the catalog is left out" in caplog.text


def test_a_later_schema_is_read_without_what_spark_would_look_at_besides() -> None:
    envelopes = pytest.importorskip("spark_jobs.reading.envelopes")
    later = ENVELOPE | {
        "fields": [*ENVELOPE["fields"], {"name": "later", "type": {"type": "int", "logicalType": "date"}, "default": 5}]
    }
    catalog = Catalog()
    catalog.take([schema_record("ff", json.dumps(later))])
    found = envelopes.writer_schemas(catalog.schemas)
    assert not {"default", "logicalType"} & {
        name for field in json.loads(found[fingerprint(later)])["fields"] for name in field
    }


def test_a_warning_is_printed_by_a_command_that_configured_nothing(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = "from conversations_ops.console.log_lines import show_warnings; import logging; show_warnings(); logging.warning('left \\x1b out')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == "warning: left \\x1b out\n"


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
