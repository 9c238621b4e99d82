"""The decision after a failure: a table, and laws that hold for every list of policies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from conversations import Contract, DeclarationError, Dialog, GiveUp, PoisonPolicy, Service
from conversations.errors import TimeLimitExceeded, Verdict
from conversations.poison import AT_ONCE, End, Retry, Subject, Then, decide


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
subjects = st.sampled_from([CHECK, NOTE, ELSEWHERE, TIMER])


@given(failures, st.lists(policies, max_size=5), subjects)
def test_attempts_end_and_stay_ended(failure: BaseException, some: list[PoisonPolicy], subject: Subject) -> None:
    """Retries come first and are as many as the policy has delays; once given up on, a later count changes nothing."""
    decisions = [decide(failure, attempts, [*some, DEFAULT], subject) for attempts in range(1, 12)]
    kinds = [isinstance(decision, Retry) for decision in decisions]
    assert kinds == sorted(kinds, reverse=True)
    assert not kinds[-1]
    assert sum(kinds) in {0, *(len(policy.delays) for policy in [*some, DEFAULT])}
    assert len(set(decisions[sum(kinds) :])) == 1


@given(failures, policies, st.lists(policies, max_size=3), subjects, st.integers(1, 9))
def test_what_is_covered_is_never_applied(
    failure: BaseException, first: PoisonPolicy, some: list[PoisonPolicy], subject: Subject, attempts: int
) -> None:
    """A policy that one before it covers makes no difference."""
    kept = [policy for policy in some if not first.covers(policy)]
    assert decide(failure, attempts, [first, *some, DEFAULT], subject) == decide(
        failure, attempts, [first, *kept, DEFAULT], subject
    )


@given(policies, policies)
def test_what_is_not_covered_is_applied_to_something(first: PoisonPolicy, second: PoisonPolicy) -> None:
    """A policy is only called unreachable if it is."""
    reached = any(
        decide(failure, 9, [first, replace(second, code=99), DEFAULT], subject)
        == End(second.then, 99, second.description)
        for failure in FAILURES
        for subject in (CHECK, NOTE, ELSEWHERE, Subject("Other", "Check"), TIMER, Subject("Other", None))
    )
    assert reached is not first.covers(second)


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
        ({"code": 7}, "where then is Then.END_DIALOG only"),
        ({"then": Then.SKIP, "description": "No."}, "where then is Then.END_DIALOG only"),
        ({"exception": ()}, "a class of exceptions or a tuple"),
        ({"exception": [KeyError]}, "a class of exceptions or a tuple"),
        ({"exception": KeyError("x")}, "a class of exceptions or a tuple"),
        ({"exception": (KeyError, "x")}, "a class of exceptions or a tuple"),
    ],
)
def test_a_policy_that_cannot_be_carried_out_is_refused(mistake: dict[str, Any], what: str) -> None:
    with pytest.raises(DeclarationError, match=what):
        PoisonPolicy(**mistake)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ([PoisonPolicy(message="Chek")], "policy 1: service 'credit' never receives 'Chek'"),
        (
            [PoisonPolicy(message=Check, contract=OTHER)],
            "policy 1, under contract 'Other': service 'credit' never receives 'Check'",
        ),
        ([PoisonPolicy(contract="Nowhere")], "policy 1: the service neither accepts nor initiates contract 'Nowhere'"),
        ([PoisonPolicy(then=Then.END_DIALOG, code=1), GONE], "policy 2 is never applied: policy 1 matches before it"),
        (
            [GONE, PATIENT, PoisonPolicy(exception=KeyError, then=Then.END_DIALOG, code=3)],
            "policy 3 is never applied: policy 1",
        ),
    ],
)
def test_a_service_refuses_policies_that_say_nothing(wrong: list[PoisonPolicy], what: str) -> None:
    """A misspelt name, or a policy behind one that matches everything it does."""
    service = Service("credit", accepts=[CREDIT, OTHER], poison=wrong, ignores=["Check", "Note"])
    with pytest.raises(DeclarationError, match=what):
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
