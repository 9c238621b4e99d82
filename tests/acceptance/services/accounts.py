"""Accounts whose groups two services name: each transfer is a dialog of its own, and all transfers of an account share its balance."""

from pydantic import BaseModel

from conversations import Contract, Dialog, Service


class Transfer(BaseModel):
    amount: int


class Done(BaseModel):
    balance: int


class Account(BaseModel):
    balance: int = 0
    transfers: int = 0


TRANSFERS = Contract("Transfers", sent_by_initiator=[Transfer], sent_by_target=[Done], group_named_by=["bank", "till"])
accounts = Service("accounts", state=Account, accepts=[TRANSFERS])
bank = Service("bank", initiates=[TRANSFERS], ignores=[Done])
till = Service("till", initiates=[TRANSFERS], ignores=[Done])


@accounts.on(Transfer)
def transfer(body: Transfer, dialog: Dialog[Account]) -> None:
    account = dialog.group.state
    account.balance += body.amount
    account.transfers += 1
    dialog.send(Done(balance=account.balance))
    dialog.end()
