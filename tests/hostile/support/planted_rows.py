"""A namespace whose topics have records that could harm their readers. No worker runs: the test writes all rows and records."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from confluent_kafka import KafkaError, Message, Producer

from conversations.config import Kafka
from conversations.kafka.admin import apply, create_metrics_topic
from conversations.protocol import letters as names
from conversations.protocol import rows
from conversations.protocol.codes import NOT_CONVERSING
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.park_row import ParkRow, encode_park
from conversations.protocol.partition_row import PartitionRow, encode_partition
from conversations.protocol.topics import (
    DEAD_LETTER,
    STATE,
    catalog_topic,
    events_topic,
    operators_topic,
    service_topic,
)
from conversations.protocol.waiting_row import WaitingRow, encode_waiting
from tests.hostile.support.texts import HOSTILE

TEXT = HOSTILE.replace("\udc9b", "")
"""The hostile text without its lone surrogate, which UTF-8 cannot encode."""
REDRIVE = "rd-1"
DESK = "desk"


class Planted:
    """The service "desk" with a failed message, a letter and a queue that is off. Every shared topic has bad records."""

    def __init__(self, bootstrap: str) -> None:
        self.kafka = Kafka(bootstrap, namespace=f"h{uuid4().hex[:10]}")
        apply(self.kafka, [ServiceDeclaration(DESK), ServiceDeclaration("clerk")], 1, 1)
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self.dialog = uuid4()
        self.odd = uuid4()
        """A broken dialog whose names, key and error are hostile text."""
        self.letter = f"{DESK}.queue-0-7"
        """Name of the letter whose message waits for an operator."""
        self.over = f"{DESK}.queue-0-9"
        """Name of a detached letter: no dialog waits for it."""
        self._plant_rows()
        self._plant_letters()
        self._plant_events()
        self._plant_notes()
        self._plant_minutes()
        self._plant_catalog()

    def put(
        self, topic: str, key: bytes, value: bytes | None, headers: list[tuple[str, str | bytes | None]] | None = None
    ) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            assert error is None, error

        self._producer.produce(topic, value, key, 0, delivered, headers=headers or [])
        assert self._producer.flush(30) == 0

    def _plant_rows(self) -> None:
        topic = service_topic(self.kafka.namespace, DESK, STATE)
        self._plant_parked(topic, self.dialog, 7)
        self._plant_odd(topic, self.odd)
        broken = uuid4()
        self.put(topic, rows.numbered(rows.HELD, rows.identity(self.dialog.bytes, initiator=False), 3), b"none")
        self.put(topic, rows.ENDPOINT + b"short", b"none")
        self.put(topic, rows.WAITING + bytes(8), b"none")
        self.put(topic, rows.PARK + rows.identity(broken.bytes, initiator=False), b"none")
        self.put(topic, rows.ENDPOINT + rows.identity(broken.bytes, initiator=False), b"none")
        self.put(topic, rows.letter_key("x.queue", 9), bytes(8))
        row = PartitionRow(off="operator", off_since=10**18, off_by=TEXT, off_reason=TEXT)
        self.put(topic, rows.PARTITION, encode_partition(row))

    def plant_secret(self, secret: str) -> tuple[str, UUID]:
        """Add a failed message whose body, exception and stack trace have a secret, and an event. Return its letter and its dialog."""
        dialog, text = uuid4(), secret.encode()
        self._plant_parked(service_topic(self.kafka.namespace, DESK, STATE), dialog, 11, secret)
        ours: dict[str, str | bytes | None] = {
            names.REASON: b"handler-failed", names.SOURCE_TOPIC: f"x.{DESK}.queue", names.SOURCE_OFFSET: b"11", names.FAILED_AT: b"9" * 15,
            names.SEQUENCE: b"0", names.EXCEPTION: b"ValueError", names.EXCEPTION_MESSAGE: text, names.STACK: text,
            names.CONVERSATION: str(dialog), names.MESSAGE_TYPE: b"Task",
        }  # fmt: skip
        self.put(service_topic(self.kafka.namespace, DESK, DEAD_LETTER), b"k", text, [*ours.items()])
        for field in ("failure", "why"):
            told = {"event": "GAVE_UP", "service": DESK, "conversation": str(dialog), field: f"ValueError: {secret}"}
            self.event(json.dumps(told).encode())
        off = {
            "event": "QUEUE_DISABLED",
            "service": DESK,
            "partition": 0,
            "cause": "policy",
            "by": "Task",
            "reason": f"ValueError: {secret}",
        }
        self.event(json.dumps(off).encode())
        return f"{DESK}.queue-0-11", dialog

    def _plant_parked(self, topic: str, dialog: UUID, offset: int, text: str = TEXT) -> None:
        own = rows.identity(dialog.bytes, initiator=False)
        endpoint = Endpoint(
            dialog.bytes, False, contract="Tasks", service=DESK, peer="clerk", key=str(dialog), peer_key=str(dialog),
            expires_at=NEVER,
        )  # fmt: skip
        self.put(topic, rows.ENDPOINT + own, rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)))
        park = ParkRow(
            due=NEVER,
            next=2,
            size=5,
            since=10**18,
            ticket=3,
            failure=f"ValueError{text if text == TEXT else ''}: {text}",
        )
        self.put(topic, rows.PARK + own, encode_park(park))
        prefix = Prefix(dialog.bytes, True, "Tasks", "clerk", DESK, str(dialog), False, 0, -1)
        task = Envelope(
            prefix, Kind.MESSAGE, 0, -1, message_type="Task", content_type="application/json", body=text.encode()
        )
        head = WaitingRow(f"x.{DESK}.queue", offset, 0, True, 4, b"k", b"", encode(task))
        self.put(topic, rows.numbered(rows.PARKED, own, 0), encode_waiting(head))

    def _plant_odd(self, topic: str, dialog: UUID) -> None:
        endpoint = Endpoint(
            dialog.bytes, True, contract=TEXT, service=DESK, peer=TEXT, key=TEXT, peer_key=TEXT, expires_at=1 << 61
        )
        endpoint.fail(NOT_CONVERSING, TEXT)
        own = rows.identity(dialog.bytes, initiator=True)
        self.put(topic, rows.ENDPOINT + own, rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)))
        prefix = Prefix(dialog.bytes, True, TEXT, DESK, TEXT, TEXT, False, 0, -1)
        said = Envelope(prefix, Kind.MESSAGE, 0, -1, message_type=TEXT, content_type=TEXT, body=b"")
        row = WaitingRow(TEXT, -1, 0, False, 0, TEXT.encode(), b"", encode(said))
        self.put(topic, rows.numbered(rows.DELAYED, own, 1 << 40), encode_waiting(row))

    def _plant_letters(self) -> None:
        topic, text = service_topic(self.kafka.namespace, DESK, DEAD_LETTER), TEXT.encode()
        prefix = Prefix(uuid4().bytes, True, "Tasks", DESK, "clerk", "key", False, 0, -1)
        task = Envelope(prefix, Kind.MESSAGE, 0, -1, message_type="Task", content_type="application/json", body=text)
        ours: dict[str, bytes] = {
            names.REASON: text, names.SOURCE_TOPIC: b"x.desk.queue", names.SOURCE_OFFSET: b"9", names.FAILED_AT: b"9" * 18,
            names.SEQUENCE: b"0", names.EXCEPTION: text, names.EXCEPTION_MESSAGE: text, names.CONVERSATION: text,
            names.MESSAGE_TYPE: text,
        }  # fmt: skip
        self.put(topic, b"k", encode(task), [*ours.items()])
        for name, value in ((names.SEQUENCE, b"abc"), (names.FAILED_AT, b"9" * 5_000), (names.SOURCE_OFFSET, text)):
            self.put(topic, text, text, [*(ours | {name: value}).items()])
        self.put(topic, text, None, [(f"kafka_dlt-{TEXT}", text)])

    def _plant_events(self) -> None:
        told: Mapping[str, Any] = {
            "redrive": REDRIVE, "by": TEXT, "reason": TEXT, "at": 10**18, "outcomes": {TEXT: 5, "open": 1}
        }  # fmt: skip
        for event in ("REDRIVE_STARTED", "REDRIVE_PROGRESS"):
            self.event(json.dumps({"event": event, **told}).encode())
        for bad in (
            b"", b"\xff", b"[]", b"5", b"{}", b"[" * 100_000, json.dumps({"event": TEXT}).encode(),
            b'{"event": "REDRIVE_ENDED", "redrive": "rd-1", "outcomes": {}}',
            b'{"event": "RETURNED", "command": []}', b'{"event": "COMMAND_REFUSED", "command": {}}',
            json.dumps({"event": "RESUBMITTING", "conversation": TEXT, "letters": [TEXT], "at": TEXT}).encode(),
            json.dumps({"event": "REDRIVE_STARTED", "redrive": REDRIVE, "by": TEXT, "outcomes": TEXT}).encode(),
        ):  # fmt: skip
            self.event(bad)

    def _plant_notes(self) -> None:
        """Notes and plans that any program may have written. The group of the first note is that of the planted failure."""
        topic = operators_topic(self.kafka.namespace)
        said = json.dumps({"text": TEXT, "by": TEXT, "at": 10**30}).encode()
        group = json.dumps([DESK, "ValueError", "Task"])
        for key in (f"note/{group}", f"mended/{group}", f"note/{TEXT}", "note/[[[", "plan/", f"run/{TEXT}"):
            self.put(topic, key.encode(), said)
        head = {"revision": TEXT, "parts": 1, "letters": 3, "made_at": TEXT, "made_by": TEXT}
        for name in ("rd-7", REDRIVE, TEXT):
            self.put(topic, f"plan/{name}".encode(), json.dumps({**head, "redrive": name}).encode())
        for name in ("run/a", "letter/a/x", f"run/{TEXT}"):
            fields = json.dumps({"outcome": "came back", "command": TEXT, "by": TEXT, "reason": TEXT})
            self.put(topic, f"redrive/rd-7/{name}".encode(), fields.encode())
        for value in (b"", b"\xff", b"[]", b"[" * 100_000, None):
            self.put(topic, b"plan/rd-8", value)
            self.put(topic, b"\xff\x00", value)

    def _plant_minutes(self) -> None:
        topic = create_metrics_topic(self.kafka, 1)
        row = json.dumps({"begun": 10**30, "messages": -5, "reply_p95": 1e308, "open": TEXT}).encode()
        for service in (DESK, TEXT.replace("/", "")):
            self.put(topic, f"{service}/{TEXT.replace('/', '')}/{datetime.now(UTC):%Y-%m-%dT%H:%MZ}".encode(), row)

    def event(self, value: bytes) -> None:
        self.put(events_topic(self.kafka.namespace), TEXT.encode(), value)

    def _plant_catalog(self) -> None:
        topic = catalog_topic(self.kafka.namespace)
        entry = json.dumps(
            {
                "partitions": 1,
                "accepts": {TEXT: {TEXT: [TEXT]}},
                "initiates": 5,
                "retries": [TEXT],
                "publishes": ["", TEXT, "x" * 300],
            }
        ).encode()
        self.put(topic, b"service/ghost", entry)
        self.put(topic, f"service/{TEXT}".encode(), entry)
        self.put(topic, b"service/" + b"x" * 128, entry)
        self.put(topic, b"service/lost", b"not JSON")
        self.put(topic, f"service/{DESK}".encode(), entry)
        self.put(topic, f"schema/{TEXT}".encode(), TEXT.encode())
        self.put(topic, TEXT.encode(), TEXT.encode())
