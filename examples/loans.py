"""A saga in one conversation group: two checks, which run side by side, decide about a loan.

The group has the state. It is also the lock, because the handlers of its dialogs run one at a time. They need no other lock.

    conversations run examples.loans:loans --workers 4
"""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, Field

from conversations import Contract, Dialog, Group, PeerError, Service, message_type


@message_type("loans.Apply")
class Apply(BaseModel):
    customer: str
    amount: Annotated[Decimal, Field(gt=0)]


@message_type("loans.Approved")
class Approved(BaseModel):
    rate: Decimal


@message_type("loans.Refused")
class Refused(BaseModel):
    why: str


@message_type("credit.Check")
class CheckCredit(BaseModel):
    customer: str


@message_type("credit.Checked")
class CreditChecked(BaseModel):
    score: int


@message_type("fraud.Check")
class CheckFraud(BaseModel):
    customer: str
    amount: Decimal


@message_type("fraud.Checked")
class FraudChecked(BaseModel):
    suspicious: bool


LOANS = Contract("Loans", sent_by_initiator=[Apply], sent_by_target=[Approved, Refused])
CREDIT = Contract("Credit", sent_by_initiator=[CheckCredit], sent_by_target=[CreditChecked])
FRAUD = Contract("Fraud", sent_by_initiator=[CheckFraud], sent_by_target=[FraudChecked])


class Loan(BaseModel):
    amount: Decimal = Decimal(0)
    score: int | None = None
    suspicious: bool | None = None


loans = Service("loans", accepts=[LOANS], initiates=[CREDIT, FRAUD], state=Loan)


@loans.on(Apply)
def apply(application: Apply, dialog: Dialog[Loan]) -> None:
    group = dialog.group
    group.state.amount = application.amount
    group.begin_dialog("credit", CREDIT).send(CheckCredit(customer=application.customer))
    group.begin_dialog("fraud", FRAUD).send(CheckFraud(customer=application.customer, amount=application.amount))
    dialog.set_timer(timedelta(seconds=30))


@loans.on(CreditChecked)
def credit_checked(answer: CreditChecked, dialog: Dialog[Loan]) -> None:
    dialog.group.state.score = answer.score
    dialog.end()
    decide(dialog.group)


@loans.on(FraudChecked)
def fraud_checked(answer: FraudChecked, dialog: Dialog[Loan]) -> None:
    dialog.group.state.suspicious = answer.suspicious
    dialog.end()
    decide(dialog.group)


def decide(group: Group[Loan]) -> None:
    loan = group.state
    if loan.score is None or loan.suspicious is None:
        return  # the other answer is not here yet
    applicant = group.opened_by  # not the dialog of the answer, which is with the credit or the fraud service
    good = loan.score > 600 and not loan.suspicious
    applicant.send(Approved(rate=Decimal("4.1")) if good else Refused(why="checks"))
    applicant.end()  # also cancels its timer


@loans.on_error(CREDIT, FRAUD)
def check_failed(error: PeerError, dialog: Dialog[Loan]) -> None:
    dialog.group.end_with_error(1001, f"{dialog.peer} failed: {error.code}")


@loans.on_timer(LOANS)
def too_late(dialog: Dialog[Loan]) -> None:
    dialog.group.end_with_error(1408, "no decision in 30 s")
