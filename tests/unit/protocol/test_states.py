"""Laws of the transition table that a reader of Service Broker's documentation would expect."""

import pytest

from conversations.errors import DialogEnded
from conversations.protocol.states import (
    ASKING,
    DECIDED,
    LOCAL,
    OPEN_STATES,
    REFUSALS,
    TIMER_STATES,
    TRANSITIONS,
    State,
    Trigger,
    check_timer,
    refuse,
)


def test_the_tables_cover_every_pair_once() -> None:
    """Whatever happens in whatever state, exactly one table says what follows."""
    pairs = [(state, trigger) for state in State for trigger in Trigger if trigger not in DECIDED]
    assert [pair for pair in pairs if (pair in TRANSITIONS) == (pair in REFUSALS)] == []
    decided = [pair for pair in TRANSITIONS if pair[1] in DECIDED]
    assert {state for state, trigger in decided if trigger is Trigger.GIVE_UP} == set(ASKING)
    assert len(TRANSITIONS) + len(REFUSALS) == len(pairs) + len(decided)


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED], ids=lambda state: state.name)
def test_every_state_leads_to_closed(state: State) -> None:
    """From everywhere there is a way to the end."""
    reached, fresh = set(), {state}
    while fresh:
        reached |= fresh
        fresh = {target for (source, _), target in TRANSITIONS.items() if source in fresh} - reached
    assert State.CLOSED in reached


def test_only_the_open_states_may_send() -> None:
    """SEND is refused with 8429 exactly where this side cannot speak any more, or not yet."""
    refused = {state for state in State if (state, Trigger.SEND) in REFUSALS}
    assert refused == set(State) - OPEN_STATES
    assert {REFUSALS[state, Trigger.SEND].number for state in refused} == {8429}


def test_refusals_carry_service_brokers_numbers() -> None:
    """8429 for SEND, 8427 for the three ways to END."""
    codes = {
        trigger: {code.number for (_, refused), code in REFUSALS.items() if refused is trigger} for trigger in LOCAL
    }
    assert codes[Trigger.SEND] == {8429}
    assert codes[Trigger.END] == codes[Trigger.END_WITH_ERROR] == codes[Trigger.CLEANUP] == {8427}


def test_what_the_peer_does_is_never_refused() -> None:
    """A record that arrives must have an outcome."""
    assert {trigger for _, trigger in REFUSALS} <= LOCAL


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_a_timer_is_refused_where_the_dialog_is_over_here(state: State) -> None:
    """8458 where no handler will run any more."""
    if state in TIMER_STATES:
        check_timer(state)
        return
    with pytest.raises(DialogEnded) as refused:
        check_timer(state)
    assert refused.value.code == 8458


def test_a_refusal_says_why() -> None:
    """The message names the verb, the reason and the number."""
    with pytest.raises(DialogEnded, match=r"END WITH ERROR is not possible.*this side has ended it.*8427"):
        refuse(State.DISCONNECTED_OUTBOUND, Trigger.END_WITH_ERROR)
