"""The decision after a failure: a table, and laws that hold for every list of policies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from conversations import Contract, DeclarationError, Dialog, GiveUp, PoisonPolicy, Service, Then
from conversations.poison import AT_ONCE, GivingUp, Retry, Subject, Verdict, decide


class Check(BaseModel):
    customer: str


class Note(BaseModel):
    text: str


CREDIT = Contract("Credit", sent_by_initiator=[Check, Note])
OTHER = Contract("Other", sent_by_initiator=[Note])
DEFAULT = PoisonPolicy.service_broker()
GONE = PoisonPolicy(exception=LookupError, delays=[], code=1404, description="Unknown customer.")
PATIENT = PoisonPolicy(message=Check, delays=[AT_ONCE] * 9, code=1)
THERE = PoisonPolicy(contract=OTHER, delays=[AT_ONCE], code=2)
ALL = [GONE, PATIENT, THERE, DEFAULT]
CHECK, NOTE, ELSEWHERE, TIMER = (
    Subject("Credit", "Check"), Subject("Credit", "Note"), Subject("Other", "Note"), Subject("Credit", None),
)  # fmt: skip


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
    ],
)  # fmt: skip
def test_what_follows_a_failure(failure: BaseException, attempts: int, subject: Subject, expected: int | None) -> None:
    """The first policy that matches says it: another attempt, or the code the dialog ends with."""
    decision = decide(failure, attempts, ALL, subject)
    assert decision == Retry(AT_ONCE) if expected is None else isinstance(decision, GivingUp)
    assert isinstance(decision, Retry) or decision.code == expected


failures = st.sampled_from([ValueError(), KeyError(), GiveUp("x"), ExceptionGroup("g", [KeyError()])])
policies = st.builds(
    PoisonPolicy,
    message=st.sampled_from([None, Check, "Note"]),
    exception=st.sampled_from([None, LookupError, (ValueError, KeyError)]),
    contract=st.sampled_from([None, CREDIT, "Other"]),
    delays=st.lists(st.just(AT_ONCE), max_size=5),
    code=st.integers(1, 9),
)
subjects = st.sampled_from([CHECK, NOTE, ELSEWHERE, TIMER])


@given(failures, st.lists(policies, max_size=5), subjects)
def test_attempts_end_and_stay_ended(failure: Exception, some: list[PoisonPolicy], subject: Subject) -> None:
    """Retries come first and are as many as the policy has delays; once given up on, a later count changes nothing."""
    decisions = [decide(failure, attempts, [*some, DEFAULT], subject) for attempts in range(1, 12)]
    kinds = [isinstance(decision, Retry) for decision in decisions]
    assert kinds == sorted(kinds, reverse=True)
    assert not kinds[-1]
    assert len(set(decisions[sum(kinds) :])) == 1


@given(failures, policies, st.lists(policies, max_size=3), subjects, st.integers(1, 9))
def test_what_is_covered_is_never_applied(
    failure: Exception, first: PoisonPolicy, some: list[PoisonPolicy], subject: Subject, attempts: int
) -> None:
    """A policy that one before it covers makes no difference."""
    kept = [policy for policy in some if not first.covers(policy)]
    assert decide(failure, attempts, [first, *some, DEFAULT], subject) == decide(
        failure, attempts, [first, *kept, DEFAULT], subject
    )


def test_a_verdict_passes_handlers_that_catch_every_exception() -> None:
    assert not issubclass(Verdict, Exception)


def test_service_brokers_policy_is_that_of_its_sample() -> None:
    assert PoisonPolicy.service_broker() == PoisonPolicy(
        delays=(timedelta(0),) * 3, then=Then.END_DIALOG, code=500, description="Unable to process message."
    )


@pytest.mark.parametrize(
    ("mistake", "what"),
    [
        ({"delays": [timedelta(seconds=1)]}, "every delay must be timedelta"),
        ({"delays": [AT_ONCE] * 1_001}, "at most 1000 delays"),
        ({"code": 0}, "code is from 1"),
        ({"code": -500}, "code is from 1"),
        ({"code": 1 << 31}, "code is from 1"),
        ({"description": ""}, "description has 1 to"),
        ({"description": "x" * 3_001}, "description has 1 to"),
    ],
)
def test_a_policy_that_cannot_be_carried_out_is_refused(mistake: dict[str, Any], what: str) -> None:
    with pytest.raises(DeclarationError, match=what):
        PoisonPolicy(**mistake)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ([PoisonPolicy(message="Chek")], "never receives 'Chek'"),
        ([PoisonPolicy(message=Check, contract=OTHER)], "never receives 'Check'"),
        ([PoisonPolicy(contract="Nowhere")], "policy 1: the service neither accepts nor initiates contract 'Nowhere'"),
        ([PoisonPolicy(code=1), GONE], "policy 2 is never applied: policy 1 matches before it"),
        ([GONE, PATIENT, PoisonPolicy(exception=KeyError, code=3)], "policy 3 is never applied: policy 1"),
    ],
)
def test_a_service_refuses_policies_that_say_nothing(wrong: list[PoisonPolicy], what: str) -> None:
    """A misspelt name, or a policy behind one that matches everything it does."""
    service = Service("credit", accepts=[CREDIT, OTHER], poison=wrong, ignores=["Check", "Note"])
    with pytest.raises(DeclarationError, match=what):
        service.check()


def test_a_service_takes_policies_from_the_narrow_to_the_wide() -> None:
    service = Service("credit", accepts=[CREDIT, OTHER], poison=[GONE, PATIENT, THERE, PoisonPolicy(code=9)])

    @service.on(Check)
    def check(body: Check, dialog: Dialog) -> None: ...

    @service.on(Note)
    def note(body: Note, dialog: Dialog) -> None: ...

    service.check()
    assert service.poison[-1] == DEFAULT
