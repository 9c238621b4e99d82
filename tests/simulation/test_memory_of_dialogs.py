"""What outlives crashes, duplicates and the end of a dialog: rows, timers, tombstones, commands, delayed sends."""

from datetime import timedelta
from uuid import UUID

from conversations import Dialog, PeerError, Service, WorkerSettings
from conversations.config import Limits
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.command import Begin, Send
from conversations.protocol.envelope import Kind
from conversations.protocol.topics import partition_of
from conversations.protocol.waiting_row import WaitingRow, encode_waiting
from conversations.testing import Faults, Simulation
from conversations.testing.reading import state_of, visible
from conversations.worker.residents import ENDPOINT_BYTES
from tests.simulation.support import records, services
from tests.simulation.support.services import COUNTING, ECHO, NOTICES, REMINDERS, Add, Heard, Remind, Ring, Say, Total

SLOW = Faults(seed=1, slow=1.0)


def rows_of(sim: Simulation, service: str, kind: bytes) -> list[bytes]:
    return [key for table in state_of(sim.broker, service) for key in table if key.startswith(kind)]


def stall(sim: Simulation, rounds: int = 12) -> None:
    """Let handlers begin and not finish."""
    sim.chance.active = True
    sim.chance.renew()
    for _ in range(rounds):
        sim._round()
    sim.chance.active = False


# -- gaps --------------------------------------------------------------------------------------------------------


def test_held_messages_follow_in_order_when_the_gap_closes() -> None:
    """What arrived ahead of a missing message is held as rows and handled after it."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        sim.broker.stop = records.is_to("counter", 1)
        for amount in (1, 10, 100, 1000):
            dialog.send(Add(amount=amount))
        sim.run()
        assert dialog.received() == [Total(total=1)]
        assert len(rows_of(sim, "counter", rows.HELD)) == 2
        sim.crash("counter")
        sim.broker.resume()
        sim.run()
        assert dialog.received() == [Total(total=n) for n in (1, 11, 111, 1111)]
        assert rows_of(sim, "counter", rows.HELD) == []
        sim.check_invariants()


def test_a_gap_is_asked_for_and_its_sender_without_the_row_answers_with_an_error() -> None:
    """RESEND goes out after a second; nothing is kept here to send again, so the dialog ends with an error."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", services.UNKEPT)
        sim.broker.stop = records.is_to("counter", 1)
        for amount in (1, 2, 3):
            dialog.send(Add(amount=amount))
        sim.advance(timedelta(milliseconds=900))
        assert not dialog.ended
        sim.advance(timedelta(milliseconds=200))
        assert [e.kind for e in records.queued(sim, "web")].count(Kind.RESEND) == 1
        assert dialog.error
        assert sim.open_dialogs() == []
        assert [letter.sequence for letter in sim.dead_letters("counter")] == [2]


def test_a_gap_is_asked_for_three_times_then_the_dialog_breaks() -> None:
    """A peer that does not answer is asked again after 2 and 4 seconds, then told that the dialog is over."""
    with Simulation(services.sink()) as sim:
        sim.peer("stranger")
        conversation = records.drawn(sim)
        prefix = records.first_of(sim, conversation, "sink", "Notices")
        records.post(sim, records.message(prefix, 0, "Heard", b'{"text":"0"}'))
        records.post(sim, records.message(prefix, 2, "Heard", b'{"text":"2"}'))
        sim.advance(timedelta(minutes=1))
        kinds = [(e.kind, e.code) for e in records.queued(sim, "stranger") if e.kind in {Kind.RESEND, Kind.ERROR}]
        assert kinds == [(Kind.RESEND, 0)] * 3 + [(Kind.ERROR, -8462)]
        assert [letter.sequence for letter in sim.dead_letters("sink")] == [2]
        assert sim.open_dialogs() == []


def test_a_gap_that_closes_in_time_is_not_asked_for() -> None:
    """Another one has its own second from the moment it is known."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        for gap in (1, 3):
            sim.broker.stop = records.is_to("counter", gap)
            for amount in range(2 if gap > 1 else 3):
                dialog.send(Add(amount=amount))
            sim.advance(timedelta(milliseconds=700))
            sim.broker.resume()
            sim.run()
        sim.advance(timedelta(minutes=1))
        assert len(dialog.received()) == 5
        assert [e.kind for e in records.queued(sim, "web")].count(Kind.RESEND) == 0
        assert sim.open_dialogs() == [dialog.id]


def test_the_first_message_may_arrive_after_the_second() -> None:
    """The target's endpoint starts inbound, holds what came early, and handles both in order."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        sim.broker.stop = records.is_to("counter", 0)
        dialog.send(Add(amount=1))
        dialog.send(Add(amount=2))
        sim.run()
        assert dialog.received() == []
        sim.broker.resume()
        sim.run()
        assert dialog.received() == [Total(total=1), Total(total=3)]


# -- tombstones ----------------------------------------------------------------------------------------------------


def test_a_replay_of_everything_has_no_effect() -> None:
    """Each message of an open dialog takes effect once, however often it arrives."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        for amount in (1, 2):
            dialog.send(Add(amount=amount))
        sim.run()
        for name in ("counter", "web", "counter"):
            records.replay(sim, name)
            sim.run()
        assert dialog.received() == [Total(total=1), Total(total=3)]
        assert sim.worker("counter").counts.duplicates >= 4
        sim.check_invariants()


def test_a_replay_after_the_end_has_no_effect() -> None:
    """The tombstone remembers what was accepted: no endpoint comes back, no bytes are kept again. It is only acknowledged again."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        sim.run()
        assert sim.open_dialogs() == []
        sent = [len(records.queued(sim, name)) for name in ("web", "counter")]
        sim.crash("counter")
        records.replay(sim, "counter")
        sim.run()
        assert len(records.queued(sim, "counter")) == 2 * sent[1]
        again = records.queued(sim, "web")[sent[0] :]
        assert [(it.kind, it.ack) for it in again] == [(Kind.ACK, 1), (Kind.ACK, 1)]
        assert sim.dead_letters("counter") == []
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_a_tombstone_is_forgotten_only_when_log_time_has_passed() -> None:
    """The clock alone forgets nothing: log time must pass accept_until and the grace on the partition itself."""
    with Simulation(services.counter(), partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        sim.run()
        sim.clock.advance(10 * records.HOUR)
        sim.worker("counter").step()
        assert len(rows_of(sim, "counter", rows.ENDPOINT)) == 1
        # A first message so late revives nothing: it is refused by accept_until, not by the clock of this process.
        records.replay(sim, "counter")
        sim.run()
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_on_an_idle_partition_time_passes_by_ticks() -> None:
    """After an hour without traffic the owner asks for a tick, and the tombstones' time passes."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        sim.run()
        assert len(rows_of(sim, "counter", rows.ENDPOINT)) == 1
        sim.advance(timedelta(hours=4))
        assert rows_of(sim, "counter", rows.ENDPOINT) == []
        assert rows_of(sim, "web", rows.ENDPOINT) == []
        sim.check_invariants()


def test_time_passes_on_a_queue_that_nobody_ever_wrote_to() -> None:
    """A dialog that ended without a word of its peer is forgotten too."""
    with Simulation() as sim:
        dialog = sim.peer("web").begin_dialog("nowhere", COUNTING, wait_for_service=True)
        dialog.end()
        sim.run()
        assert len(rows_of(sim, "web", rows.ENDPOINT)) == 1
        sim.advance(timedelta(hours=4))
        assert rows_of(sim, "web", rows.ENDPOINT) == []


def test_a_tick_does_not_count_while_the_queue_is_unread() -> None:
    """What is not read yet may be a copy of what the tombstone is kept for."""
    with Simulation(services.counter(), partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        sim.run()
        connection = sim._runners["counter"][0].connection
        connection.pause(0)
        records.replay(sim, "counter")
        sim.advance(timedelta(hours=5))
        assert len(rows_of(sim, "counter", rows.ENDPOINT)) == 1
        connection.resume(0)
        sim.run()
        assert [entry.number for entry in sim.broker.ledger.handled if entry.service == "counter"] == [0]
        assert sim.dead_letters("counter") == []


def test_ticks_count_although_an_aborted_transaction_ended_the_queue() -> None:
    """Offsets of aborted records are never read; they must not stop time for ever."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        sim.run()
        for partition in range(3):
            for name in ("web", "counter"):
                topic = f"conv.{name}.queue"
                sim.broker.append(Out(topic, partition, b"k", b"never"), visible=False)
        sim.advance(timedelta(hours=4))
        assert rows_of(sim, "counter", rows.ENDPOINT) == []


def test_group_state_goes_with_the_last_tombstone() -> None:
    """State outlives the dialog as long as anything late could arrive, and not longer."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        sim.run()
        assert len(rows_of(sim, "counter", rows.GROUP)) == 1
        sim.advance(timedelta(hours=4))
        assert rows_of(sim, "counter", rows.GROUP) == []


def test_a_message_after_its_tombstone_is_forgotten_is_refused() -> None:
    """-8462 again, and its bytes kept as refused: not set aside as noise."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", services.UNKEPT)
        dialog.send(Add(amount=1))
        sim.run()
        dialog.end()
        sim.run()
        sim.advance(timedelta(days=2))
        assert rows_of(sim, "counter", rows.ENDPOINT) == []
        records.replay(sim, "counter")
        sim.run()
        assert [letter.reason for letter in sim.dead_letters("counter")] == ["refused"]
        assert sim.open_dialogs() == []


def test_an_endpoint_dropped_from_memory_shares_its_groups_lane() -> None:
    """With room for few endpoints, those of one group are still handled one at a time on the same state."""
    settings = WorkerSettings(
        patience=timedelta(0), revocation=timedelta(0), limits=Limits(cached_bytes=4 * ENDPOINT_BYTES)
    )
    with Simulation(services.scatterer(), services.laborer(), settings=settings, partitions=1) as sim:
        dialogs = [sim.peer("web").begin_dialog("scatterer", services.SCATTERING) for _ in range(4)]
        for dialog in dialogs:
            dialog.send(services.Scatter(parts=6))
            sim.run()
        assert [dialog.take(services.Gathered).numbers for dialog in dialogs] == [list(range(6))] * 4
        lanes: dict[tuple[str, str], object] = {}
        (partition,) = sim.worker("scatterer").partitions.values()
        for active in partition.actives.values():
            assert lanes.setdefault(active.lane.name, active.lane) is active.lane
            assert partition.work.lanes.get(active.lane.name) is active.lane
        sim.check_invariants()


def test_an_endpoint_dropped_from_memory_still_acknowledges() -> None:
    """Its deadline brings it back; with room for few endpoints all that were heard are told so."""
    settings = WorkerSettings(
        patience=timedelta(0), revocation=timedelta(0), limits=Limits(cached_bytes=4 * ENDPOINT_BYTES)
    )
    with Simulation(services.sink(), settings=settings, partitions=1) as sim:
        dialogs = [sim.peer("web").begin_dialog("sink", NOTICES) for _ in range(20)]
        for dialog in dialogs:
            dialog.send(Heard(text="x"))
        sim.run()
        sim.advance(timedelta(seconds=10))
        assert {e.prefix.conversation_id for e in records.queued(sim, "web") if e.kind is Kind.ACK} == {
            UUID(dialog.id).bytes for dialog in dialogs
        }


def test_the_partitions_of_a_worker_share_the_room_for_endpoints() -> None:
    settings = WorkerSettings(
        patience=timedelta(0), revocation=timedelta(0), limits=Limits(cached_bytes=40 * ENDPOINT_BYTES)
    )
    with Simulation(services.counter(), settings=settings, partitions=8) as sim:
        for _ in range(200):
            sim.peer("web").begin_dialog("counter", COUNTING).send(Add(amount=1))
        sim.run()
        sim.advance(timedelta(minutes=1))
        sizes = [len(partition.actives) for partition in sim.worker("counter").partitions.values()]
        assert len(sizes) == 8
        assert 8 <= sum(sizes) <= 40


def test_members_of_a_group_share_a_lane_after_one_of_them_is_forgotten() -> None:
    """A tombstone that goes leaves the lane to the endpoints that stay."""
    hub = Service("hub", accepts=[COUNTING], initiates=[NOTICES])

    @hub.on(Add)
    def add(body: Add, dialog: Dialog) -> None:
        other = dialog.group.begin_dialog("sink", NOTICES)
        other.send(Heard(text="x"))
        other.end()

    with Simulation(hub, services.sink(), partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("hub", COUNTING)
        dialog.send(Add(amount=1))
        sim.advance(timedelta(hours=4))
        dialog.send(Add(amount=1))
        sim.run()
        (partition,) = sim.worker("hub").partitions.values()
        for active in partition.actives.values():
            assert partition.work.lanes.get(active.lane.name) is active.lane


# -- commands ----------------------------------------------------------------------------------------------------------


def test_a_begin_repeated_with_the_same_content_has_one_effect() -> None:
    """A client that does not know whether its write arrived writes it again."""
    with Simulation(services.counter()) as sim:
        sim.peer("web")
        conversation = records.drawn(sim)
        asked = (Begin("counter", "Counting"), Send("Add", "application/json", b'{"amount":5}'))
        for _ in range(3):
            records.command(sim, "web", conversation, *asked)
            sim.run()
            sim.crash("web")
        assert [entry.number for entry in sim.broker.ledger.handled if entry.service == "counter"] == [0]
        assert sim.dead_letters("web") == []


def test_a_begin_with_the_same_id_and_another_content_is_refused() -> None:
    """Two different requests under one id are a mistake of the client: the second is dead-lettered."""
    with Simulation(services.counter()) as sim:
        sim.peer("web")
        conversation = records.drawn(sim)
        for amount in (b"5", b"6"):
            asked = (Begin("counter", "Counting"), Send("Add", "application/json", b'{"amount":%b}' % amount))
            records.command(sim, "web", conversation, *asked)
        sim.run()
        (letter,) = sim.dead_letters("web")
        assert letter.reason == "command-refused"
        assert letter.conversation == str(conversation)
        assert len([entry for entry in sim.broker.ledger.handled if entry.service == "counter"]) == 1


def test_a_begin_with_the_id_of_a_dialog_that_a_handler_began_is_refused() -> None:
    """50002: no command began that dialog, so there is nothing to compare the request with."""
    hub = Service("hub", accepts=[COUNTING], initiates=[NOTICES])

    @hub.on(Add)
    def add(body: Add, dialog: Dialog) -> None:
        dialog.group.begin_dialog("sink", NOTICES).send(Heard(text="x"))

    with Simulation(hub, partitions=1) as sim:
        sink = sim.peer("sink", accepts=[NOTICES])
        sim.peer("web").begin_dialog("hub", COUNTING).send(Add(amount=1))
        sim.run()
        records.command(sim, "hub", UUID(sink.dialog().id), Begin("sink", "Notices"))
        sim.run()
        (letter,) = sim.dead_letters("hub")
        assert (letter.reason, letter.code) == ("command-refused", 50002)
        assert sink.dialog().error is None


def test_a_send_to_a_queue_for_which_too_much_waits_already_is_refused() -> None:
    """50008: its bytes are in the dead letter, and what waits arrives."""
    settings = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), limits=Limits(delayed_bytes=10_000))
    with Simulation(settings=settings, partitions=1) as sim:
        sink, web = sim.peer("sink", accepts=[NOTICES]), sim.peer("web")
        dialog = web.begin_dialog("sink", NOTICES)
        dialog.send(Heard(text="0"))
        sim.run()
        queue = sim.broker.topics.pop("conv.sink.queue")
        for number in (1, 2):
            dialog.send(Heard(text=f"{number}" * 12_000))
            sim.run()
        (letter,) = sim.dead_letters("web")
        assert (letter.reason, letter.code) == ("command-refused", 50008)
        assert b"2" * 12_000 in letter.value
        sim.broker.topics["conv.sink.queue"] = queue
        sim.advance(timedelta(minutes=2))
        assert sink.dialog().received() == [Heard(text="0"), Heard(text="1" * 12_000)]


def test_an_idempotency_key_makes_a_block_take_effect_once() -> None:
    """The same block with the same key again does nothing; with another body it is refused."""
    with Simulation(services.counter()) as sim:
        web = sim.peer("web")
        dialog = web.begin_dialog("counter", COUNTING)
        conversation = UUID(dialog.id)
        for amount in (b"5", b"5", b"6"):
            records.command(
                sim, "web", conversation, Send("Add", "application/json", b'{"amount":%b}' % amount), key="k"
            )
        sim.run()
        assert dialog.received() == [Total(total=5)]
        assert [letter.reason for letter in sim.dead_letters("web")] == ["command-refused"]


def test_a_block_repeated_after_the_dialog_has_ended_does_nothing() -> None:
    """It took effect when the dialog was open: there is nothing to refuse."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        block = Send("Add", "application/json", b'{"amount":5}')
        records.command(sim, "web", UUID(dialog.id), block, key="k")
        dialog.end()
        sim.run()
        assert sim.open_dialogs() == []
        letters = sim.dead_letters("web")
        records.command(sim, "web", UUID(dialog.id), block, key="k")
        sim.run()
        assert sim.dead_letters("web") == letters


def test_a_send_on_an_ended_dialog_becomes_a_dead_letter_with_its_code() -> None:
    """What only the owner can refuse arrives as a dead letter with Service Broker's number."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        records.command(sim, "web", UUID(dialog.id), Send("Add", "application/json", b'{"amount":1}'))
        sim.run()
        refused = [letter for letter in sim.dead_letters("web") if letter.reason != "after-end"]
        assert [(letter.reason, letter.code) for letter in refused] == [("command-refused", 8429)]


# -- crashes -----------------------------------------------------------------------------------------------------------


def test_waiting_rows_survive_a_crash() -> None:
    """Messages behind a slow handler are accepted and kept; after the crash they are handled in order, once."""
    with Simulation(services.counter(), faults=SLOW) as sim:
        sim.chance.active = False
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        sim.run()
        for amount in (10, 100):
            dialog.send(Add(amount=amount))
        stall(sim)
        assert len(rows_of(sim, "counter", rows.WAITING)) == 2
        assert dialog.received() == [Total(total=1)]
        sim.crash("counter")
        sim.run()
        assert dialog.received() == [Total(total=n) for n in (1, 11, 111)]
        assert rows_of(sim, "counter", rows.WAITING) == []
        sim.check_invariants()


def test_a_message_left_behind_by_who_closed_its_dialog_and_died_is_a_dead_letter() -> None:
    """It waits behind another dialog of the group while its own is closed; the next owner must not stumble over it."""
    with Simulation(services.counter()) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        dialog.end()
        sim.run()
        (record, *_) = visible(sim.broker, "conv.counter.queue")
        row = WaitingRow(
            record.topic(), record.offset(), record.timestamp()[1], True, 0, record.key() or b"",
            b"", record.value() or b"",
        )  # fmt: skip
        key = rows.WAITING + (1 << 40).to_bytes(8, "big")
        sim.broker.append(Out("conv.counter.state", record.partition(), key, encode_waiting(row)))
        sim.crash("counter")
        sim.run()
        (letter,) = sim.dead_letters("counter")
        assert letter.reason == "after-end"
        assert rows_of(sim, "counter", rows.WAITING) == []


def test_timers_survive_a_crash() -> None:
    """A timer is state: the next owner fires it."""
    with Simulation(services.bell()) as sim:
        dialog = sim.peer("web").begin_dialog("bell", REMINDERS)
        dialog.send(Remind(times=2))
        sim.run()
        for _ in range(2):
            sim.crash("bell")
            sim.advance(timedelta(minutes=1))
        assert dialog.received() == [Ring(count=1), Ring(count=2)]
        assert dialog.ended


def test_deadlines_of_a_dialog_that_lives_long_do_not_pile_up() -> None:
    """One that passes leaves the others where they are: the end of the lifetime is not entered once more with each."""
    with Simulation(services.echo(), partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO, lifetime=timedelta(days=30))
        for _ in range(100):
            dialog.send(Say(text="acknowledged in a while"))
            dialog.set_timer(timedelta(minutes=5))
            dialog.set_timer(timedelta(seconds=20))
            sim.advance(timedelta(seconds=30))
        assert dialog.timers == 100
        for service in ("web", "echo"):
            (partition,) = sim.worker(service).partitions.values()
            assert len(partition.schedule.deadlines) <= 10
        sim.advance(timedelta(days=30))
        assert dialog.error is not None
        assert dialog.error.code == -8489


def test_a_timer_whose_handler_was_interrupted_fires_again() -> None:
    """The row keeps the timer until its handler has finished."""
    with Simulation(services.bell(), faults=SLOW) as sim:
        sim.chance.active = False
        dialog = sim.peer("web").begin_dialog("bell", REMINDERS)
        dialog.send(Remind(times=1))
        sim.run()
        sim.clock.advance(60_000_000)
        stall(sim)
        assert dialog.received() == []
        sim.crash("bell")
        sim.run()
        assert dialog.received() == [Ring(count=1)]


def test_on_error_interrupted_by_a_crash_runs_again() -> None:
    """An error is known from the row: the next owner calls on_error, and then the side ends."""
    codes: list[int] = []
    service = Service("stubborn", accepts=[ECHO], ignores=[Say])

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        codes.append(error.code)
        dialog.group.state["broken"] = True

    with Simulation(service, faults=SLOW) as sim:
        sim.chance.active = False
        dialog = sim.peer("web").begin_dialog("stubborn", ECHO)
        dialog.send(Say(text=""))
        sim.run()
        dialog.end_with_error(4, "no")
        stall(sim)
        assert codes == []
        sim.crash("stubborn")
        sim.run()
        assert codes == [4]
        assert sim.open_dialogs() == []


def test_on_error_of_a_lifetime_interrupted_by_a_crash_runs_again() -> None:
    """The same without a record behind it: only the endpoint's row knows."""
    codes: list[int] = []
    service = Service("stubborn", accepts=[ECHO], ignores=[Say])

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        codes.append(error.code)

    with Simulation(service, faults=SLOW) as sim:
        sim.chance.active = False
        dialog = sim.peer("web").begin_dialog("stubborn", ECHO, lifetime=timedelta(minutes=5))
        dialog.send(Say(text=""))
        sim.run()
        sim.clock.advance(301_000_000)
        stall(sim)
        sim.crash("stubborn")
        sim.run()
        assert codes == [-8489]
        assert sim.open_dialogs() == []


# -- destinations --------------------------------------------------------------------------------------------------------


def test_what_was_sent_to_an_unknown_service_arrives_when_it_appears() -> None:
    """Envelopes wait as rows with a back-off; nothing is lost and the order stays."""
    with Simulation() as sim:
        dialog = sim.peer("web").begin_dialog("nowhere", COUNTING, wait_for_service=True)
        for amount in (1, 2):
            dialog.send(Add(amount=amount))
        sim.advance(timedelta(seconds=30))
        assert len(rows_of(sim, "web", rows.DELAYED)) == 2
        sim.crash("web")
        dialog.send(Add(amount=3))
        sim.run()
        assert len(rows_of(sim, "web", rows.DELAYED)) == 3
        nowhere = sim.peer("nowhere", accepts=[COUNTING])
        sim.advance(timedelta(minutes=2))
        assert nowhere.dialog().received() == [Add(amount=1), Add(amount=2), Add(amount=3)]
        assert rows_of(sim, "web", rows.DELAYED) == []
        sim.check_invariants()


def test_what_was_kept_for_longer_than_a_dialog_may_begin_begins_it_all_the_same() -> None:
    """The time in which its first message counts runs from when that is transmitted, not from when it was said."""
    with Simulation() as sim:
        dialog = sim.peer("web").begin_dialog("nowhere", COUNTING, wait_for_service=True)
        dialog.send(Add(amount=1))
        sim.advance(timedelta(hours=3))
        nowhere = sim.peer("nowhere", accepts=[COUNTING])
        sim.advance(timedelta(minutes=2))
        assert nowhere.dialog().received() == [Add(amount=1)]
        assert dialog.error is None


def test_a_queue_that_refuses_records_delays_its_dialogs_and_no_other() -> None:
    """The step commits without them; they follow in order when the queue is well, before what is said then."""
    with Simulation(services.counter()) as sim:
        sink = sim.peer("sink", accepts=[NOTICES])
        web = sim.peer("web")
        notices, counting = web.begin_dialog("sink", NOTICES), web.begin_dialog("counter", COUNTING)
        notices.send(Heard(text="0"))
        sim.run()
        queue = sim.broker.topics.pop("conv.sink.queue")
        notices.send(Heard(text="1"))
        counting.send(Add(amount=1))
        sim.run()
        assert counting.received() == [Total(total=1)]
        assert len(rows_of(sim, "web", rows.DELAYED)) == 1
        notices.send(Heard(text="2"))
        sim.run()
        sim.crash("web")
        sim.advance(timedelta(seconds=10))
        sim.broker.topics["conv.sink.queue"] = queue
        notices.send(Heard(text="3"))
        sim.advance(timedelta(minutes=2))
        assert sink.dialog().received() == [Heard(text=f"{n}") for n in range(4)]
        assert rows_of(sim, "web", rows.DELAYED) == []
        sim.check_invariants()


def test_an_error_drops_what_waits_for_its_destination_and_an_end_does_not() -> None:
    """END WITH ERROR: the peer hears the error alone. END: it hears everything, and the END last."""
    with Simulation() as sim:
        sink, web = sim.peer("sink", accepts=[NOTICES]), sim.peer("web")
        failing, ending = web.begin_dialog("sink", NOTICES), web.begin_dialog("sink", NOTICES)
        for dialog in (failing, ending):
            dialog.send(Heard(text="0"))
        sim.run()
        queue = sim.broker.topics.pop("conv.sink.queue")
        for dialog in (failing, ending):
            dialog.send(Heard(text="1"))
        sim.run()
        failing.end_with_error(7, "enough")
        ending.end()
        sim.run()
        assert len(rows_of(sim, "web", rows.DELAYED)) == 3
        sim.broker.topics["conv.sink.queue"] = queue
        sim.advance(timedelta(minutes=2))
        heard = {dialog.id: dialog for dialog in sink.dialogs()}
        assert heard[failing.id].received() == [Heard(text="0")]
        error = heard[failing.id].error
        assert error is not None
        assert error.code == 7
        assert heard[ending.id].received() == [Heard(text="0"), Heard(text="1")]
        assert heard[ending.id].error is None
        assert sim.open_dialogs() == []


def test_what_waits_for_a_peer_that_ends_meanwhile_is_a_dead_letter_of_its_sender() -> None:
    """Nothing that was said disappears without a trace."""
    with Simulation() as sim:
        sink, web = sim.peer("sink", accepts=[NOTICES]), sim.peer("web")
        notices = web.begin_dialog("sink", NOTICES)
        notices.send(Heard(text="0"))
        sim.run()
        queue = sim.broker.topics.pop("conv.sink.queue")
        notices.send(Heard(text="1"))
        sim.run()
        sim.broker.topics["conv.sink.queue"] = queue
        sink.dialog().end()
        sim.run()
        sim.advance(timedelta(minutes=2))
        assert notices.ended
        assert sim.dead_letters("sink") == []
        assert [(letter.sequence, letter.reason) for letter in sim.dead_letters("web")] == [(1, "undeliverable")]
        assert rows_of(sim, "web", rows.DELAYED) == []
        assert sim.open_dialogs() == []


def test_a_dialog_with_a_service_that_never_appears_ends_with_its_lifetime() -> None:
    """No endpoint stays open for ever, whoever the other side is."""
    with Simulation() as sim:
        dialog = sim.peer("web").begin_dialog("nowhere", COUNTING, wait_for_service=True)
        dialog.send(Add(amount=1))
        sim.advance(timedelta(days=1, minutes=1))
        assert dialog.error
        assert dialog.error.code == -8489
        assert sim.open_dialogs() == []


def test_an_unrelated_dialog_may_live_in_another_partition() -> None:
    """Beginning it is a command in the same transaction; its owner transmits what was said."""
    hub = Service("hub", accepts=[COUNTING], initiates=[NOTICES])

    @hub.on(Add)
    def add(body: Add, dialog: Dialog) -> None:
        other = dialog.group.begin_dialog("sink", NOTICES, related=False)
        other.send(Heard(text=f"{body.amount}"))
        other.send(Heard(text="and more"))
        other.end()

    with Simulation(hub, partitions=4) as sim:
        sink = sim.peer("sink", accepts=[NOTICES])
        dialog = sim.peer("web").begin_dialog("hub", COUNTING)
        for amount in range(8):
            dialog.send(Add(amount=amount))
        sim.run()
        assert sorted(str(d.received()[0]) for d in sink.dialogs()) == [f"text='{n}'" for n in range(8)]
        homes = {partition_of(d.id.encode(), 4) for d in sink.dialogs()}
        assert homes - {partition_of(dialog.id.encode(), 4)}
        sim.check_invariants()
        dialog.end()
        sim.run()
        assert sim.open_dialogs() == []


def test_a_large_fan_out_is_gathered() -> None:
    """Two hundred dialogs of one group, answered side by side, joined under its lock."""
    with Simulation(services.scatterer(), services.laborer()) as sim:
        dialog = sim.peer("web").begin_dialog("scatterer", services.SCATTERING)
        dialog.send(services.Scatter(parts=200))
        sim.run()
        assert dialog.take(services.Gathered).numbers == list(range(200))
        assert sim.open_dialogs() == []
        sim.check_invariants()
