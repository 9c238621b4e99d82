"""A saga of three services: an order reserves goods, then charges an account. A refusal or a late payment undoes the reservation.

    conversations run examples.orders:orders examples.orders:payments examples.orders:stock

Each order, account and article is a conversation group that the initiator names (``to_group``). So all orders of a customer meet in one
account, one after the other, and a web page can read the state of an order: see ``order_page.py``.
"""

from datetime import timedelta
from decimal import Decimal

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, Service, message_type

PAYMENT_TIME = timedelta(minutes=5)
PRICES = {"lamp": Decimal(45), "book": Decimal(20)}
SHELF = 100
"""Number of pieces of each article at the beginning."""


@message_type("orders.Place")
class PlaceOrder(BaseModel):
    customer: str
    article: str
    pieces: int


@message_type("orders.Result")
class OrderResult(BaseModel):
    status: str


@message_type("stock.Reserve")
class Reserve(BaseModel):
    pieces: int


@message_type("stock.Reserved")
class Reserved(BaseModel):
    pass


@message_type("stock.SoldOut")
class SoldOut(BaseModel):
    pass


@message_type("stock.PutBack")
class PutBack(BaseModel):
    pass


@message_type("payments.Charge")
class Charge(BaseModel):
    amount: Decimal


@message_type("payments.Charged")
class Charged(BaseModel):
    pass


@message_type("payments.Declined")
class Declined(BaseModel):
    pass


@message_type("payments.Refund")
class Refund(BaseModel):
    pass


@message_type("payments.Deposit")
class Deposit(BaseModel):
    amount: Decimal


ORDERS = Contract("Orders", sent_by_initiator=[PlaceOrder], sent_by_target=[OrderResult], group_named_by=["web"])
STOCK = Contract(
    "Stock", sent_by_initiator=[Reserve, PutBack], sent_by_target=[Reserved, SoldOut], group_named_by=["orders"]
)
PAYMENTS = Contract(
    "Payments", sent_by_initiator=[Charge, Refund], sent_by_target=[Charged, Declined], group_named_by=["orders"]
)
DEPOSITS = Contract("Deposits", sent_by_initiator=[Deposit], group_named_by=["web"])


# -- orders ----------------------------------------------------------------------------------------------------


class Order(BaseModel):
    status: str = "new"
    customer: str = ""
    amount: Decimal = Decimal(0)


orders = Service("orders", accepts=[ORDERS], initiates=[STOCK, PAYMENTS], state=Order)


@orders.on(PlaceOrder)
def place(order: PlaceOrder, dialog: Dialog[Order]) -> None:
    """Ask for the goods. An unknown article fails here, and the message is held for an operator."""
    amount = PRICES[order.article] * order.pieces
    dialog.group.state = Order(status="reserving", customer=order.customer, amount=amount)
    goods = dialog.group.begin_dialog("stock", STOCK, to_group=f"article-{order.article}")
    goods.send(Reserve(pieces=order.pieces))


@orders.on(Reserved)
def charge(_: Reserved, dialog: Dialog[Order]) -> None:
    """Charge the account. The timer belongs to the dialog with the payments service."""
    order = dialog.group.state
    order.status = "paying"
    payment = dialog.group.begin_dialog("payments", PAYMENTS, to_group=f"account-{order.customer}")
    payment.send(Charge(amount=order.amount))
    payment.set_timer(PAYMENT_TIME)


@orders.on(SoldOut)
def sold_out(_: SoldOut, dialog: Dialog[Order]) -> None:
    finish(dialog, "sold out")


@orders.on(Charged)
def charged(_: Charged, dialog: Dialog[Order]) -> None:
    """Confirm the order. If the timer was faster, the order is cancelled already, and the money goes back."""
    if dialog.group.state.status == "paying":
        finish(dialog, "confirmed")
    else:
        dialog.send(Refund())
        dialog.end()


@orders.on(Declined)
def declined(_: Declined, dialog: Dialog[Order]) -> None:
    if dialog.group.state.status == "paying":
        put_back(dialog)
        finish(dialog, "declined")
    else:
        dialog.end()


@orders.on_timer(PAYMENTS)
def payment_is_late(dialog: Dialog[Order]) -> None:
    """Cancel the order. The dialog with the payments service stays open, because its answer may still come."""
    put_back(dialog)
    dialog.group.state.status = "cancelled"
    answer(dialog, "cancelled")


@orders.on_error(STOCK, PAYMENTS)
def broken(error: PeerError, dialog: Dialog[Order]) -> None:
    if dialog.group.state.status in {"reserving", "paying"}:
        put_back(dialog)
        finish(dialog, f"failed: {error.description}")


def put_back(dialog: Dialog[Order]) -> None:
    """Undo the reservation: the dialogs of the group are the list of what was begun."""
    for goods in dialog.group.dialogs(STOCK):
        if goods.is_open:
            goods.send(PutBack())
            goods.end()


def finish(dialog: Dialog[Order], status: str) -> None:
    """Set the last status, tell the customer, and end all dialogs of the order."""
    dialog.group.state.status = status
    answer(dialog, status)
    for each in (*dialog.group.dialogs(STOCK), *dialog.group.dialogs(PAYMENTS)):
        if each.is_open:
            each.end()


def answer(dialog: Dialog[Order], status: str) -> None:
    for customer in dialog.group.dialogs(ORDERS):
        customer.send(OrderResult(status=status))
        customer.end()


# -- stock -----------------------------------------------------------------------------------------------------


class Shelf(BaseModel):
    pieces: int = SHELF
    reserved: dict[str, int] = {}
    """Number of pieces by dialog, until the dialog is over."""


stock = Service("stock", accepts=[STOCK], state=Shelf)


@stock.on(Reserve)
def reserve(wanted: Reserve, dialog: Dialog[Shelf]) -> None:
    shelf = dialog.group.state
    if wanted.pieces > shelf.pieces:
        dialog.send(SoldOut())
        return
    shelf.pieces -= wanted.pieces
    shelf.reserved[dialog.id] = wanted.pieces
    dialog.send(Reserved())


@stock.on(PutBack)
def take_back(_: PutBack, dialog: Dialog[Shelf]) -> None:
    dialog.group.state.pieces += dialog.group.state.reserved.pop(dialog.id, 0)


@stock.on_end(STOCK)
def goods_are_sold(dialog: Dialog[Shelf]) -> None:
    dialog.group.state.reserved.pop(dialog.id, None)


# -- payments --------------------------------------------------------------------------------------------------


class Account(BaseModel):
    balance: Decimal = Decimal(0)
    charged: dict[str, Decimal] = {}
    """Amount by dialog, until the dialog is over."""


payments = Service("payments", accepts=[PAYMENTS, DEPOSITS], state=Account)


@payments.on(Deposit)
def deposit(deposit: Deposit, dialog: Dialog[Account]) -> None:
    dialog.group.state.balance += deposit.amount


@payments.on(Charge)
def take(charge: Charge, dialog: Dialog[Account]) -> None:
    account = dialog.group.state
    if charge.amount > account.balance:
        dialog.send(Declined())
        return
    account.balance -= charge.amount
    account.charged[dialog.id] = charge.amount
    dialog.send(Charged())


@payments.on(Refund)
def refund(_: Refund, dialog: Dialog[Account]) -> None:
    account = dialog.group.state
    account.balance += account.charged.pop(dialog.id, Decimal(0))


@payments.on_end(PAYMENTS)
def payment_is_over(dialog: Dialog[Account]) -> None:
    dialog.group.state.charged.pop(dialog.id, None)
