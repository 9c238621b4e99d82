"""Mistakes a type checker must find: every line marked E. Never run, only checked (test_types.py)."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel

from conversations import Client, Contract, Dialog, LocalError, PeerError, Reader, Service
from conversations.protocol.codes import LIFETIME, SEND_REFUSED


class Ask(BaseModel):
    n: int


class Answer(BaseModel):
    total: int


class Total(BaseModel):
    total: int = 0


SUMS = Contract("Sums", sent_by_initiator=[Ask], sent_by_target=[Answer])
adder = Service("adder", accepts=[SUMS], state=Total)
plain = Service("plain", accepts=[SUMS])


@adder.on(Ask)  # E
def wrong_body(body: Answer, dialog: Dialog[Total]) -> None: ...


@adder.on(Ask)  # E
def wrong_state(body: Ask, dialog: Dialog[int]) -> None: ...


@adder.on(Ask)  # E
def no_dialog(body: Ask) -> None: ...


@adder.on_end(SUMS)  # E
def wrong_arity(body: Ask, dialog: Dialog[Total]) -> None: ...


@adder.on_error(SUMS)  # E
def not_an_error(body: Ask, dialog: Dialog[Total]) -> None: ...


@adder.on_skipped(SUMS)  # E
def not_numbers(numbers: str, dialog: Dialog[Total]) -> None: ...


def wrong_arguments(dialog: Dialog[Total]) -> None:
    dialog.set_timer(30)  # E
    dialog.end_with_error("1001", "text")  # E
    dialog.group.state.totl = 3  # E
    dialog.group.begin_dialog("adder", "Sums")  # E
    dialog.group.begin_dialog("adder", SUMS, lifetime=60)  # E


def numbers_and_rows_that_are_no_local_codes() -> None:
    LocalError("text", code=8429)  # E
    LocalError("text", code=LIFETIME)  # E
    LocalError("text", code=SEND_REFUSED)


def wrong_reply(client: Client) -> None:
    pending = client.request("adder", SUMS, Ask(n=1), reply=Answer, timeout=timedelta(seconds=1))
    wrong = pending.result().totl  # E
    client.request("adder", SUMS, Ask(n=wrong), reply=Answer, timeout=1)  # E


# What is right must pass: an error on any line below fails the test as well.


@adder.on(Ask)
def right(body: Ask, dialog: Dialog[Total]) -> None:
    dialog.group.state.total += body.n
    dialog.send(Answer(total=dialog.group.state.total))


@plain.on(Ask)
async def right_async(body: Ask, dialog: Dialog) -> None:
    dialog.group.state["n"] = body.n


@adder.on_error(SUMS)
def right_error(error: PeerError, dialog: Dialog[Total]) -> None:
    dialog.end_with_error(abs(error.code), error.description)


@adder.on_end(SUMS)
async def right_end(dialog: Dialog[Total]) -> None:
    dialog.end()


def right_reply(client: Client) -> int:
    return client.request("adder", SUMS, Ask(n=1), reply=Answer, timeout=timedelta(seconds=1)).result().total


def state_of_another_class(reader: Reader[Total]) -> None:
    assert reader.dialog("id").state.totl  # E
    reader.wait("id", timeout=3)  # E
