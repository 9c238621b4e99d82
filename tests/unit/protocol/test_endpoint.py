"""Laws of the endpoint that its owner relies on; the properties hold whole conversations to the rest."""

from dataclasses import replace

import pytest

from conversations.errors import DialogEnded
from conversations.protocol.acknowledgements import ACK_AFTER, ACK_EVERY, FIRST_ACK_AFTER, RESEND_AFTER
from conversations.protocol.codes import NOT_CONVERSING
from conversations.protocol.effects import Due, Reaction, Transmit
from conversations.protocol.endpoint import NEVER, SECOND, Endpoint, prefix_of
from conversations.protocol.envelope import Envelope, Extras, FenceOutcome, Kind
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State

HOUR = 3_600 * SECOND


def make(*, initiator: bool = True, state: State | None = None) -> Endpoint:
    endpoint = Endpoint(
        bytes(16), initiator, contract="C", service="a", peer="b", key="k", peer_key="pk", expires_at=HOUR
    )
    if state is not None:
        endpoint.state = state
    return endpoint


def envelope(kind: Kind, seq: int = NONE, ack: int = NONE, code: int = 0) -> Envelope:
    return Envelope(prefix_of(make(initiator=False)), kind, seq, ack, code=code, description="d")


def conversing(sent: int = 1) -> Endpoint:
    endpoint = make()
    for _ in range(sent):
        endpoint.send()
    return endpoint


def test_numbers_begin_at_zero() -> None:
    """The first message of a direction is number 0, and makes the dialog a conversation."""
    endpoint = make()
    assert [endpoint.send(), endpoint.send()] == [0, 1]
    assert endpoint.state is State.CONVERSING


def test_an_end_takes_the_next_number() -> None:
    """END is sequenced: it arrives after everything that was sent before."""
    endpoint = conversing(3)
    assert endpoint.end() == Transmit(Kind.END, 3)
    assert endpoint.state is State.DISCONNECTED_OUTBOUND


@pytest.mark.parametrize("state", [State.STARTED_OUTBOUND, State.DISCONNECTED_INBOUND, State.ERROR])
def test_an_end_that_nobody_waits_for_sends_nothing(state: State) -> None:
    """The peer never heard of the dialog, or ended it itself."""
    endpoint = make(state=state)
    assert endpoint.end() is None
    assert endpoint.state is State.CLOSED


@pytest.mark.parametrize("state", [State.STARTED_OUTBOUND, State.DISCONNECTED_INBOUND, State.ERROR])
def test_an_error_that_nobody_waits_for_sends_nothing(state: State) -> None:
    """END WITH ERROR is then an END."""
    endpoint = make(state=state)
    assert endpoint.end_with_error(5, "no") is None
    assert endpoint.state is State.CLOSED


def test_an_error_of_the_application_takes_the_next_number() -> None:
    """It is sequenced, as an END is; an error of the system is not."""
    endpoint = conversing(3)
    assert endpoint.end_with_error(5, "no") == Transmit(Kind.ERROR, 3, 5, "no")
    assert endpoint.state is State.DISCONNECTED_OUTBOUND


def test_after_the_peers_end_this_side_may_set_a_timer_and_end_but_not_send() -> None:
    """8429; the END of this side is told to nobody."""
    endpoint = conversing()
    assert endpoint.receive(envelope(Kind.END, 0), 0, 10) is Reaction.END
    states = [endpoint.state]
    with pytest.raises(DialogEnded) as refused:
        endpoint.send()
    assert refused.value.code == 8429
    endpoint.set_timer(5)
    assert endpoint.end() is None
    states.append(endpoint.state)
    assert states == [State.DISCONNECTED_INBOUND, State.CLOSED]


def test_an_error_before_the_peers_first_message_is_told_without_a_number() -> None:
    """The peer has sent something that is on its way: it must hear that nobody will take it."""
    endpoint = make(initiator=False)
    assert endpoint.end_with_error(5, "no") == Transmit(Kind.ERROR, NONE, 5, "no")
    assert endpoint.state is State.CLOSED


def test_ending_cancels_the_timer() -> None:
    """No handler runs on a dialog that ended here."""
    endpoint = conversing()
    endpoint.set_timer(5)
    endpoint.end()
    assert endpoint.timer == NEVER


def test_our_end_is_over_when_the_peer_has_it() -> None:
    """An acknowledgement of everything closes; one of less does not."""
    endpoint = conversing(2)
    endpoint.end()
    states = []
    for number in (1, 2):
        endpoint.receive(envelope(Kind.ACK, ack=number), 0, 10)
        states.append(endpoint.state)
    assert states == [State.DISCONNECTED_OUTBOUND, State.CLOSED]


@pytest.mark.parametrize("number", [2, 99])
def test_an_acknowledgement_of_what_was_never_sent_is_not_believed(number: int) -> None:
    """A peer cannot close a dialog by inventing numbers."""
    endpoint = conversing()
    endpoint.end()
    endpoint.receive(envelope(Kind.ACK, ack=number), 0, 10)
    assert endpoint.state is State.DISCONNECTED_OUTBOUND
    assert endpoint.acked == NONE


def test_messages_that_cross_our_end_are_discarded_and_counted() -> None:
    """Nothing reaches a handler of a side that ended; nothing is forgotten either."""
    endpoint = conversing()
    endpoint.end()
    assert endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10) is Reaction.DISCARD
    assert endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10) is Reaction.DUPLICATE
    assert endpoint.discarded == 1
    assert endpoint.owes_ack(0)


def test_an_error_that_meets_our_end_is_told_to_the_application() -> None:
    """Service Broker drops it. Then a side that said END hears nothing of messages that the peer has not accepted (fire and forget)."""
    endpoint = conversing()
    endpoint.end()
    assert endpoint.receive(envelope(Kind.ERROR, 0, code=3), 0, 10) is Reaction.ERROR
    assert endpoint.error is not None
    before = endpoint.state
    endpoint.end()
    assert (before, endpoint.state) == (State.ERROR, State.CLOSED)


def test_an_error_jumps_over_a_gap() -> None:
    """It breaks the dialog at once, and what it passed over is discarded when it comes."""
    endpoint = conversing()
    assert endpoint.receive(envelope(Kind.ERROR, 2, code=3), 0, 10) is Reaction.ERROR
    assert endpoint.error is not None
    assert endpoint.error.code == 3
    assert endpoint.acknowledge() == 2
    assert endpoint.receive(envelope(Kind.MESSAGE, 1), 0, 10) is Reaction.DISCARD
    assert endpoint.receive(envelope(Kind.MESSAGE, 1), 0, 10) is Reaction.DUPLICATE
    assert endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10) is Reaction.DISCARD


def test_only_the_first_error_is_told_to_the_application() -> None:
    """A second one changes nothing."""
    endpoint = conversing()
    endpoint.receive(envelope(Kind.ERROR, code=3), 0, 10)
    assert endpoint.receive(envelope(Kind.ERROR, code=4), 0, 10) is Reaction.DISCARD
    assert endpoint.error is not None
    assert endpoint.error.code == 3


@pytest.mark.parametrize("state", [State.CONVERSING, State.STARTED_INBOUND, State.DISCONNECTED_INBOUND])
def test_what_breaks_here_is_told_to_a_peer_that_may_still_wait(state: State) -> None:
    """An unsequenced ERROR with the broker's code."""
    said = make(state=state).fail(NOT_CONVERSING)
    assert said is not None
    assert (said.kind, said.seq, said.code) == (Kind.ERROR, NONE, -8462)


def test_a_gap_gets_a_second_then_questions_with_doubled_pauses_then_gives_up() -> None:
    """After 1 s, then 2, 4 and 8 s later."""
    endpoint = conversing()
    assert endpoint.receive(envelope(Kind.MESSAGE, 1), 0, 10) is Reaction.HOLD
    heard, now = [], 0
    for _ in range(4):
        now = endpoint.next_deadline()
        heard.append((now // SECOND, endpoint.due(now)))
    assert RESEND_AFTER == SECOND
    assert heard == [(1, [Due.RESEND]), (3, [Due.RESEND]), (7, [Due.RESEND]), (15, [Due.GAP])]


def test_a_question_that_is_older_than_an_acknowledgement_is_not_answered() -> None:
    """Its answer has arrived, and what it asks for is not kept any more."""
    endpoint = conversing(5)
    assert endpoint.receive(envelope(Kind.RESEND, ack=1), 0, 10) is Reaction.RESEND
    endpoint.receive(envelope(Kind.ACK, ack=3), 0, 10)
    assert endpoint.receive(envelope(Kind.RESEND, ack=1), 0, 10) is Reaction.NOTHING
    assert endpoint.receive(envelope(Kind.RESEND, ack=3), 0, 10) is Reaction.RESEND


def test_between_clusters_a_gap_is_asked_for_until_the_lifetime_ends() -> None:
    """With pauses that double up to 64 s."""
    endpoint = conversing()
    endpoint.cross()
    endpoint.receive(envelope(Kind.MESSAGE, 1), 0, 10)
    heard, now = [], 0
    for _ in range(9):
        now = endpoint.next_deadline()
        assert endpoint.due(now) == [Due.RESEND]
        heard.append(now // SECOND)
    assert heard == [1, 3, 7, 15, 31, 63, 127, 191, 255]


@pytest.mark.parametrize(("again_at", "first"), [(30 * SECOND, 30), (0, 14), (NEVER, 14)])
def test_a_restored_side_does_not_transmit_again_before_its_time(again_at: int, first: int) -> None:
    """A worker restores many sides at once. A side that does not know its time waits 4 s, as after its first transmission."""
    endpoint = conversing(2)
    endpoint.cross(again_at)
    now = 10 * SECOND
    heard: list[int] = []
    while len(heard) < 2:
        heard += [now // SECOND for it in endpoint.due(now) if it is Due.RETRANSMIT]
        now = max(now, endpoint.next_deadline())
    assert heard == [first, first + 8]


def test_a_closed_gap_is_not_asked_for() -> None:
    """The question is forgotten as soon as nothing is missing."""
    endpoint = conversing()
    endpoint.receive(envelope(Kind.MESSAGE, 1), 0, 10)
    endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10)
    endpoint.receive(envelope(Kind.MESSAGE, 1), 0, 10)
    assert endpoint.next_deadline() == HOUR


def test_acknowledgements_wait_for_company() -> None:
    """A dedicated ACK goes after 128 messages, or 5 s; the first message's sooner."""
    endpoint = make(initiator=False)
    endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10)
    assert not endpoint.owes_ack(0)
    assert endpoint.next_deadline() == FIRST_ACK_AFTER
    assert endpoint.acknowledge() == 0
    for number in range(1, ACK_EVERY):
        endpoint.receive(envelope(Kind.MESSAGE, number), 0, 10)
        assert not endpoint.owes_ack(0)
    assert endpoint.next_deadline() == ACK_AFTER
    endpoint.receive(envelope(Kind.MESSAGE, ACK_EVERY), 0, 10)
    assert endpoint.owes_ack(0)


def test_a_duplicate_is_acknowledged_again() -> None:
    """Its sender may not have seen the first acknowledgement."""
    endpoint = make(initiator=False)
    endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10)
    endpoint.acknowledge()
    assert endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10) is Reaction.DUPLICATE
    endpoint.owes_ack(0)
    assert endpoint.ack_at < NEVER


def after_this_sides_end(kind: Kind) -> tuple[Reaction, int]:
    """Give an envelope with the next number, which its sender keeps, to a target that has ended; return the reaction and what is accepted then."""
    endpoint = make(initiator=False)
    endpoint.receive(envelope(Kind.MESSAGE, 0), 0, 10)
    endpoint.end()
    kept = Envelope(replace(prefix_of(make()), resends=True), kind, 1, NONE)
    return endpoint.receive(kept, 0, 10), endpoint.inbound.accepted


def test_the_kept_end_of_the_peer_is_accepted_after_this_sides_end() -> None:
    """A target that ended first counts the initiator's END, though the initiator keeps its messages: nothing is open after it."""
    assert after_this_sides_end(Kind.END) == (Reaction.DISCARD, 1)


def test_a_kept_message_after_this_sides_end_is_left_to_its_sender() -> None:
    """Its number is not accepted, so the initiator's row stays and becomes the initiator's letter."""
    assert after_this_sides_end(Kind.MESSAGE) == (Reaction.DROP, 0)


def test_too_many_held_messages_overflow() -> None:
    """At the limit the dialog ends instead of growing."""
    endpoint = conversing()
    reactions = [endpoint.receive(envelope(Kind.MESSAGE, number), 0, 2) for number in (1, 2, 3)]
    assert reactions == [Reaction.HOLD, Reaction.HOLD, Reaction.OVERFLOW]


def test_a_timer_cannot_be_set_on_a_dialog_that_ended_here() -> None:
    """8458."""
    endpoint = conversing()
    endpoint.end()
    with pytest.raises(DialogEnded) as refused:
        endpoint.set_timer(1)
    assert refused.value.code == 8458


def test_a_lifetime_breaks_a_conversation_with_8489() -> None:
    """Each side for itself, without a word on the wire."""
    endpoint = conversing()
    assert endpoint.next_deadline() == HOUR
    assert endpoint.due(HOUR - 1) == []
    assert endpoint.due(HOUR) == [Due.LIFETIME]
    assert endpoint.error is not None
    assert endpoint.error.code == -8489


def test_the_end_of_a_lifetime_is_only_brought_forward() -> None:
    """-1 is unlimited."""
    endpoint = conversing()
    assert [endpoint.expire_earlier(at) for at in (-1, HOUR + 1, HOUR)] == [False] * 3
    assert endpoint.next_deadline() == HOUR
    assert endpoint.expire_earlier(HOUR - 1)
    assert endpoint.next_deadline() == HOUR - 1


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (State.STARTED_OUTBOUND, State.ERROR),
        (State.CONVERSING, State.ERROR),
        (State.DISCONNECTED_INBOUND, State.ERROR),
        (State.STARTED_INBOUND, State.CLOSED),
        (State.DISCONNECTED_OUTBOUND, State.ERROR),
    ],
)
def test_the_end_of_a_lifetime_is_told_to_the_application(state: State, after: State) -> None:
    """Before the first message, no application knows of the dialog. After its END, its last messages may not have been accepted."""
    endpoint = make(state=state)
    assert endpoint.due(HOUR) == [Due.LIFETIME]
    assert endpoint.state is after
    assert (endpoint.error is not None) == (after is State.ERROR)


def test_a_copy_of_what_is_held_stays_one_when_the_dialog_has_broken() -> None:
    """What is held is kept once this side ends; keeping its copy as well would be twice."""
    endpoint = conversing()
    assert endpoint.receive(envelope(Kind.MESSAGE, 3), 0, 10) is Reaction.HOLD
    endpoint.fail(NOT_CONVERSING)
    assert endpoint.state is State.ERROR
    assert endpoint.receive(envelope(Kind.MESSAGE, 3), 0, 10) is Reaction.DUPLICATE
    assert endpoint.receive(envelope(Kind.MESSAGE, 4), 0, 10) is Reaction.DISCARD


def kept(of: Envelope) -> Envelope:
    """Return an envelope whose sender keeps it."""
    return replace(of, prefix=replace(of.prefix, resends=True))


def over_behind_a_gap() -> Endpoint:
    """Return an endpoint that accepted 0 and 1, is over, left 2 and 3 to its peer, and accepted 4, which nobody keeps."""
    endpoint = conversing()
    for number in (0, 1):
        endpoint.receive(kept(envelope(Kind.MESSAGE, number)), 0, 10)
    endpoint.fail(NOT_CONVERSING)
    assert [endpoint.receive(kept(envelope(Kind.MESSAGE, number)), 0, 10) for number in (2, 3)] == [Reaction.DROP] * 2
    assert endpoint.receive(envelope(Kind.MESSAGE, 4), 0, 10) is Reaction.DISCARD
    return endpoint


def test_what_is_accepted_behind_a_gap_does_not_acknowledge_what_is_left_to_the_peer() -> None:
    endpoint = over_behind_a_gap()
    assert endpoint.acknowledge() == 1
    assert endpoint.outcome().accepted == 1
    assert not endpoint.owes_ack(0)
    assert endpoint.receive(envelope(Kind.MESSAGE, 4), 0, 10) is Reaction.DUPLICATE
    assert endpoint.told <= 0, "the acknowledgement is due again, and says no more than before"
    assert endpoint.acknowledge() == 1


def test_what_is_left_to_the_peer_stays_with_it_when_it_comes_again() -> None:
    endpoint = over_behind_a_gap()
    assert endpoint.receive(kept(envelope(Kind.MESSAGE, 2)), 0, 10) is Reaction.DROP
    assert endpoint.receive(kept(envelope(Kind.END, 5)), 0, 10) is Reaction.DISCARD
    assert endpoint.acknowledge() == 1


def test_an_error_of_a_peer_that_still_keeps_messages_is_not_acknowledged() -> None:
    endpoint = over_behind_a_gap()
    endpoint.receive(kept(envelope(Kind.ERROR, 5, code=9)), 0, 10)
    assert (endpoint.acknowledge(), endpoint.inbound.accepted) == (1, 4)


def test_an_error_of_the_peers_application_takes_over_everything_before_it() -> None:
    endpoint = conversing()
    endpoint.receive(kept(envelope(Kind.MESSAGE, 0)), 0, 10)
    assert endpoint.receive(kept(envelope(Kind.ERROR, 3, code=9)), 0, 10) is Reaction.ERROR
    assert (endpoint.acknowledge(), endpoint.outcome().accepted) == (3, 3)
    assert endpoint.receive(kept(envelope(Kind.MESSAGE, 2)), 0, 10) is Reaction.DISCARD, "the peer forgets it"
    assert endpoint.acknowledge() == 3


def test_replies_behind_a_gap_are_not_complete() -> None:
    """A side that asks its peer begins no new dialog if replies are missing, also if later ones have arrived."""
    endpoint = conversing(3)
    endpoint.keep_sent(True)
    endpoint.renew_when_broken(True)
    endpoint.end()
    endpoint.fail(NOT_CONVERSING)
    assert endpoint.state is State.FENCING_OUTBOUND
    endpoint.receive(envelope(Kind.MESSAGE, 2), 0, 10)
    fenced = replace(envelope(Kind.FENCED), extras=Extras(fence=FenceOutcome(0, 2, State.CLOSED.name, False)))
    assert endpoint.receive(fenced, 0, 10) is Reaction.ANSWERED
    assert not endpoint.renews
