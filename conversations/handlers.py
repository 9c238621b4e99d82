"""One side of a contract in a service: the codecs of its messages, and the handler of each message type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conversations.bodies import BodyCodec, codec_of
from conversations.body_upgrades import BodyUpgrades
from conversations.protocol.contract import Contract, MessageType, Resend


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered function."""

    function: Callable[..., Any]
    is_async: bool
    time_limit: float
    """Seconds that the handler may run."""
    name: str
    warned: list[bool] = field(default_factory=list, compare=False, repr=False)
    """Not empty after a warning that the handler returns a value."""


def unknown_side(contract: str, initiator: bool) -> Side:
    """Make a side for a contract that a temporary service no longer declares. Each message that arrives under it breaks its dialog."""
    return Side(Contract(contract, sent_by_any=[MessageType("unknown", None)]), initiator, BodyUpgrades(""))


@dataclass(slots=True)
class Side:
    """The handlers of a service on one side of one contract; made by ``Service.check``."""

    contract: Contract
    initiator: bool
    upgrades: BodyUpgrades
    senders: dict[type, BodyCodec] = field(default_factory=dict)
    """Codec by body class, for the message types that this side may send."""
    receivers: dict[str, tuple[BodyCodec, Handler | None]] = field(default_factory=dict)
    """Codec and handler by message type, for the types that this side may receive. The handler of an ignored type is None."""
    on_end: Handler | None = None
    on_error: Handler | None = None
    on_timer: Handler | None = None
    on_skipped: Handler | None = None

    @property
    def keeps_sent(self) -> bool:
        """True if this side keeps the messages that it sends until they are acknowledged."""
        return self.initiator and self.contract.resend is not Resend.OFF

    @property
    def renews(self) -> bool:
        """True if a new dialog carries on when a dialog of this side breaks."""
        return self.initiator and self.contract.resend is Resend.AUTOMATIC

    def outgoing(self, body: object, name: Any) -> BodyCodec:
        """Find the codec with which ``body`` is sent.

        Raises:
            NotInContract, WrongDirection: ``Contract.outgoing`` refuses the body or the name.
        """
        if name is None:
            codec = self.senders.get(type(body))
            if codec is not None:
                return codec
        return codec_of(self.contract.outgoing(body, name, self.initiator))
