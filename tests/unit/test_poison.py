"""The decision after a failure: a table, and laws that hold for every list of policies."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from conversations import Contract, DeclarationError, Dialog, GiveUp, PoisonPolicy, RetryLater, Service
from conversations.errors import TimeLimitExceeded, Verdict
from conversations.poison import AT_ONCE, End, Retry, Subject, Then, decide, hidden_by


class Check(BaseModel):
    customer: str


class Note(BaseModel):
    text: str


CREDIT = Contract("Credit", sent_by_initiator=[Check, Note])
OTHER = Contract("Other", sent_by_initiator=[Note])
DEFAULT = PoisonPolicy.service_broker()
GONE = PoisonPolicy(exception=LookupError, delays=[], then=Then.END_DIALOG, code=1404, description="Unknown customer.")
PATIENT = PoisonPolicy(message=Check, delays=[AT_ONCE] * 9, then=Then.END_DIALOG, code=1)
THERE = PoisonPolicy(contract=OTHER, delays=[AT_ONCE], then=Then.END_DIALOG, code=2)
ALL = [GONE, PATIENT, THERE, DEFAULT]
CHECK, NOTE, ELSEWHERE, TIMER = (
    Subject("Credit", "Check"), Subject("Credit", "Note"), Subject("Other", "Note"), Subject("Credit", None),
)  # fmt: skip


def deep(innermost: Exception, levels: int) -> Exception:
    """A group in a group in a group: nested task groups make such without a deep stack."""
    failure = innermost
    for _ in range(levels):
        failure = ExceptionGroup("nested", [failure])
    return failure


@pytest.mark.parametrize(
    ("failure", "attempts", "subject", "expected"),
    [
        (ValueError(), 3, NOTE, None),
        (ValueError(), 4, NOTE, 500),
        (ValueError(), 5, NOTE, 500),
        (ValueError(), 3, TIMER, None),
        (ValueError(), 4, TIMER, 500),
        (ValueError(), 9, CHECK, None),
        (ValueError(), 10, CHECK, 1),
        (ValueError(), 1, ELSEWHERE, None),
        (ValueError(), 2, ELSEWHERE, 2),
        (LookupError(), 1, CHECK, 1404),
        (KeyError("a subclass"), 1, NOTE, 1404),
        (KeyError("a subclass"), 1, TIMER, 1404),
        (GiveUp("no"), 1, CHECK, 1),
        (GiveUp("no"), 1, NOTE, 500),
        (ExceptionGroup("tasks", [ValueError(), KeyError()]), 1, NOTE, 1404),
        (BaseExceptionGroup("tasks", [ValueError(), GiveUp("no")]), 1, NOTE, 500),
        (BaseExceptionGroup("outer", [ExceptionGroup("inner", [ValueError()]), GiveUp("no")]), 1, ELSEWHERE, 2),
        (SystemExit(), 3, NOTE, None),
        (GiveUp(), 1, NOTE, 500),
        (deep(KeyError(), 5_000), 1, NOTE, 1404),
    ],
)  # fmt: skip
def test_what_follows_a_failure(failure: BaseException, attempts: int, subject: Subject, expected: int | None) -> None:
    """The first policy that matches says it: another attempt, or the code the dialog ends with."""
    decision = decide(failure, attempts, ALL, subject)
    assert decision == Retry(AT_ONCE) if expected is None else isinstance(decision, End)
    assert isinstance(decision, Retry) or decision.code == expected


FAILURES: list[BaseException] = [
    ValueError(), KeyError(), IndexError(), LookupError(), OSError(), GiveUp("x"), ExceptionGroup("g", [KeyError()]),
    ExceptionGroup("g", [OSError(), KeyError(), ValueError()]),
]  # fmt: skip
failures = st.sampled_from(FAILURES)
policies = st.builds(
    PoisonPolicy,
    message=st.sampled_from([None, Check, "Note"]),
    exception=st.sampled_from([None, BaseException, Exception, LookupError, (ValueError, KeyError)]),
    contract=st.sampled_from([None, CREDIT, "Other"]),
    delays=st.lists(st.just(AT_ONCE), max_size=5),
    then=st.just(Then.END_DIALOG),
    code=st.integers(1, 9),
)
SUBJECTS = [CHECK, NOTE, ELSEWHERE, TIMER, Subject("Other", "Check"), Subject("Other", None)]
subjects = st.sampled_from(SUBJECTS)


@given(failures, st.lists(policies, max_size=5), subjects)
def test_attempts_end_and_stay_ended(failure: BaseException, some: list[PoisonPolicy], subject: Subject) -> None:
    """Retries come first and are as many as the policy has delays; once given up on, a later count changes nothing."""
    decisions = [decide(failure, attempts, [*some, DEFAULT], subject) for attempts in range(1, 12)]
    kinds = [isinstance(decision, Retry) for decision in decisions]
    assert kinds == sorted(kinds, reverse=True)
    assert not kinds[-1]
    assert sum(kinds) in {0, *(len(policy.delays) for policy in [*some, DEFAULT])}
    assert len(set(decisions[sum(kinds) :])) == 1


@given(st.lists(policies, max_size=5), st.sets(subjects))
def test_what_is_hidden_is_never_applied_and_all_else_is_to_something(
    some: list[PoisonPolicy], there: set[Subject]
) -> None:
    """A policy is only refused if it makes no difference, whatever is raised in whichever handler there is."""
    for number, policy in enumerate(some):
        earlier = some[:number]
        applied = any(
            decide(failure, 9, [*earlier, replace(policy, code=99), DEFAULT], subject)
            == End(policy.then, 99, policy.description)
            for failure in FAILURES
            for subject in there
        )
        assert applied is (hidden_by(policy, earlier, there) is None)


@given(st.lists(policies, max_size=5), st.sets(subjects))
def test_what_hides_a_policy_does_so_without_the_others(some: list[PoisonPolicy], there: set[Subject]) -> None:
    """The error says which policies are to be moved: those are enough."""
    for number, policy in enumerate(some):
        if numbers := hidden_by(policy, some[:number], there):
            assert hidden_by(policy, [some[it - 1] for it in sorted(numbers)], there) is not None


def test_delays_are_not_the_callers_list() -> None:
    delays = [AT_ONCE]
    policy = PoisonPolicy(delays=delays)
    delays.append(timedelta(days=1))
    assert policy.delays == (AT_ONCE,)
    assert PoisonPolicy(delays=[AT_ONCE] * 3, then=Then.END_DIALOG) == PoisonPolicy.service_broker()


def test_a_time_limit_is_a_time_out() -> None:
    policy = PoisonPolicy(exception=TimeoutError, delays=[], then=Then.END_DIALOG, code=504)
    assert decide(TimeLimitExceeded(), 1, [policy, DEFAULT], NOTE) == End(policy.then, 504, policy.description)


def test_a_verdict_passes_handlers_that_catch_every_exception() -> None:
    assert not issubclass(Verdict, Exception)


def test_service_brokers_policy_is_that_of_its_sample() -> None:
    assert PoisonPolicy.service_broker() == PoisonPolicy(
        delays=(timedelta(0),) * 3, then=Then.END_DIALOG, code=500, description="Unable to process message."
    )


@pytest.mark.parametrize(
    ("mistake", "what"),
    [
        ({"delays": [5, 60]}, "every delay, and the jitter, is a timedelta"),
        ({"delays": [timedelta(seconds=-1)]}, "every delay, and the jitter, is a timedelta"),
        ({"delays": [timedelta(days=366)]}, "every delay, and the jitter, is a timedelta"),
        ({"jitter": timedelta(seconds=-1)}, "every delay, and the jitter, is a timedelta"),
        ({"delays": [AT_ONCE] * 1_001}, "at most 1000 delays"),
        ({"code": 0}, "an error code is a positive number"),
        ({"code": -500}, "an error code is a positive number"),
        ({"code": 1 << 31}, "an error code is a positive number"),
        ({"code": True}, "an error code is a positive number"),
        ({"code": 1.5}, "an error code is a positive number"),
        ({"description": ""}, "an error needs a description"),
        ({"description": b"x"}, "an error needs a description"),
        ({"description": "x" * 3_001}, "a text of at most 3000 characters"),
        ({"description": "\ud800"}, "a text of at most 3000 characters"),
        ({"then": "skip"}, "then is a member of Then"),
        ({"code": 7}, "only where then is Then.END_DIALOG"),
        ({"then": Then.SKIP, "description": "No."}, "only where then is Then.END_DIALOG"),
        ({"exception": ()}, "a class of exceptions or a tuple"),
        ({"exception": [KeyError]}, "a class of exceptions or a tuple"),
        ({"exception": KeyError("x")}, "a class of exceptions or a tuple"),
        ({"exception": (KeyError, "x")}, "a class of exceptions or a tuple"),
        ({"exception": (KeyError, RetryLater)}, "RetryLater is no failure, .* leave it out of exception"),
    ],
)
def test_a_policy_that_cannot_be_carried_out_is_refused(mistake: dict[str, Any], what: str) -> None:
    with pytest.raises(DeclarationError, match=what):
        PoisonPolicy(**mistake)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (
            PoisonPolicy(message="Chek"),
            "policy 1: service 'credit' never receives 'Chek'.* It may receive: Check, Note.",
        ),
        (
            PoisonPolicy(message=Check, contract=OTHER),
            "policy 1, under contract 'Other': service 'credit' never receives 'Check'.* It may receive: Note.",
        ),
        (
            PoisonPolicy(contract="Nowhere"),
            "policy 1: the service neither accepts nor initiates contract 'Nowhere'. It has: Credit, Other.",
        ),
    ],
)
def test_a_service_refuses_policies_of_what_never_arrives(wrong: PoisonPolicy, what: str) -> None:
    """A misspelt name, or another service's: found where it is written down."""
    with pytest.raises(DeclarationError, match=what):
        Service("credit", accepts=[CREDIT, OTHER], poison=[wrong])


def test_a_service_refuses_policies_of_what_it_sends_itself() -> None:
    with pytest.raises(DeclarationError, match=r"service 'shop' never receives 'Check'.* nothing\."):
        Service("shop", initiates=[CREDIT], poison=[PoisonPolicy(message=Check)])


def credit(*poison: PoisonPolicy) -> Service[dict[str, Any]]:
    """A service that handles one message of the two that it may receive."""
    service: Service[dict[str, Any]] = Service("credit", accepts=[CREDIT, OTHER], poison=poison, ignores=[Note])

    @service.on(Check)
    def check(body: Check, dialog: Dialog) -> None: ...

    return service


ALL_OF_VALUES, ALL_OF_KEYS = PoisonPolicy(exception=ValueError, delays=[]), PoisonPolicy(exception=KeyError, delays=[])


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (
            [PoisonPolicy(message=Note)],
            "policy 1 is never applied: 'Note' has no handler, because it is in ignores=[...]; register one with @service.on(...), or remove",
        ),
        (
            [GONE, PoisonPolicy(message=Note, contract=OTHER)],
            "policy 2 is never applied: 'Note' has no handler under contract 'Other', because it is in ignores=[...]; register one",
        ),
        (
            [PoisonPolicy(contract=OTHER)],
            "policy 1 is never applied: there is no handler under contract 'Other'; register one",
        ),
        (
            [PoisonPolicy(then=Then.END_DIALOG, code=1), GONE],
            "policy 2 is never applied: policy 1 matches before it; put it in front, or leave it out",
        ),
        (
            [GONE, PATIENT, PoisonPolicy(exception=KeyError, then=Then.END_DIALOG, code=3)],
            "policy 3 is never applied: policy 1 matches before it; put it in front, or leave it out",
        ),
        (
            [ALL_OF_VALUES, ALL_OF_KEYS, PoisonPolicy(exception=(KeyError, ValueError))],
            "policy 3 is never applied: policies 1 and 2 match before it; put it in front, or leave it out",
        ),
        (
            [PATIENT, PoisonPolicy(contract=CREDIT)],
            "policy 2 is never applied: policy 1 matches before it; put it in front, or leave it out",
        ),
    ],
)  # fmt: skip
def test_a_service_refuses_policies_that_say_nothing(wrong: list[PoisonPolicy], what: str) -> None:
    """They are about a message that is ignored, or stand behind others that match whatever they could."""
    with pytest.raises(DeclarationError, match=re.escape(what)):
        credit(*wrong).check()


def test_a_last_resort_may_stand_behind_policies_for_all_there_is() -> None:
    """It is for what will be handled one day."""
    credit(PATIENT, PoisonPolicy(delays=[])).check()
    Service("idle", initiates=[CREDIT], poison=[PoisonPolicy(delays=[])]).check()


def test_what_has_no_handler_is_told_before_its_policies() -> None:
    """Nothing is wrong with a policy of a message whose handler is still to be written."""
    service = Service("credit", accepts=[CREDIT], poison=[PATIENT])
    with pytest.raises(DeclarationError, match="cannot handle all that it may receive"):
        service.check()


@pytest.mark.parametrize("event", ["on_end", "on_error", "on_timer"])
def test_a_policy_without_a_message_is_about_events_too(event: str) -> None:
    service = credit(PATIENT, PoisonPolicy(contract=OTHER, delays=[]))
    getattr(service, event)(OTHER)(lambda *_: None)
    service.check()


def test_a_service_takes_policies_from_the_narrow_to_the_wide() -> None:
    service = Service(
        "credit", accepts=[CREDIT, OTHER], poison=[GONE, PATIENT, THERE, PoisonPolicy(then=Then.END_DIALOG, code=9)]
    )

    @service.on(Check)
    def check(body: Check, dialog: Dialog) -> None: ...

    @service.on(Note)
    def note(body: Note, dialog: Dialog) -> None: ...

    service.check()
    assert service.poison[-1] == PoisonPolicy(delays=[AT_ONCE] * 3, then=Then.HOLD)
