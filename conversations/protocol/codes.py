"""The table of error codes: every code that this library raises. The numbers are Service Broker's, if Service Broker has a number.

A **system code** tells a side that its dialog broke. It is negative on the wire. A **local code** tells a caller that a request was refused
and changed nothing. It is positive, and never on the wire. Applications may use any positive code for their own errors.

Where Service Broker has no such error, a local code has a number above ``SQL_SERVERS``. SQL Server leaves these numbers to its users, so
none of them is a number of Service Broker (design decision 0035).

``code_table`` adds the codes of Service Broker that nothing here raises. ``docs/codes.md`` is generated from both tables, and
``conversations codes`` prints them. A peer of another version may send a system code that is in no table. The handler gets such a code
unchanged. This module imports nothing of this library, because the exceptions in ``errors`` have their codes from here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self


class ErrorClass(StrEnum):
    """What the receiver of an error can do about it. The first three are the classes of Service Broker's system errors."""

    RECOVERABLE = "recoverable"
    """The dialog is lost, but its services fit together. What the peer has not accepted may be sent again on a new dialog."""
    BREACH = "breach"
    """The services do not fit together: a defect, a right or a declaration. Sending again would end in the same error."""
    ALTERED = "altered"
    """A service or a contract was dropped or altered. Nobody can say whether sending again would help."""
    UNCLASSIFIED = "unclassified"
    """Service Broker's authors name no class, or the code is not in the table. Do not send again without a person who decides."""
    REFUSED = "refused"
    """A request was refused and changed nothing."""
    APPLICATION = "application"
    """The peer's application, or a policy, ended the dialog. The applications agree on what the code means."""


class Party(StrEnum):
    """Somebody who detects an error, or who is told of it."""

    INITIATOR = "initiator"
    TARGET = "target"
    SENDER = "sender"
    RECEIVER = "receiver"
    EACH = "each side"
    BOTH = "both sides"
    """The sender of the ERROR, and the receiver. ``on_error`` is called on both sides."""
    ITSELF = "itself"
    """The side that detects the error. Its peer is not told."""
    PROCESS = "caller's process"
    """The process of the handler, the client or the declaration. Nothing was written yet."""
    OWNER = "owner of the dialog"
    """The worker that owns the dialog. It finds the error when the handler returns, or when the command arrives."""
    CALLER = "caller"
    """The caller, as an exception. If only the owner of the dialog can see that a command is wrong, the operators."""
    OPERATORS = "operators"
    """A dead letter ``command-refused`` and an event ``COMMAND_REFUSED``."""
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Code:
    """One error."""

    number: int
    name: str
    """The name of the row: its constant in this module."""
    error_class: ErrorClass
    detected_by: Party
    told: Party
    text: str
    to_do: str
    """What the person who reads the error can do."""
    absent: str = ""
    """What will bring the code ("when ..."), or why it never comes ("never: ..."). It is empty for a code that this library raises."""

    def with_text(self, text: str) -> Self:
        """Return the code with a text that says more about one error."""
        return replace(self, text=text)


class SystemCode(Code):
    """A code with which a dialog breaks. Its number is negative, as on the wire."""

    __slots__ = ()


class LocalCode(Code):
    """A code with which a request is refused. Its number is positive."""

    __slots__ = ()


class ApplicationCode(Code):
    """A code of an application that this library sends in the name of the application. Its number is positive."""

    __slots__ = ()


SQL_SERVERS = 50_000
"""The largest number of SQL Server's own errors. Codes that Service Broker does not have come after it."""

_BREACH, _RECOVERABLE, _REFUSED = ErrorClass.BREACH, ErrorClass.RECOVERABLE, ErrorClass.REFUSED
_PROCESS, _OWNER, _CALLER, _OPERATORS = Party.PROCESS, Party.OWNER, Party.CALLER, Party.OPERATORS

# -- system codes --------------------------------------------------------------------------------------------------------

CONTRACT_NOT_ACCEPTED = SystemCode(
    -8408, "CONTRACT_NOT_ACCEPTED", _BREACH, Party.TARGET, Party.INITIATOR,
    "The target service does not support the contract.",
    "Add the contract to accepts=[...] of the target, or begin the dialog with another service or contract.",
)  # fmt: skip
NOT_EMPTY = SystemCode(
    -8430, "NOT_EMPTY", _BREACH, Party.RECEIVER, Party.BOTH,
    "The message has a body, but its message type has none.",
    "Compare the declarations of the message type on both sides: the receiver declares it without a body.",
)  # fmt: skip
SENT_BY_INITIATOR = SystemCode(
    -8437, "SENT_BY_INITIATOR", _BREACH, Party.INITIATOR, Party.BOTH,
    "The target sent a message type that only the initiator may send.",
    "Compare the contract on both sides: they disagree on who may send the message type.",
)  # fmt: skip
SENT_BY_TARGET = SystemCode(
    -8457, "SENT_BY_TARGET", _BREACH, Party.TARGET, Party.BOTH,
    "The initiator sent a message type that only the target may send.",
    "Compare the contract on both sides: they disagree on who may send the message type.",
)  # fmt: skip
TOO_LARGE = SystemCode(
    -8459, "TOO_LARGE", _BREACH, Party.SENDER, Party.BOTH,
    "The message is larger than its destination accepts.",
    "Raise max.message.bytes of the peer's queue, as `conversations apply` does, or send less. The bytes are in a dead letter `undeliverable`.",
)  # fmt: skip
NOT_CONVERSING = SystemCode(
    -8462, "NOT_CONVERSING", _RECOVERABLE, Party.EACH, Party.BOTH,
    "The remote endpoint does not exchange messages any more, or is gone.",
    "Read the description: a message is missing, the first message came too late, a limit is reached, or the peer closed its side without "
    "a word. Begin a new dialog and send again what the peer has not answered.",
)  # fmt: skip
LIFETIME = SystemCode(
    -8489, "LIFETIME", _RECOVERABLE, Party.EACH, Party.ITSELF,
    "The dialog has exceeded its lifetime.",
    "Begin a new dialog, if the work still matters. Look whether the peer was down or too slow, or make the lifetime longer. The lifetime "
    "that the target's contract sets is the longest. A target that takes up the first message too late refuses it with the same code.",
)  # fmt: skip
NOT_PERMITTED = SystemCode(
    -8494, "NOT_PERMITTED", _BREACH, Party.EACH, Party.BOTH,
    "The sender may not access the service.",
    "Grant WRITE on the peer's queue, add the sender to accepts_from=[...] of the target, or to group_named_by=[...] of the contract on both sides. The "
    "description says which.",
)  # fmt: skip
NOT_IN_CONTRACT = SystemCode(
    -8498, "NOT_IN_CONTRACT", _BREACH, Party.RECEIVER, Party.BOTH,
    "The message type is not part of the receiver's contract.",
    "Release the contract with the new message type on the receiver first, or let the receiver hold such messages (its policies decide).",
)  # fmt: skip
INVALID_AT_TARGET = SystemCode(
    -9615, "INVALID_AT_TARGET", _BREACH, Party.TARGET, Party.BOTH,
    "The message failed validation at the target service.",
    "Read the description: it names the field, or the body is not JSON. Compare the body on both sides. The bytes are in a dead letter `breach`.",
)  # fmt: skip
INVALID = SystemCode(
    -9616, "INVALID", _BREACH, Party.EACH, Party.BOTH,
    "The message failed validation.",
    "Read the description: it names the field, or the topic that refuses the record. The bytes are in a dead letter.",
)  # fmt: skip

# -- local codes with Service Broker's numbers ---------------------------------------------------------------------------

TYPE_TWICE = LocalCode(
    8403, "TYPE_TWICE", _REFUSED, _PROCESS, _CALLER, "A contract names a message type twice.",
    "Name the message type once. If both sides may send it, name it in sent_by_any=[...].",
)  # fmt: skip
CONTRACT_TWICE = LocalCode(
    8404, "CONTRACT_TWICE", _REFUSED, _PROCESS, _CALLER, "A service names two different contracts with one name.",
    "Give the contracts different names, or use one object in both lists.",
)  # fmt: skip
TIMER_BEYOND_LIFETIME = LocalCode(
    8410, "TIMER_BEYOND_LIFETIME", _REFUSED, _PROCESS, _CALLER, "A timer would not be due before the end of the dialog's lifetime.",
    "Set an earlier timer, or make the lifetime longer. The end of the lifetime calls on_error with -8489.",
)  # fmt: skip
LIFETIME_OUT_OF_RANGE = LocalCode(
    8411, "LIFETIME_OUT_OF_RANGE", _REFUSED, _PROCESS, _CALLER, "A lifetime is zero or negative, or longer than its contract allows.",
    "Give a positive lifetime; None is unlimited for a contract. If a dialog must live longer than its contract, make the contract's lifetime "
    "longer in both services.",
)  # fmt: skip
SERVICE_NAME_INVALID = LocalCode(
    8412, "SERVICE_NAME_INVALID", _REFUSED, _PROCESS, _CALLER, "No service can have this name.",
    "Correct the name. It is a part of topic names: at most 128 letters, digits, '.', '_' and '-', and no dot first.",
)  # fmt: skip
GROUP_INVALID = LocalCode(
    8414, "GROUP_INVALID", _REFUSED, _PROCESS, _CALLER, "The key of the conversation group is not valid, or not that of the dialog.",
    "Give a text of 1 to 1,000 bytes, and use the id that the client returned: it has the key of the group.",
)  # fmt: skip
CODE_NOT_POSITIVE = LocalCode(
    8419, "CODE_NOT_POSITIVE", _REFUSED, _PROCESS, _CALLER, "An application's error code is not positive.",
    "Give a number from 1 to 2147483647. Negative codes are the system's.",
)  # fmt: skip
NO_DESCRIPTION = LocalCode(
    8422, "NO_DESCRIPTION", _REFUSED, _PROCESS, _CALLER, "An error has no description.", "Give the description that the peer will read.",
)  # fmt: skip
UNKNOWN_CONTRACT = LocalCode(
    8425, "UNKNOWN_CONTRACT", _REFUSED, _PROCESS, _CALLER, "The service does not declare the contract.",
    "Add the contract to initiates=[...] of the service, and give the Contract object, not its name.",
)  # fmt: skip
HANDLE_NOT_FOUND = LocalCode(
    8426, "HANDLE_NOT_FOUND", _REFUSED, _OWNER, _CALLER, "No dialog has this id.",
    "Use the id that the client returned. A dialog that is over is forgotten after a while (the setting periods.grace).",
)  # fmt: skip
END_REFUSED = LocalCode(
    8427, "END_REFUSED", _REFUSED, _PROCESS, _CALLER, "The state of the dialog does not allow this side to end it.",
    "Usually the dialog has ended already, so there is nothing to do.",
)  # fmt: skip
SEND_REFUSED = LocalCode(
    8429, "SEND_REFUSED", _REFUSED, _PROCESS, _CALLER, "The state of the dialog does not allow this side to send.",
    "Usually the dialog is over. Ask dialog.is_open first, or begin a new dialog.",
)  # fmt: skip
BODY_NOT_EMPTY = LocalCode(
    8430, "BODY_NOT_EMPTY", _REFUSED, _PROCESS, _CALLER, "A message type without a body got a body.",
    "Send None, or declare a body for the message type.",
)  # fmt: skip
TYPE_NOT_IN_CONTRACT = LocalCode(
    8431, "TYPE_NOT_IN_CONTRACT", _REFUSED, _PROCESS, _CALLER, "The contract does not have the message type.",
    "Add the message type to the contract on both sides, or name the right one with type=.",
)  # fmt: skip
ONLY_TARGET_SENDS = LocalCode(
    8432, "ONLY_TARGET_SENDS", _REFUSED, _PROCESS, _CALLER, "The initiator tried to send a message type of the target.",
    "Send another message type, or move this one to sent_by_any=[...] on both sides.",
)  # fmt: skip
ONLY_INITIATOR_SENDS = LocalCode(
    8434, "ONLY_INITIATOR_SENDS", _REFUSED, _PROCESS, _CALLER, "The target tried to send a message type of the initiator.",
    "Send another message type, or move this one to sent_by_any=[...] on both sides.",
)  # fmt: skip
TIMER_REFUSED = LocalCode(
    8458, "TIMER_REFUSED", _REFUSED, _PROCESS, _CALLER, "The state of the dialog does not allow a timer.",
    "Usually the dialog is over. Ask dialog.is_open first.",
)  # fmt: skip
BODY_TOO_LARGE = LocalCode(
    8459, "BODY_TOO_LARGE", _REFUSED, _PROCESS, _CALLER, "A body, or a whole command, is larger than its limit.",
    "Send less at once, or keep the bytes elsewhere and send their address. The setting limits.body_bytes has the limit of a body.",
)  # fmt: skip
NO_SUCH_SERVICE = LocalCode(
    8490, "NO_SUCH_SERVICE", _REFUSED, _PROCESS, _CALLER, "The catalog does not name the service.",
    "Correct the name, or run `conversations apply` for the service. With wait_for_service=True the dialog waits for it.",
)  # fmt: skip
INITIATOR_SENDS_NOTHING = LocalCode(
    8492, "INITIATOR_SENDS_NOTHING", _REFUSED, _PROCESS, _CALLER, "A contract does not allow its initiator to send anything.",
    "Name a message type in sent_by_initiator=[...] or sent_by_any=[...]: the first message begins the dialog.",
)  # fmt: skip
NAMES_NO_GROUP = LocalCode(
    8494, "NAMES_NO_GROUP", _REFUSED, _PROCESS, _CALLER,
    "The contract does not let the service name the group at the target, or it requires a name and there is none.",
    "Add the service to group_named_by=[...] of the contract on both sides, or give to_group=... as the contract says.",
)  # fmt: skip
INVALID_BODY = LocalCode(
    9615, "INVALID_BODY", _REFUSED, _PROCESS, _CALLER, "The body does not fit its message type.", "Correct the field that the error names.",
)  # fmt: skip

# -- local codes for which Service Broker has no number ------------------------------------------------------------------

COMMAND_CONTRADICTS = LocalCode(
    50001, "COMMAND_CONTRADICTS", _REFUSED, _OWNER, _OPERATORS, "The operations of a command cannot be combined.",
    "Correct the program that wrote the command: docs/other-languages.md has the rules. A begin comes first and is the initiator's; an "
    "operation about a partition or a failed message stands alone.",
)  # fmt: skip
DIALOG_EXISTS = LocalCode(
    50002, "DIALOG_EXISTS", _REFUSED, _OWNER, _OPERATORS, "A dialog with this id exists already.",
    "Make a new id for each dialog (Client.new_id). To write to the existing dialog, use Client.dialog.",
)  # fmt: skip
COMMAND_DIFFERS = LocalCode(
    50003, "COMMAND_DIFFERS", _REFUSED, _OWNER, _OPERATORS,
    "A command with this id or idempotency key took effect before, and had another content.",
    "Use a new key for a new content. A repetition must have the same content.",
)  # fmt: skip
COMMAND_OUT_OF_TIME = LocalCode(
    50004, "COMMAND_OUT_OF_TIME", _REFUSED, _OWNER, _OPERATORS,
    "A command is too old, or it is dated too far ahead, so nobody knows whether it took effect before.",
    "Correct the clock of the client. Look whether the command took effect before you send it again (the setting periods.command_life).",
)  # fmt: skip
DECISION_REFUSED = LocalCode(
    50005, "DECISION_REFUSED", _REFUSED, _OWNER, _OPERATORS, "An operator's decision does not fit what waits now.",
    "List what waits (`conversations dead-letters list`), and decide again. Another decision or attempt came first.",
)  # fmt: skip
LETTER_NOT_OPEN = LocalCode(
    50006, "LETTER_NOT_OPEN", _REFUSED, _OWNER, _OPERATORS, "A letter that a command would close is not open, or not any more.",
    "List the open letters (`conversations dead-letters list --detached`). Usually somebody has closed the letter already.",
)  # fmt: skip
GROUP_FULL = LocalCode(
    50007, "GROUP_FULL", _REFUSED, _OWNER, _CALLER, "A conversation group has as many dialogs as it can have.",
    "End dialogs of the group, or begin the dialog in another group (related=False, or another to_group).",
)  # fmt: skip
CLOGGED = LocalCode(
    50008, "CLOGGED", _REFUSED, _OWNER, _OPERATORS, "Too many bytes wait for a destination that accepts no records.",
    "Send again later. Look why the peer's queue accepts no records: its topic, its rights, its brokers.",
)  # fmt: skip
COMMAND_MISPLACED = LocalCode(
    50009, "COMMAND_MISPLACED", _REFUSED, _OWNER, _OPERATORS, "A command came through a topic that is not for it.",
    "Write decisions of operators to the topic of decisions, and commands of clients to the topic of commands. An operator's tool of an "
    "older release must be updated.",
)  # fmt: skip

# -- application codes that this library sends ---------------------------------------------------------------------------

POISON = ApplicationCode(
    500, "POISON", ErrorClass.APPLICATION, Party.RECEIVER, Party.SENDER, "Unable to process message.",
    "Ask the operators of the peer: a policy gave up on a message and ended the dialog. A policy may name another code and text.",
)  # fmt: skip


ROWS: tuple[Code, ...] = tuple(it for it in list(globals().values()) if isinstance(it, Code))
"""All rows of this module."""
