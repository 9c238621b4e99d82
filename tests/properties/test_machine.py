"""Laws of the endpoint, over every (state, trigger) and over pairs of endpoints on a bad wire."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.errors import DialogEnded
from conversations.protocol.acknowledgements import RESEND_ASKS
from conversations.protocol.effects import Due, Reaction, Transmit
from conversations.protocol.endpoint import NEVER, SECOND, Endpoint, prefix_of
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.rows import decode_endpoint, encode_constant, encode_endpoint, identity, wake_of
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import ASKING, DECIDED, LOCAL, REFUSALS, TRANSITIONS, State, Trigger

BAD_WIRE = settings(max_examples=300, deadline=None)
HELD_LIMIT = 50
LIFETIME = 3_600 * SECOND
VERBS = {
    Trigger.SEND: lambda endpoint: endpoint.send(),
    Trigger.END: lambda endpoint: endpoint.end(),
    Trigger.END_WITH_ERROR: lambda endpoint: endpoint.end_with_error(1, "no"),
    Trigger.CLEANUP: lambda endpoint: endpoint.cleanup(),
}


def endpoint_of(initiator: bool = True, expires_at: int = LIFETIME) -> Endpoint:
    own, other = ("web", "shop") if initiator else ("shop", "web")
    return Endpoint(
        bytes(16), initiator, contract="C", service=own, peer=other, key="k", peer_key="k", expires_at=expires_at
    )


def in_state(state: State) -> Endpoint:
    endpoint = endpoint_of()
    endpoint.state = state
    return endpoint


def facts(endpoint: Endpoint) -> bytes:
    return encode_endpoint(endpoint, encode_constant(endpoint))


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_state_and_trigger_is_either_a_transition_or_a_refusal() -> None:
    """The tables are total and disjoint, and only local triggers are refused."""
    everything = {(state, trigger) for state in State for trigger in Trigger if trigger not in DECIDED}
    assert {pair for pair in TRANSITIONS.keys() | REFUSALS.keys() if pair[1] not in DECIDED} == everything
    assert not TRANSITIONS.keys() & REFUSALS.keys()
    assert {trigger for _, trigger in REFUSALS} <= LOCAL


@pytest.mark.parametrize(("state", "trigger"), REFUSALS, ids=lambda value: value.name)
def test_a_refused_verb_raises_its_code_and_changes_nothing(state: State, trigger: Trigger) -> None:
    """An illegal local trigger raises Service Broker's number; not a bit of the endpoint is another."""
    endpoint = in_state(state)
    before = facts(endpoint)
    with pytest.raises(DialogEnded) as refused:
        VERBS[trigger](endpoint)
    assert refused.value.code == REFUSALS[state, trigger].number
    assert facts(endpoint) == before
    assert endpoint.next_deadline() == in_state(state).next_deadline()


@pytest.mark.parametrize(("state", "trigger"), [pair for pair in TRANSITIONS if pair[1] in LOCAL], ids=lambda v: v.name)
def test_an_allowed_verb_moves_along_the_table(state: State, trigger: Trigger) -> None:
    """What the application may do leads where the table says."""
    endpoint = in_state(state)
    VERBS[trigger](endpoint)
    assert endpoint.state is TRANSITIONS[state, trigger]


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED], ids=lambda state: state.name)
def test_no_state_outlives_its_lifetime(state: State) -> None:
    """After the lifetime an endpoint is broken or closed; broken ones end with their on_error."""
    endpoint = in_state(state)
    endpoint.due(LIFETIME)
    if endpoint.state in ASKING:  # the owner asks its peer for a while, whatever the lifetime is
        endpoint.unanswered()
        endpoint.give_up_renewal()
    assert endpoint.state in {State.ERROR, State.CLOSED}
    if endpoint.state is State.ERROR:
        endpoint.end()
    assert endpoint.state is State.CLOSED
    assert endpoint.next_deadline() == NEVER


def test_the_end_closes_for_ever() -> None:
    """Nothing leads out of CLOSED."""
    assert {target for (state, _), target in TRANSITIONS.items() if state is State.CLOSED} == {State.CLOSED}


# -- a pair of endpoints on a bad wire ------------------------------------------------------------------------------------


@dataclass
class Party:
    """An endpoint and what its owner does around it: holding, delivering, transmitting."""

    endpoint: Endpoint
    sent: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    held: dict[int, Envelope] = field(default_factory=dict)
    ended: int = 0
    broken: int = 0
    wire: list[Envelope] = field(default_factory=list)
    """What this side transmitted and nobody has received."""

    def transmit(self, kind: Kind, seq: int, code: int = 0) -> None:
        endpoint = self.endpoint
        ack = endpoint.inbound.accepted if kind is Kind.RESEND else endpoint.acknowledge()
        self.wire.append(Envelope(prefix_of(endpoint), kind, seq, ack, code=code, description="x" if code else ""))

    def say(self, said: Transmit | None) -> None:
        if said is not None:
            self.transmit(said.kind, said.seq, said.code)

    def act(self, verb: str) -> None:
        endpoint = self.endpoint
        try:
            if verb == "send":
                number = endpoint.send()
                self.sent.append(number)
                self.transmit(Kind.MESSAGE, number)
            elif verb == "end":
                self.say(endpoint.end())
            else:
                self.say(endpoint.end_with_error(7, "no"))
        except DialogEnded:
            pass

    def receive(self, envelope: Envelope, now: int) -> None:
        endpoint = self.endpoint
        reaction = endpoint.receive(envelope, now, HELD_LIMIT)
        if reaction is Reaction.DELIVER:
            self.delivered.append(envelope.seq)
        elif reaction is Reaction.HOLD:
            assert envelope.seq not in self.held
            self.held[envelope.seq] = envelope
        elif reaction is Reaction.END:
            self.ended += 1
            self.say(endpoint.end())
        elif reaction is Reaction.ERROR:
            self.broken += 1
            self.say(endpoint.end())
        ready = endpoint.inbound.ready()
        if ready is not None and ready in self.held:
            self.receive(self.held.pop(ready), now)

    def settle(self, now: int) -> None:
        """What a step does at its end: acknowledge what is owed."""
        if self.endpoint.owes_ack(now):
            self.transmit(Kind.ACK, NONE)

    def wake(self, now: int) -> None:
        endpoint = self.endpoint
        before = endpoint.next_deadline()
        due = endpoint.due(now)
        assert before <= now or not due, "something was due before its deadline"
        assert endpoint.next_deadline() > now, "what was due is still due"
        for reason in due:
            if reason is Due.ACK and endpoint.inbound.accepted > endpoint.told:
                self.transmit(Kind.ACK, NONE)
            elif reason is Due.RESEND:
                self.transmit(Kind.RESEND, NONE)
            elif reason is Due.LIFETIME and endpoint.state is State.ERROR:
                self.broken += 1
                self.say(endpoint.end())
            assert reason is not Due.GAP or endpoint.asked == RESEND_ASKS


steps = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(
            ["send"] * 4 + ["end", "error", "receive", "receive", "receive", "copy", "settle", "wait", "restart"]
        ),
        st.integers(0, 7),
    ),
    max_size=60,
)


def pair() -> tuple[Party, Party]:
    return Party(endpoint_of(True)), Party(endpoint_of(False))


def play(parties: tuple[Party, Party], script: list[tuple[bool, str, int]]) -> int:
    """Follow a script on a wire that re-orders and duplicates; return the time."""
    now = 0
    for left, verb, index in script:
        own, other = parties if left else parties[::-1]
        if verb in {"send", "end", "error"}:
            own.act(verb)
        elif verb == "settle":
            own.settle(now)
        elif verb == "wait":
            now += SECOND // 10
        elif verb == "restart":
            own.endpoint = restarted(own)
        elif other.wire:
            envelope = other.wire[index % len(other.wire)]
            if verb == "receive":
                other.wire.remove(envelope)
            own.receive(envelope, now)
        check(parties)
    return now


def restarted(party: Party) -> Endpoint:
    """The endpoint as the next owner reads it from its row."""
    endpoint = party.endpoint
    row = facts(endpoint)
    again, _ = decode_endpoint(bytes(16) + bytes([endpoint.initiator]), row, endpoint.service)
    if 0 < wake_of(row) < NEVER:
        again.wait_until(wake_of(row))
    again.inbound.held = set(party.held)
    return again


def check(parties: tuple[Party, Party]) -> None:
    for own, other in (parties, parties[::-1]):
        assert own.delivered == other.sent[: len(own.delivered)], "not the prefix that was sent"
        assert own.endpoint.acked < own.endpoint.next_out
        assert own.endpoint.acked <= other.endpoint.inbound.accepted, "acknowledged what was not accepted"
        assert len(own.endpoint.inbound.held) <= HELD_LIMIT
        assert own.ended <= 1
        assert own.broken <= 1


def drain(parties: tuple[Party, Party], now: int) -> None:
    """Let everything arrive, in the order it was sent in."""
    for _ in range(200):
        for own, other in (parties, parties[::-1]):
            arriving, other.wire = other.wire, []
            for envelope in arriving:
                own.receive(envelope, now)
            own.settle(now)
        if not parties[0].wire and not parties[1].wire:
            return
    raise AssertionError("the two keep talking for ever")


@BAD_WIRE
@given(steps)
def test_what_is_delivered_is_the_prefix_of_what_was_sent(script: list[tuple[bool, str, int]]) -> None:
    """In order, once, without holes, at every moment, and acknowledgements never run ahead of acceptance."""
    parties = pair()
    now = play(parties, script)
    drain(parties, now)
    check(parties)


@BAD_WIRE
@given(steps.map(lambda script: [step for step in script if step[1] not in {"end", "error"}]))
def test_everything_sent_is_delivered_once_the_wire_is_quiet(script: list[tuple[bool, str, int]]) -> None:
    """While nobody ends the dialog, a wire that loses nothing loses nothing."""
    parties = pair()
    parties[0].act("send")
    now = play(parties, script)
    drain(parties, now)
    assert parties[0].delivered == parties[1].sent
    assert parties[1].delivered == parties[0].sent
    assert not parties[0].held
    assert not parties[1].held


@BAD_WIRE
@given(steps, st.sampled_from([("end", "end"), ("end", ""), ("", "end"), ("error", ""), ("end", "error")]))
def test_an_end_closes_both_sides(script: list[tuple[bool, str, int]], ends: tuple[str, str]) -> None:
    """Whoever ends, and whatever crosses on the wire, both sides are closed when it is quiet."""
    parties = pair()
    parties[0].act("send")
    now = play(parties, script)
    drain(parties, now)
    for party, verb in zip(parties, ends, strict=True):
        if verb:
            party.act(verb)
    drain(parties, now)
    assert [party.endpoint.state for party in parties] == [State.CLOSED, State.CLOSED]


@BAD_WIRE
@given(steps, st.lists(st.integers(0, 59), max_size=20))
def test_no_endpoint_stays_open_once_its_lifetime_is_over(script: list[tuple[bool, str, int]], lost: list[int]) -> None:
    """Even on a wire that loses everything, time alone closes both sides."""
    parties = pair()
    now = play(parties, [step for index, step in enumerate(script) if index not in lost])
    for party in parties:
        party.wire.clear()
        for _ in range(100):
            deadline = party.endpoint.next_deadline()
            if deadline == NEVER:
                break
            now = max(now, deadline)
            party.wake(now)
        assert party.endpoint.state is State.CLOSED


@BAD_WIRE
@given(steps)
def test_a_row_says_everything_about_an_endpoint(script: list[tuple[bool, str, int]]) -> None:
    """An endpoint read back from its row writes the same row again."""
    parties = pair()
    play(parties, script)
    for party in parties:
        assert facts(restarted(party)) == facts(party.endpoint)


@given(st.integers(0, 10 * SECOND))
def test_a_timer_is_due_once_and_again_only_when_set_anew(after: int) -> None:
    """A timer that fired stays in the row until its handler has finished, and does not fire twice meanwhile."""
    endpoint = in_state(State.CONVERSING)
    endpoint.set_timer(after)
    assert endpoint.next_deadline() == after
    assert endpoint.due(after) == [Due.TIMER]
    assert endpoint.fire(after) == [""]
    assert endpoint.due(after) == []
    assert endpoint.fire(after) == []
    assert endpoint.timer == after
    endpoint.fired()
    assert endpoint.timer == NEVER
    assert endpoint.due(20 * SECOND) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "cancel", "fire", "finish", "restart"]),
            st.sampled_from(["", "a", "b", "c"]),
            st.integers(1, 9),
        )
    )
)
def test_each_timer_is_due_by_its_name_alone(script: list[tuple[str, str, int]]) -> None:
    """A table of times and a set of running handlers say the same as the endpoint, also after it is read back from its row."""
    endpoint, now = in_state(State.CONVERSING), 0
    times: dict[str, int] = {}
    running: set[str] = set()
    for what, name, after in script:
        if what == "set":
            endpoint.set_timer(now + after, name)
            times[name] = now + after
            running.discard(name)
        elif what == "cancel":
            endpoint.set_timer(NEVER, name)
            times.pop(name, None)
            running.discard(name)
        elif what == "fire":
            now += after
            due = sorted((at, it) for it, at in times.items() if at <= now and it not in running)
            assert endpoint.due(now) == [Due.TIMER] * bool(due)
            assert endpoint.fire(now) == [it for _, it in due]
            running |= {it for _, it in due}
        elif what == "finish":
            endpoint.fired(name)
            if name in running:
                times.pop(name)
                running.discard(name)
        else:
            row = encode_endpoint(endpoint, encode_constant(endpoint))
            assert wake_of(row) == min([endpoint.expires_at, *times.values()])
            own = identity(endpoint.conversation, endpoint.initiator)
            endpoint, _ = decode_endpoint(own, row, endpoint.service)
            endpoint.resume(set(), firing=running, told_of_error=False)
        assert endpoint.timers() == times
        assert {it for it in times if endpoint.is_firing(it)} == running
        assert endpoint.next_timer() == min((at for it, at in times.items() if it not in running), default=NEVER)
        assert (endpoint.named is None) == (times.keys() <= {""})
