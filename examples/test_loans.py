"""Tests the whole loans service, with its real handlers, worker and codec, without Kafka, in milliseconds."""

from datetime import timedelta as td
from decimal import Decimal

import pytest

from conversations.testing import Faults, Simulation
from examples.loans import (
    CREDIT,
    FRAUD,
    LOANS,
    Apply,
    Approved,
    CheckCredit,
    CreditChecked,
    FraudChecked,
    Refused,
    loans,
)

ADA = Apply(customer="ada", amount=Decimal(1000))


@pytest.mark.parametrize(
    ("score", "suspicious", "answer"), [(700, False, Approved), (700, True, Refused), (599, False, Refused)]
)
def test_the_loan_depends_on_both_checks(score: int, suspicious: bool, answer: type) -> None:
    with Simulation(loans) as sim:
        credit, fraud = sim.peer("credit", accepts=[CREDIT]), sim.peer("fraud", accepts=[FRAUD])
        applicant = sim.peer("web").begin_dialog("loans", LOANS)
        applicant.send(ADA)
        sim.run()
        assert credit.dialog().take(CheckCredit).customer == "ada"
        fraud.dialog().send(FraudChecked(suspicious=suspicious))
        credit.dialog().send(CreditChecked(score=score))
        sim.run()
        assert applicant.take(answer)
        assert applicant.ended
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_it_times_out_and_tells_everybody() -> None:
    with Simulation(loans) as sim:
        credit, fraud = sim.peer("credit", accepts=[CREDIT]), sim.peer("fraud", accepts=[FRAUD])
        applicant = sim.peer("web").begin_dialog("loans", LOANS)
        applicant.send(ADA)
        sim.run()
        sim.advance(td(seconds=29))
        assert not applicant.ended
        sim.advance(td(seconds=2))
        assert applicant.error
        assert applicant.error.code == 1408
        assert credit.dialog().error
        assert fraud.dialog().error
        assert sim.open_dialogs() == []


def test_a_failed_check_ends_the_loan_with_an_error() -> None:
    with Simulation(loans) as sim:
        credit, fraud = sim.peer("credit", accepts=[CREDIT]), sim.peer("fraud", accepts=[FRAUD])
        applicant = sim.peer("web").begin_dialog("loans", LOANS)
        applicant.send(ADA)
        sim.run()
        credit.dialog().end_with_error(77, "no such customer")
        sim.run()
        assert applicant.error
        assert str(applicant.error) == "1001: credit failed: 77"
        assert fraud.dialog().error


@pytest.mark.parametrize("seed", range(50))
def test_there_is_one_answer_whatever_the_wire_does(seed: int) -> None:
    with Simulation(loans, faults=Faults(seed=seed, duplicate=0.3, reorder=0.3, crash=0.1)) as sim:
        credit, fraud = sim.peer("credit", accepts=[CREDIT]), sim.peer("fraud", accepts=[FRAUD])
        applicant = sim.peer("web").begin_dialog("loans", LOANS)
        applicant.send(ADA)
        sim.run()
        fraud.dialog().send(FraudChecked(suspicious=False))
        credit.dialog().send(CreditChecked(score=700))
        sim.run()
        assert applicant.ended
        assert applicant.received() == [Approved(rate=Decimal("4.1"))]
        sim.check_invariants()
