"""Dialogs on Apache Kafka: two-way, typed, long-lived conversations, exactly once and in order.

All public names are here. Each name is loaded when it is first used, so that ``conversations.protocol`` can be imported without librdkafka.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from conversations.form import choose

if TYPE_CHECKING:  # type checkers and editors do not see the names that are loaded later
    from conversations.client import Client
    from conversations.client_dialog import ClientDialog
    from conversations.config import Brake, Kafka, Limits, WorkerSettings
    from conversations.dialog import Dialog, Group
    from conversations.dialog_view import DialogView, Received, Sent, Status
    from conversations.errors import (
        BodyTooLarge,
        ConversationError,
        DeclarationError,
        DialogEnded,
        GiveUp,
        HandlerOver,
        InvalidBody,
        KafkaUnreachable,
        LocalError,
        LogError,
        NewerState,
        NotAccepted,
        NotInContract,
        NoWorkerHere,
        PeerError,
        PublicationRefused,
        RequestTimeout,
        RetryLater,
        StateUpgradeError,
        TimeLimitExceeded,
        UnknownContract,
        UnknownService,
        WrongDirection,
    )
    from conversations.feeds import NewDialog
    from conversations.group_state import GroupState
    from conversations.local import local
    from conversations.many_dialogs import Begun, Opening
    from conversations.message_info import MessageInfo
    from conversations.pending import Pending
    from conversations.pending_messages import PendingMessage
    from conversations.poison import PoisonPolicy, Then
    from conversations.pool import Pool
    from conversations.pool_sender import PoolSender
    from conversations.protocol.codes import ErrorClass
    from conversations.protocol.contract import ANY_SERVICE, Contract, MessageType, Resend, message_type
    from conversations.protocol.plain_records import PlainRecord
    from conversations.queue_disabled import QueueDisabled
    from conversations.reader import Reader
    from conversations.run import run
    from conversations.service import Service

choose()  # before the first module of the hot path is imported

_HOMES = {
    "client": ("Client",),
    "client_dialog": ("ClientDialog",),
    "config": ("Brake", "Kafka", "Limits", "WorkerSettings"),
    "dialog": ("Dialog", "Group"),
    "dialog_view": ("DialogView", "Received", "Sent", "Status"),
    "message_info": ("MessageInfo",),
    "errors": (
        "BodyTooLarge",
        "ConversationError",
        "DeclarationError",
        "DialogEnded",
        "GiveUp",
        "HandlerOver",
        "InvalidBody",
        "KafkaUnreachable",
        "LocalError",
        "LogError",
        "NewerState",
        "NoWorkerHere",
        "NotAccepted",
        "NotInContract",
        "PeerError",
        "PublicationRefused",
        "RequestTimeout",
        "RetryLater",
        "StateUpgradeError",
        "TimeLimitExceeded",
        "UnknownContract",
        "UnknownService",
        "WrongDirection",
    ),
    "feeds": ("NewDialog",),
    "group_state": ("GroupState",),
    "local": ("local",),
    "many_dialogs": ("Begun", "Opening"),
    "pending": ("Pending",),
    "pending_messages": ("PendingMessage",),
    "poison": ("PoisonPolicy", "Then"),
    "pool": ("Pool",),
    "pool_sender": ("PoolSender",),
    "protocol.codes": ("ErrorClass",),
    "protocol.contract": ("ANY_SERVICE", "Contract", "MessageType", "Resend", "message_type"),
    "protocol.plain_records": ("PlainRecord",),
    "reader": ("Reader",),
    "run": ("run",),
    "service": ("QueueDisabled", "Service"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ANY_SERVICE", "Begun", "BodyTooLarge", "Brake", "Client", "ClientDialog", "Contract", "ConversationError", "DeclarationError",
    "Dialog", "DialogEnded", "DialogView", "ErrorClass", "GiveUp", "Group", "GroupState", "HandlerOver", "InvalidBody", "Kafka",
    "KafkaUnreachable", "Limits", "LocalError", "LogError", "MessageInfo", "MessageType", "NewDialog", "NewerState", "NoWorkerHere",
    "NotAccepted", "NotInContract", "Opening", "PeerError", "Pending", "PendingMessage", "PlainRecord", "PoisonPolicy", "Pool", "PoolSender",
    "PublicationRefused", "QueueDisabled", "Reader", "Received", "RequestTimeout", "Resend", "RetryLater", "Sent", "Service",
    "StateUpgradeError", "Status", "Then", "TimeLimitExceeded", "UnknownContract", "UnknownService", "WorkerSettings", "WrongDirection",
    "local", "message_type", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("kafka-dialogs")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """The class of this package's module.

    An import of the module ``local`` or ``run`` would replace the function of the same name. The class prevents this.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOME_OF.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
