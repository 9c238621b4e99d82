"""Pooled dialogs: messages for a key of a pool go on one dialog, which the owner of the key begins and replaces.

The senders name only the pool and the key: a handler in any partition, and a client. Their messages come to the owner of the key as commands, and the
lane of the key's group handles one command after the other. So no two senders can begin two dialogs for one key, nobody can send on a dialog
after its END, and there is nothing to lock. (In Service Broker, a procedure that receives the timer of a dialog has a lock on the dialog, and needs the lock on the row of
the pool. A sender takes the two locks in the other order, and the two wait for each other.)

The dialog is replaced if it is old, has many messages, or is over. ``successions`` keeps the order between the dialogs of a key.
"""

from __future__ import annotations

from conversations.draft import Draft
from conversations.errors import LocalError
from conversations.pool import PooledMessages
from conversations.protocol import codes, rows
from conversations.protocol.command import Begin, Command, Operation, Report, Reuse, Send, pool_id
from conversations.protocol.limits import COMMAND_BYTES, OPERATIONS
from conversations.protocol.states import OPEN_STATES
from conversations.protocol.times import later
from conversations.worker import dialog_commands, outbound
from conversations.worker.active import Active
from conversations.worker.commands import Effect, find
from conversations.worker.partition import Partition
from conversations.worker.room import Room

LINE = 100
"""Maximum number of dialogs of one key that are not closed. A dialog is not replaced by a message if there are more, or if the group is full."""
_HEAD, _AROUND = 4_000, 300
"""Bytes that are counted for a command besides its messages, and for each message besides its body."""


def prepare(partition: Partition, command: Command) -> Effect:
    """Check a command that sends messages for a key of a pool; return the effect that sends them.

    Raises:
        LocalError: an operation is not possible. Then nothing is sent.
    """
    reuse = _checked(command)
    last = _last(partition, command.key)
    now = partition.context.now
    if last is not None and not _is_used_up(partition, last, reuse):
        draft = _draft(partition, last, command)
        return lambda: outbound.apply(partition, draft)
    if last is not None:
        _check_delayed(partition, reuse)
    known = find(partition, command)
    new = Active(partition.context.new_conversation() + b"\1", known.lane)
    begin = Begin(reuse.to_service, reuse.contract, target_key=reuse.target_key)
    new = dialog_commands.begun(partition, new, begin)
    draft = _draft(partition, new, command, begin)
    # A dialog is replaced early enough for its last messages to arrive: at the latest when half of its lifetime is over.
    replace_at = min(later(now, reuse.max_age), now + (new.endpoint.expires_at - now) // 2)

    def effect() -> None:
        if last is not None:
            replace(partition, last)
        partition.successions.begin(command.key, new.identity, replace_at)
        outbound.apply(partition, draft)

    return effect


def _checked(command: Command) -> Reuse:
    reuse = command.operations[0]
    if not isinstance(reuse, Reuse) or not command.from_initiator or command.conversation_id != pool_id(command.key):
        raise LocalError("a command for a pool has the id of its key", code=codes.COMMAND_CONTRADICTS)
    if not all(isinstance(operation, Send | Report) for operation in command.operations[1:]):
        raise LocalError("a command for a pool can only send messages", code=codes.COMMAND_CONTRADICTS)
    if reuse.max_age < 1 or reuse.max_messages < 0:
        raise LocalError("the age and the count of a pool must be positive", code=codes.COMMAND_CONTRADICTS)
    return reuse


def _check_delayed(partition: Partition, reuse: Reuse) -> None:
    # The next dialog has no bytes yet, so ``Room.is_clogged`` does not refuse its first command, and many dialogs would keep much.
    if partition.waiting.delayed.bytes >= partition.context.settings.limits.delayed_bytes:
        raise LocalError(
            f"too many bytes wait to be sent to {reuse.to_service}, and the dialogs before are not closed",
            code=codes.CLOGGED,
        )


def _last(partition: Partition, key: str) -> Active | None:
    dialogs = partition.successions.of(key).dialogs
    if not dialogs:
        return None
    active = partition.find(rows.other_side(dialogs[-1]), "", "")
    return active if active.exists else None


def _is_used_up(partition: Partition, active: Active, reuse: Reuse) -> bool:
    """Return True if the next message goes on another dialog."""
    endpoint = active.endpoint
    succession = partition.successions.of(endpoint.key)
    if endpoint.state not in OPEN_STATES or succession.is_replaced:
        return True
    is_old = succession.replace_at <= partition.context.now
    is_full = 0 < reuse.max_messages <= endpoint.next_out
    has_other_target = (endpoint.peer, endpoint.contract) != (reuse.to_service, reuse.contract)
    may_have_another = len(succession.dialogs) < LINE and not partition.groups.is_full(active.lane)
    return has_other_target or ((is_old or is_full) and may_have_another)


def _draft(partition: Partition, active: Active, command: Command, begin: Begin | None = None) -> Draft:
    draft = Draft(Room(partition), active)
    if begin is not None:
        dialog_commands.ask(draft, active, begin)
    for operation in command.operations[1:]:
        dialog_commands.ask(draft, active, operation)
    return draft


def replace(partition: Partition, active: Active) -> None:
    """Ask the target to end the last dialog of a key, because it is old or full. The next message for the key goes on another dialog.

    The target ends first, after it has handled all messages, so that its replies are handled here. If this side ended first, the replies would
    become dead letters.
    """
    if partition.successions.of(active.endpoint.key).is_replaced:
        return  # by its age, and now a message begins the next dialog
    partition.successions.replace(active.endpoint.key)
    if active.endpoint.state in OPEN_STATES:
        outbound.end_stream(partition, active)


def append(partition: Partition, messages: PooledMessages) -> None:
    """Append the messages that a handler has sent for keys of pools, as commands to the owners of the keys."""
    for key, (reuse, sends) in messages.of.items():
        operations: list[Operation] = [reuse]
        size = _HEAD
        for send in sends:
            size += _AROUND + len(send.body)
            if size > COMMAND_BYTES or len(operations) == OPERATIONS:
                outbound.append_command(partition, pool_id(key), key, operations)
                operations, size = [reuse], _HEAD + _AROUND + len(send.body)
            operations.append(send)
        outbound.append_command(partition, pool_id(key), key, operations)
