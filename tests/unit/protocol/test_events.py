"""Events have the bytes that people's programs read, and readers take back what was written."""

import json
from dataclasses import fields

import pytest

from conversations.protocol import events
from conversations.protocol.events import EVENTS, ConversationId, Event, Origin, ToolEvent, WorkerEvent

ID = ConversationId("018f0000-0000-7000-8000-000000000001")
OTHER = ConversationId("018f0000-0000-7000-8000-000000000002")
ORIGIN = Origin("orders", 3, 7)
HEAD = '"service": "orders", "partition": 3, "at": 7'
WRITTEN: dict[Event, str] = {
    events.SetAside("conv.orders.queue", 5, "why"): f'{{"event": "SET_ASIDE", {HEAD}, "topic": "conv.orders.queue", "offset": 5, "why": "why"}}',
    events.MessageCorrupt("conv.orders.queue", 5, "why"): f'{{"event": "MESSAGE_CORRUPT", {HEAD}, "topic": "conv.orders.queue", "offset": 5, "why": "why"}}',
    events.MessageNotAuthentic("conv.orders.queue", 5, "credit", "k1", "why"): f'{{"event": "MESSAGE_NOT_AUTHENTIC", {HEAD}, "topic": "conv.orders.queue", "offset": 5, "peer": "credit", "key": "k1", "why": "why"}}',
    events.PartitionSetAside("why"): f'{{"event": "PARTITION_SET_ASIDE", {HEAD}, "why": "why"}}',
    events.CopyDamaged("why"): f'{{"event": "COPY_DAMAGED", {HEAD}, "why": "why"}}',
    events.ClockOff(-1.5): f'{{"event": "CLOCK_OFF", {HEAD}, "seconds": -1.5}}',
    events.GaveUp(ID, "hold", 500, "E: x"): f'{{"event": "GAVE_UP", {HEAD}, "conversation": "{ID}", "then": "hold", "code": 500, "failure": "E: x"}}',
    events.DialogBroken(ID, -8489, "shop", "web", "too late", 3): f'{{"event": "DIALOG_BROKEN", {HEAD}, "conversation": "{ID}", "code": -8489, "by": "shop", "peer": "web", "why": "too late", "dialogs": 3}}',
    events.SkippedByPeer(ID, (1, 2)): f'{{"event": "SKIPPED_BY_PEER", {HEAD}, "conversation": "{ID}", "numbers": [1, 2]}}',
    events.Undeliverable(ID, -8494, "no", 2): f'{{"event": "UNDELIVERABLE", {HEAD}, "conversation": "{ID}", "code": -8494, "why": "no", "envelopes": 2}}',
    events.Undelivered(ID, 2, -8489, "no"): (
        f'{{"event": "UNDELIVERED", {HEAD}, "conversation": "{ID}", "envelopes": 2, "code": -8489, "why": "no"}}'
    ),
    events.Renewed(ID, ID, 1, -8462, 3): (
        f'{{"event": "RENEWED", {HEAD}, "conversation": "{ID}", "replaced_by": "{ID}", "generation": 1, "code": -8462, "messages": 3}}'
    ),
    events.NotKept(ID, 9, 4): (
        f'{{"event": "NOT_KEPT", {HEAD}, "conversation": "{ID}", "unacknowledged_bytes": 9, "sequence": 4}}'
    ),
    events.Unanswerable("web", -8408): f'{{"event": "UNANSWERABLE", {HEAD}, "service_named": "web", "code": -8408}}',
    events.QueueDisabled("policy", by="T", reason="r"): f'{{"event": "QUEUE_DISABLED", {HEAD}, "cause": "policy", "by": "T", "reason": "r"}}',
    events.QueueDisabled("operator", by="a", reason="r", command=OTHER): f'{{"event": "QUEUE_DISABLED", {HEAD}, "cause": "operator", "by": "a", "reason": "r", "command": "{OTHER}"}}',
    events.QueueEnabled(by="a", reason="r", command=OTHER): f'{{"event": "QUEUE_ENABLED", {HEAD}, "by": "a", "reason": "r", "command": "{OTHER}"}}',
    events.QueuePaused(5, 6): f'{{"event": "QUEUE_PAUSED", {HEAD}, "waiting_bytes": 5, "parked_bytes": 6}}',
    events.QueueResumed(): f'{{"event": "QUEUE_RESUMED", {HEAD}}}',
    events.BrakeOn(50, "web", "E: x"): f'{{"event": "BRAKE_ON", {HEAD}, "dialogs": 50, "peer": "web", "failure": "E: x"}}',
    events.BrakeOff("web"): f'{{"event": "BRAKE_OFF", {HEAD}, "peer": "web"}}',
    events.Resolved(OTHER, ID, False, "message", 4, "retry", "a", "r"): f'{{"event": "RESOLVED", {HEAD}, "command": "{OTHER}", "conversation": "{ID}", "from_initiator": false, "handler": "message", "number": 4, "action": "retry", "by": "a", "reason": "r"}}',
    events.Settled(OTHER, ("orders.queue-3-17",), "discarded", "a", "r"): f'{{"event": "SETTLED", {HEAD}, "command": "{OTHER}", "letters": ["orders.queue-3-17"], "outcome": "discarded", "by": "a", "reason": "r"}}',
    events.CommandDone(OTHER, "a"): f'{{"event": "COMMAND_DONE", {HEAD}, "command": "{OTHER}", "by": "a"}}',
    events.CommandRefused(OTHER, 8426, "why"): f'{{"event": "COMMAND_REFUSED", {HEAD}, "command": "{OTHER}", "code": 8426, "why": "why"}}',
    events.Returned(OTHER, events.Outcome.HANDLED): f'{{"event": "RETURNED", {HEAD}, "command": "{OTHER}", "outcome": "handled"}}',
    events.Resubmitting("orders", 7, ID, OTHER, ("l",), "a", "r"): f'{{"event": "RESUBMITTING", "service": "orders", "at": 7, "conversation": "{ID}", "dialog": "{OTHER}", "letters": ["l"], "by": "a", "reason": "r"}}',
    events.DialogEnding("orders", 7, ID, True, "end with error", 7, "a", "r", "c"): f'{{"event": "DIALOG_ENDING", "service": "orders", "at": 7, "conversation": "{ID}", "initiator": true, "action": "end with error", "code": 7, "by": "a", "reason": "r", "command": "c"}}',
    events.GroupNoted("orders", 7, "KeyError", "Order", True, "a", "r"): '{"event": "GROUP_NOTED", "service": "orders", "at": 7, "exception": "KeyError", "type": "Order", "mended": true, "by": "a", "reason": "r"}',
    events.TransactionAborting("orders", 7, "t", "a", "r"): '{"event": "TRANSACTION_ABORTING", "service": "orders", "at": 7, "transactional_id": "t", "by": "a", "reason": "r"}',
    events.RedriveStop("rd-1", 7, "a", "r"): '{"event": "REDRIVE_STOP", "redrive": "rd-1", "at": 7, "by": "a", "reason": "r"}',
    events.ForwardingBegan("emea", 7, (0, 1)): '{"event": "FORWARDING_BEGAN", "cluster": "emea", "at": 7, "partitions": [0, 1]}',
    events.ForwardingEnded("emea", 7, (1,)): '{"event": "FORWARDING_ENDED", "cluster": "emea", "at": 7, "partitions": [1]}',
    events.ClusterAway("emea", 7, "no broker"): '{"event": "CLUSTER_AWAY", "cluster": "emea", "at": 7, "why": "no broker"}',
    events.ClusterBack("emea", 9, 7): '{"event": "CLUSTER_BACK", "cluster": "emea", "at": 9, "since": 7}',
    events.NotForwarded("emea", 7, "credit"): '{"event": "NOT_FORWARDED", "cluster": "emea", "at": 7, "service": "credit"}',
}  # fmt: skip
COUNTED: list[tuple[ToolEvent, str]] = [
    (events.RedriveStarted("rd-1", 7, "a", "r", {"open": 2}, 2), '{"event": "REDRIVE_STARTED", "redrive": "rd-1", "at": 7, "by": "a", "reason": "r", "outcomes": {"open": 2}, "letters": 2}'),
    (events.RedriveProgress("rd-1", 7, "a", "r", {"open": 2}), '{"event": "REDRIVE_PROGRESS", "redrive": "rd-1", "at": 7, "by": "a", "reason": "r", "outcomes": {"open": 2}}'),
    (events.RedriveEnded("rd-1", 7, "a", "r", {"open": 2}, "done"), '{"event": "REDRIVE_ENDED", "redrive": "rd-1", "at": 7, "by": "a", "reason": "r", "outcomes": {"open": 2}, "end": "done"}'),
]  # fmt: skip
ALL = [*WRITTEN.items(), *COUNTED]


def encoded(event: Event) -> bytes:
    if isinstance(event, WorkerEvent):
        return events.encode_worker_event(ORIGIN, event)
    assert isinstance(event, ToolEvent)
    return events.encode_tool_event(event)


@pytest.mark.parametrize(("event", "text"), ALL, ids=[event.NAME for event, _ in ALL])
def test_an_event_has_these_bytes_and_is_read_back(event: Event, text: str) -> None:
    assert encoded(event).decode() == text
    assert events.decode_event(text.encode()) == event


def test_every_event_is_in_this_list() -> None:
    assert {event.NAME for event, _ in ALL} == EVENTS.keys()


def test_long_texts_of_a_worker_are_cut() -> None:
    said = json.loads(encoded(events.SetAside("t", 5, "x" * 5_000)))
    assert said["why"] == "x" * 1_000


@pytest.mark.parametrize("event", [event for event, _ in ALL], ids=[event.NAME for event, _ in ALL])
def test_only_the_fields_that_a_reader_needs_must_be_there(event: Event) -> None:
    said = json.loads(encoded(event))
    for name in (field.name for field in fields(event)):  # type: ignore[arg-type]  # all are dataclasses
        text = json.dumps({key: value for key, value in said.items() if key != name}).encode()
        if name in event.NEEDED:
            with pytest.raises(ValueError, match=f"its field {name} is None"):
                events.decode_event(text)
        else:
            assert type(events.decode_event(text)) is type(event)


@pytest.mark.parametrize("event", [event for event, _ in ALL], ids=[event.NAME for event, _ in ALL])
def test_a_field_of_another_type_is_refused(event: Event) -> None:
    said = json.loads(encoded(event))
    for name in (field.name for field in fields(event) if field.name in said):  # type: ignore[arg-type]  # likewise
        with pytest.raises(ValueError, match=f"its field {name} is"):
            events.decode_event(json.dumps(said | {name: [{}]}).encode())


def test_an_event_of_a_later_version_is_none() -> None:
    assert events.decode_event(b'{"event": "LATER", "letters": 5, "end": []}') is None
    assert events.decode_event(b'{"event": "BRAKE_OFF", "peer": "web", "more": []}') == events.BrakeOff("web")
