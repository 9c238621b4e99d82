"""Traces over dialogs, with OpenTelemetry's SDK: who is the child of whom, also after failures, waits, timers and moves of the partition."""

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conversations import Contract, Dialog, NewDialog, PlainRecord, PoisonPolicy, Service, local
from conversations.ports import Out
from conversations.protocol import rows
from conversations.testing import Simulation
from conversations.testing.reading import state_of
from tests.simulation.support.services import Heard, Say
from tests.support.relay import ORDERS, Order, Ordered, relay
from tests.support.waiting import until

pytest.importorskip(
    "opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed: pip install -r requirements/dev.txt"
)

from conversations.otel import trace
from tests.support.spans import Spans, is_child, said, trace_id

ROOT = Path(__file__).resolve().parents[2]
TALK = Contract("Talk", sent_by_initiator=[Say], sent_by_target=[Heard])
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()
SECOND = timedelta(seconds=1)


def source(topic: str = "words") -> Service[dict[str, Any]]:
    """Make a service that begins a dialog with the listener for each record of a topic."""
    service = Service("source", initiates=[TALK])

    @service.from_topic(topic, to="listener", contract=TALK, start="earliest")
    def begins(record: PlainRecord) -> NewDialog:
        return NewDialog(Say(text=(record.value or b"").decode()))

    @service.on(Heard)
    def heard(message: Heard, dialog: Dialog) -> None:
        dialog.end()

    return service


def listener(
    deed: Callable[[Say, Dialog], None], *poison: PoisonPolicy, publishes: str = ""
) -> Service[dict[str, Any]]:
    service = Service("listener", accepts=[TALK], poison=poison, publishes=[publishes] if publishes else [])

    @service.on(Say)
    def hears(message: Say, dialog: Dialog) -> None:
        deed(message, dialog)

    @service.on_timer()
    def rings(dialog: Dialog) -> None:
        dialog.send(Heard(text="late"))

    return service


def kept(sim: Simulation, service: str, kind: bytes) -> list[bytes]:
    """Return the keys of the rows of a kind."""
    return [key for table in state_of(sim.broker, service) for key in table if key[:1] == kind]


# -- one trace -----------------------------------------------------------------------------------------------------


def test_a_dialog_and_the_dialogs_it_begins_are_one_trace() -> None:
    spans, services = Spans(), relay()
    trace(*services, provider=spans.provider)
    with local(*services) as client:
        answer = client.request("desk", ORDERS, Order(item="tea"), reply=Ordered, timeout=60 * SECOND)
        assert answer.result() == Ordered(item="tea")
    (written,) = [it for it in spans.ended() if it.name.startswith("send")]
    (ordered,), (take,), (taken,) = spans.of("ordered"), spans.of("take"), spans.of("taken")
    assert is_child(ordered, written)
    assert is_child(take, ordered)
    assert is_child(taken, take)
    assert len({trace_id(it) for it in spans.ended()}) == 1
    assert written.parent is None
    wanted = {
        "messaging.system": "kafka", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": "conv.store.queue", "messaging.destination.partition.id": "0",
        "messaging.message.conversation_id": said(taken, "messaging.message.conversation_id"),
        "conversations.service": "store", "conversations.contract": "Taking", "conversations.peer": "desk",
        "conversations.message_type": "Take", "conversations.message_number": 0, "conversations.attempt": 1,
    }  # fmt: skip
    assert {name: value for name, value in (take.attributes or {}).items() if name in wanted} == wanted
    assert "tea" not in "".join(it.to_json() for it in spans.ended()), "a body is in a span"


def test_spans_of_the_handler_and_of_the_client_have_the_programs_spans_around_and_inside_them() -> None:
    spans = Spans()
    tracer = spans.provider.get_tracer("program")

    def deed(_: Say, dialog: Dialog) -> None:
        with tracer.start_as_current_span("inner"):
            dialog.send(Heard(text="yes"))

    service = listener(deed)
    trace(service, provider=spans.provider)
    with local(service) as client:
        with tracer.start_as_current_span("outer"), client.begin_dialog("listener", TALK) as dialog:
            dialog.send(Say(text="hi"))
        until(lambda: spans.of("hears"), "the handler has run")
    by_name = {it.name.partition(" ")[0]: it for it in spans.ended()}
    assert is_child(by_name["send"], by_name["outer"])
    assert is_child(by_name["process"], by_name["send"])
    assert is_child(by_name["inner"], by_name["process"])


# -- failures, waits, moves ----------------------------------------------------------------------------------------


def test_each_attempt_has_a_span_and_what_the_last_one_sends_is_its_child() -> None:
    """The second attempt comes at once, the third after a wait and a crash: all are children of the sender's span."""
    spans, tries = Spans(), []

    def deed(_: Say, dialog: Dialog) -> None:
        tries.append(dialog.attempt)
        if len(tries) < 3:
            raise KeyError("secret of a body")
        dialog.send(Heard(text="yes"))

    first, second = source(), listener(deed, PoisonPolicy(delays=[timedelta(0), 60 * SECOND]))
    trace(first, second, provider=spans.provider)
    with Simulation(first, second, partitions=1, raise_failures=False) as sim:
        sim.feed("words", b"k", b"hi", headers={"traceparent": PARENT, "tracestate": b"vendor=1"})
        sim.run()
        sim.crash("listener")
        sim.advance(61 * SECOND)
        sim.run()
    calls = spans.of("hears")
    assert [said(it, "conversations.attempt") for it in calls] == ["1", "2", "3"]
    assert {f"{it.parent.trace_id:032x} {it.parent.span_id:016x}" for it in calls if it.parent} == {f"{TRACE} {SPAN}"}
    assert [it.status.status_code.name for it in calls] == ["ERROR", "ERROR", "UNSET"]
    assert [said(it, "error.type") for it in calls] == ["KeyError", "KeyError", ""]
    assert [[event.name for event in it.events] for it in calls] == [["exception"], ["exception"], []]
    (heard,) = spans.of("heard")
    assert is_child(heard, calls[2])
    assert heard.context is not None
    assert heard.context.trace_state.get("vendor") == "1"


def test_an_envelope_that_waits_for_its_destination_keeps_its_trace() -> None:
    spans = Spans()
    first, second = source(), listener(lambda _, dialog: dialog.send(Heard(text="yes")))
    trace(first, second, provider=spans.provider)
    with Simulation(first, partitions=1) as sim:
        sim.feed("words", b"k", b"hi", headers={"traceparent": PARENT})
        sim.run()
        assert len(kept(sim, "source", rows.DELAYED)) == 1
        sim.crash("source")
        sim.run()
        sim.deploy(second)
        sim.advance(200 * SECOND)
        sim.run()
    (hears,) = spans.of("hears")
    assert hears.parent is not None
    assert (f"{hears.parent.trace_id:032x}", f"{hears.parent.span_id:016x}") == (TRACE, SPAN)


def test_a_timer_carries_the_trace_on_and_leaves_no_row() -> None:
    spans = Spans()
    first, second = source(), listener(lambda _, dialog: dialog.set_timer(3_600 * SECOND))
    trace(first, second, provider=spans.provider)
    with Simulation(first, second, partitions=1) as sim:
        sim.feed("words", b"k", b"hi")
        sim.run()
        assert len(kept(sim, "listener", rows.TRACE)) == 1
        sim.crash("listener")
        sim.advance(3_601 * SECOND)
        sim.run()
        assert kept(sim, "listener", rows.TRACE) == []
    (hears,), (rings,), (heard,) = spans.of("hears"), spans.of("rings"), spans.of("heard")
    assert is_child(rings, hears)
    assert is_child(heard, rings)


def test_the_trace_of_a_timer_goes_with_its_dialog() -> None:
    def deed(message: Say, dialog: Dialog) -> None:
        dialog.set_timer(3_600 * SECOND, name="kept")
        dialog.set_timer(3_600 * SECOND, name="cancelled")
        dialog.cancel_timer(name="cancelled")
        if message.text == "end":
            dialog.end()

    spans, names = Spans(), []
    for text in (b"stay", b"end"):
        first, second = source(), listener(deed)
        trace(first, second, provider=spans.provider)
        with Simulation(first, second, partitions=1) as sim:
            sim.feed("words", b"k", text)
            sim.run()
            names.append([key[18:] for key in kept(sim, "listener", rows.TRACE)])
            sim.advance(timedelta(days=3))
            sim.run()
            assert kept(sim, "listener", rows.TRACE) == []
    assert names == [[b"kept"], []]


def test_an_edited_message_keeps_its_trace() -> None:
    """An operator's decision is no handler: the handler that runs again is the child of who sent the message."""

    def deed(message: Say, dialog: Dialog) -> None:
        if message.text != "mended":
            raise ValueError("not this text")

    spans = Spans()
    first, second = source(), listener(deed, PoisonPolicy(delays=[]))
    trace(first, second, provider=spans.provider)
    with Simulation(first, second, partitions=1, raise_failures=False) as sim:
        sim.feed("words", b"k", b"hi", headers={"traceparent": PARENT})
        sim.run()
        sim.decide(sim.parked("listener")[0], "edit", body=Say(text="mended"))
        sim.run()
        sim.crash("listener")
        sim.run()
    parents = [f"{it.parent.trace_id:032x} {it.parent.span_id:016x}" for it in spans.of("hears") if it.parent]
    assert parents == [f"{TRACE} {SPAN}"] * 2


def test_a_command_for_another_partition_keeps_its_trace() -> None:
    """A client of another partition count has chosen the wrong partition: the owner forwards the command, with its trace alone."""
    spans = Spans()
    first, second = source(), listener(lambda _, dialog: None)
    trace(first, second, provider=spans.provider)
    with Simulation(first, second, partitions=4) as sim:
        sim.feed("words", b"k", b"hi", headers={"traceparent": PARENT, "other": b"x"})
        (topic,) = [name for name in sim.broker.topics if name.endswith("source.commands")]
        sim.run()
        (out,) = [record for log in sim.broker.topics[topic] for record in log if record.value() is not None]
        wrong = (out.partition() + 1) % 4
        sim.broker.append(Out(topic, wrong, out.key(), out.value(), [*(out.headers() or ()), ("other", b"x")]))
        sim.run()
    assert dict(out.headers() or ()) == {"traceparent": PARENT}
    theirs = [record for log in sim.broker.topics[topic] for record in log if record.partition() == out.partition()]
    found = [record for record in theirs if record.value() is not None]
    assert [dict(record.headers() or ()) for record in found] == [{"traceparent": PARENT}] * 2


# -- what others read ----------------------------------------------------------------------------------------------


def test_a_published_record_has_the_trace_unless_it_has_its_own() -> None:
    def deed(_: Say, dialog: Dialog) -> None:
        dialog.publish("heard", "a", "1", headers={"x": "y"})
        dialog.publish("heard", "b", "2", headers={"traceparent": PARENT})
        dialog.publish("heard", "c", "3")

    spans = Spans()
    first, second = source(), listener(deed, publishes="heard")
    trace(first, second, provider=spans.provider)
    with Simulation(first, second, partitions=1) as sim:
        sim.feed("words", b"k", b"hi")
        sim.run()
        found = {record.key: dict(record.headers) for record in sim.published("heard")}
    (hears,) = spans.of("hears")
    assert hears.context is not None
    ours = f"00-{hears.context.trace_id:032x}-{hears.context.span_id:016x}-{hears.context.trace_flags:02x}".encode()
    assert found == {b"a": {"x": b"y", "traceparent": ours}, b"b": {"traceparent": PARENT}, b"c": {"traceparent": ours}}


@pytest.mark.parametrize("parent", [b"", b"00-1-1-01", PARENT + b"0", b"x" * 100_000])
def test_a_trace_from_outside_that_is_malformed_is_ignored(parent: bytes) -> None:
    spans = Spans()
    first, second = source(), listener(lambda _, dialog: dialog.send(Heard(text="yes")))
    trace(first, second, provider=spans.provider)
    with Simulation(first, second, partitions=1) as sim:
        sim.feed("words", b"k", b"hi", headers={"traceparent": parent})
        sim.run()
    (hears,) = spans.of("hears")
    assert hears.parent is None


def test_a_span_processor_that_fails_fails_no_handler() -> None:
    class Broken:
        def start_span(self, *_: object, **__: object) -> None:
            raise RuntimeError("no span today")

    class Provider:
        def get_tracer(self, *_: object, **__: object) -> Broken:
            return Broken()

    service = listener(lambda _, dialog: dialog.send(Heard(text="yes")))
    trace(service, provider=Provider())  # type: ignore[arg-type]  # what fails is the point
    with Simulation(service, partitions=1) as sim:
        dialog = sim.peer("source").begin_dialog("listener", TALK)
        dialog.send(Say(text="hi"))
        sim.run()
        assert dialog.received() == [Heard(text="yes")]


# -- without ---------------------------------------------------------------------------------------------------------


def test_without_tracing_no_record_has_a_trace() -> None:
    first, second = source(), listener(lambda _, dialog: dialog.set_timer(3_600 * SECOND))
    with Simulation(first, second, partitions=1) as sim:
        sim.feed("words", b"k", b"hi")
        sim.run()
        names = {
            name
            for topic, logs in sim.broker.topics.items()
            for log in logs
            for record in log
            for name, _ in record.headers() or ()
            if topic.endswith(("queue", "commands"))
        }
        assert names == set()
        assert kept(sim, "listener", rows.TRACE) == []


def test_nothing_is_imported_unless_it_is_asked_for_and_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
import conversations, conversations.service, conversations.worker, conversations.client, conversations.local
try:
    import conversations.otel
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "traces need opentelemetry-api: run pip install 'kafka-dialogs[otel]'"
