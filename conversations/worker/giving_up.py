"""What becomes of a message, or a timer, whose handler is not tried again."""

from __future__ import annotations

from conversations.bodies import said
from conversations.poison import End, Then
from conversations.protocol import letters, rows
from conversations.protocol.endpoint import NEVER
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.states import OPEN_STATES
from conversations.worker import parking, receiving, speaking, switching
from conversations.worker.active import Item
from conversations.worker.partition import Partition
from conversations.worker.receiving import Task

TEXT_LIMIT = 1_000


def text_of(failure: BaseException) -> str:
    """Say what was raised, in one line's length."""
    return f"{type(failure).__name__}: {said(failure)[:TEXT_LIMIT]}"


def give_up(partition: Partition, item: Item, task: Task, failure: BaseException, decision: End) -> None:
    """Do what its policy says, and report it."""
    then = decision.then
    if item.park is not None:
        partition.parking.returned(item.park, parking.FAILED)
    if then is Then.HOLD:
        _hold(partition, item, task, failure)
    elif then is Then.SKIP:
        _skip(partition, item, task, failure)
    elif then is Then.DISABLE_QUEUE:
        _disable_queue(partition, item, task, failure)
    else:
        _end_dialog(partition, item, task, failure, decision)
    conversation = uuid_text(task.active.identity[:16])
    code = decision.code if then is Then.END_DIALOG else 0
    partition.letters.event("GAVE_UP", conversation=conversation, then=then.value, code=code, failure=text_of(failure))


def _hold(partition: Partition, item: Item, task: Task, failure: BaseException) -> None:
    """Nothing is settled: the message waits as the head of its dialog, and its letter is open."""
    if not parking.has_message(item, task.without):
        partition.parking.postpone(item, NEVER, text_of(failure))
        return
    partition.letters.dead_letter(item, letters.HANDLER_FAILED, failure=failure, held=True)
    partition.parking.park(item, NEVER, text_of(failure))


def _disable_queue(partition: Partition, item: Item, task: Task, failure: BaseException) -> None:
    """The message stays the head of its dialog, without a letter, and is tried again once the queue is on."""
    partition.parking.let_wait(item, task.without, rows.QUEUE_ON, text_of(failure))
    envelope = item.envelope
    what = envelope.message_type if envelope is not None and envelope.message_type else task.handler.name
    switching.turn_off(partition, switching.POLICY, what, text_of(failure))


def _skip(partition: Partition, item: Item, task: Task, failure: BaseException) -> None:
    active = task.active
    partition.parking.forget_retry(active, task.without, parking.FAILED)
    if parking.has_message(item, task.without):
        partition.letters.dead_letter(item, letters.HANDLER_FAILED, failure=failure)
    if task.codec is not None and item.envelope is not None:
        active.endpoint.dead_lettered += 1
        speaking.tell_skipped(partition, active, item.envelope.seq)
    elif task.finish is not None:
        task.finish(partition, active)


def _end_dialog(partition: Partition, item: Item, task: Task, failure: BaseException, decision: End) -> None:
    active = task.active
    partition.parking.forget_retry(active, task.without, parking.FAILED)
    if parking.has_message(item, task.without):
        partition.letters.dead_letter(item, letters.HANDLER_FAILED, failure=failure, code=decision.code)
        active.endpoint.dead_lettered += task.codec is not None
    if active.endpoint.state in OPEN_STATES:
        speaking.end_with_error(partition, active, decision.code, decision.description)
    elif task.finish is not None:
        task.finish(partition, active)
    receiving.close(partition, active)
