"""Scripted services: they keep the messages that arrive, and a test tells them what to send."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

from conversations.bodies import codec_of
from conversations.config import WorkerSettings
from conversations.dialog import Dialog
from conversations.errors import DialogEnded, LocalError, PeerError, UnknownService
from conversations.memory.broker import MemoryBroker
from conversations.protocol import codes, rows
from conversations.protocol.admission import (
    check_contract,
    check_error,
    check_service,
    check_timer_name,
    check_to_group,
    expiry,
    micros,
)
from conversations.protocol.codes import LocalCode
from conversations.protocol.command import Begin, Command, End, EndWithError, Operation, Send, SetTimer, encode_command
from conversations.protocol.contract import Contract, as_contracts
from conversations.protocol.endpoint import NEVER
from conversations.protocol.identifiers import RANDOM_BITS, uuid7, uuid_text
from conversations.protocol.topics import COMMANDS, STATE, service_topic
from conversations.service import Service
from conversations.testing.faults import Chance

M = TypeVar("M")
Entry = dict[str, Any]
"""Data of one dialog of a peer. It is part of the group's state, so it is committed exactly once, with the handler's effects."""


class World(Protocol):
    """The part of a simulation that a peer uses."""

    chance: Chance
    settings: WorkerSettings

    def broker_of(self, service: str) -> MemoryBroker:
        """Return the broker of the cluster on which a service lives."""

    def deploy(self, service: Service[Any]) -> None:
        """Run a service; if it runs already, continue it with its new contracts."""


class PeerDialog:
    """The scripted side of one dialog. Its requests take effect in the next ``run`` of the simulation."""

    def __init__(self, peer: Peer, conversation: bytes, initiator: bool, key: str, contract: Contract) -> None:
        self._peer = peer
        self._conversation = conversation
        self._initiator = initiator
        self._key = key
        self._contract = contract
        self._taken: set[int] = set()
        self._ended_here = False

    def __repr__(self) -> str:
        return f"PeerDialog({self.id}, {self._contract.name}, of {self._peer.name})"

    @property
    def id(self) -> str:
        """Conversation id, the same on both sides."""
        return uuid_text(self._conversation)

    # -- speaking -----------------------------------------------------------------------------------------

    def send(self, body: object, /, *, type: str | None = None) -> None:  # noqa: A002 - `type` is the word of this domain
        """Send a message.

        Raises:
            DialogEnded: this side is over (8429).
            NotInContract, WrongDirection, InvalidBody: the contract does not let this side send the body.
        """
        self._check_open(codes.SEND_REFUSED)
        declared = self._contract.outgoing(body, type, self._initiator)
        codec = codec_of(declared)
        self._ask(Send(declared.name, codec.content_type, codec.encode(body)))

    def end(self) -> None:
        """End this side.

        Raises:
            DialogEnded: this side is over already (8427).
        """
        self._check_open(codes.END_REFUSED)
        self._ended_here = True
        self._ask(End())

    def end_with_error(self, code: int, description: str) -> None:
        """End this side with an error.

        Raises:
            DialogEnded: this side is over already (8427).
            LocalError: the code is not positive (8419), or the description is missing (8422).
        """
        self._check_open(codes.END_REFUSED)
        check_error(code, description)
        self._ended_here = True
        self._ask(EndWithError(code, description))

    def set_timer(self, after: timedelta, *, name: str = "") -> None:
        """Set a timer of the dialog. The property ``timers`` shows how often a timer fired."""
        self._check_open(codes.TIMER_REFUSED)
        check_timer_name(name)
        self._ask(SetTimer(micros(after, "a timer"), name))

    def cancel_timer(self, *, name: str = "") -> None:
        """Cancel the dialog's timer of this name."""
        check_timer_name(name)
        self._ask(SetTimer(-1, name))

    def _check_open(self, code: LocalCode) -> None:
        if self.ended:
            raise DialogEnded(f"dialog {self.id} is over on the side of {self._peer.name} ({code.number})", code=code)

    def _ask(self, *operations: Operation) -> None:
        self._peer._post(self._conversation, self._initiator, self._key, operations)  # noqa: SLF001 - same module

    # -- what arrived ---------------------------------------------------------------------------------------

    def received(self) -> list[object]:
        """Return all bodies that arrived, in order, including the bodies that ``take`` has returned."""
        return [self._decode(name, body) for name, body in self._messages()]

    def take(self, message: type[M], /) -> M:
        """Return the first body of this class that ``take`` has not returned yet.

        Raises:
            AssertionError: there is no such body. The message lists the bodies that arrived.
            LocalError: ``message`` is no class.
        """
        if not isinstance(message, type):
            raise LocalError(f"take() takes the class of the body, not {message!r:.80}; received() has all bodies")
        bodies = self.received()
        for index, body in enumerate(bodies):
            if index not in self._taken and isinstance(body, message):
                self._taken.add(index)
                return body
        arrived = ", ".join(
            f"{type(body).__name__} (taken)" if index in self._taken else repr(body)
            for index, body in enumerate(bodies)
        )
        over = f"; the dialog broke: {self.error}" if self.error else "; the dialog was ended" if self.ended else ""
        raise AssertionError(
            f"no {message.__name__} arrived at {self._peer.name} on dialog {self.id}; "
            f"arrived: {arrived or 'nothing'}{over}. Was sim.run() called?"
        )

    @property
    def ended(self) -> bool:
        """True if the dialog was ended by this side or the other side, or if it broke."""
        entry = self._peer._entry(self._name)  # noqa: SLF001 - same module
        return self._ended_here or bool(entry.get("ended")) or "error" in entry

    @property
    def error(self) -> PeerError | None:
        """The error with which the dialog broke, None if it did not break."""
        error = self._peer._entry(self._name).get("error")  # noqa: SLF001 - same module
        return None if error is None else PeerError(error[0], error[1])

    @property
    def timers(self) -> int:
        """Number of times that a timer of the dialog fired."""
        return int(self._peer._entry(self._name).get("timers", 0))  # noqa: SLF001 - same module

    @property
    def _name(self) -> str:
        return _entry_name(self.id, self._initiator)

    def _messages(self) -> list[tuple[str, str]]:
        messages: list[tuple[str, str]] = self._peer._entry(self._name).get("messages", [])  # noqa: SLF001 - same module
        return messages

    def _decode(self, name: str, body: str) -> object:
        return codec_of(self._contract.types[name]).decode(b64decode(body))


class Peer:
    """A scripted service, run by the same worker, codec and log as the services under test."""

    def __init__(self, world: World, name: str, accepts: Sequence[Contract], initiates: Sequence[Contract]) -> None:
        self.name = name
        self._world = world
        self._accepts = {contract.name: contract for contract in as_contracts("accepts", accepts)}
        self._initiates = {contract.name: contract for contract in initiates}
        self._dialogs: dict[str, PeerDialog] = {}
        self._entries: dict[str, Entry] = {}
        self._read: dict[int, int] = {}
        self._deploy()

    def __repr__(self) -> str:
        return f"Peer({self.name!r})"

    def accept(self, contracts: Sequence[Contract]) -> None:
        """Accept these contracts too."""
        more = {contract.name: contract for contract in as_contracts("accepts", contracts)}
        if not more.keys() <= self._accepts.keys():
            self._accepts |= more
            self._deploy()

    def begin_dialog(
        self,
        to: str,
        contract: Contract,
        *,
        lifetime: timedelta | None = None,
        to_group: str | None = None,
        wait_for_service: bool = False,
    ) -> PeerDialog:
        """Begin a dialog. If the peer does not initiate the contract yet, the contract is added.

        Raises:
            UnknownService: no service ``to`` takes part in the simulation (8490), and ``wait_for_service`` is False.
            LocalError: ``to`` is no name of a service (8490), the lifetime is not positive or longer than the contract's (8411), or ``to_group`` does not fit the
                contract (8494).
        """
        check_service(to)
        check_contract(contract)
        broker = self._world.broker_of(self.name)
        services = broker.known()
        if not wait_for_service and to not in services:
            raise UnknownService(
                f"no service {to!r} takes part in this simulation (8490); there are: {', '.join(sorted(services))}. Give it to "
                f"Simulation(...), script it with sim.peer({to!r}, accepts=[...]), or begin the dialog with wait_for_service=True"
            )
        check_to_group(contract, self.name, to_group)
        if self._initiates.get(contract.name) is not contract:
            self._initiates[contract.name] = contract
            self._deploy()
        chance = self._world.chance
        now = broker.clock.now()
        drawn = uuid7(now, chance.random.getrandbits(RANDOM_BITS))
        until = expiry(now, lifetime, contract, self._world.settings.periods.lifetime)
        dialog = PeerDialog(self, drawn.bytes, True, str(drawn), contract)
        self._dialogs[_entry_name(dialog.id, True)] = dialog
        begin = Begin(to, contract.name, -1 if until >= NEVER else until - now, to_group or "")
        self._post(drawn.bytes, True, str(drawn), (begin,))
        return dialog

    def dialogs(self) -> list[PeerDialog]:
        """Return the dialogs of this peer, in the order in which they appeared.

        A dialog that another service began appears when its first handler has run.
        """
        self._catch_up()
        return list(self._dialogs.values())

    def dialog(self) -> PeerDialog:
        """Return the only dialog.

        Raises:
            AssertionError: there is none, or more than one.
        """
        found = self.dialogs()
        if len(found) != 1:
            known = ", ".join(repr(dialog) for dialog in found) or "none"
            raise AssertionError(f"{self.name} should have one dialog, it has {len(found)}: {known}")
        return found[0]

    def _post(self, conversation: bytes, initiator: bool, key: str, operations: tuple[Operation, ...]) -> None:
        """Append a command to the commands topic of this service, as a client does."""
        broker, random = self._world.broker_of(self.name), self._world.chance.random
        command = Command(
            random.randbytes(16), conversation, initiator, key, "", self.name, broker.clock.now(), operations
        )
        broker.append_keyed(self.name, COMMANDS, key.encode(), encode_command(command))

    def _entry(self, name: str) -> Entry:
        """Return the data of a dialog, empty if there is none."""
        self._catch_up()
        return self._entries.get(name, {})

    def _deploy(self) -> None:
        self._world.deploy(scripted(self.name, list(self._accepts.values()), list(self._initiates.values())))

    def _catch_up(self) -> None:
        """Read the group rows that were committed since the last call. The data stays here when a group's row is deleted."""
        broker = self._world.broker_of(self.name)
        for number, records in enumerate(broker.topics[service_topic(broker.namespace, self.name, STATE)]):
            start = self._read.get(number, 0)
            self._read[number] = len(records)
            for record in records[start:]:
                value = record.value()
                if record.visible and value is not None and (record.key() or b"").startswith(rows.GROUP):
                    self._take_up(rows.decode_group(value))

    def _take_up(self, group: rows.GroupRow) -> None:
        if not group.state:
            return
        for name, entry in scripted_state(group.state).items():
            self._entries[name] = entry
            if name not in self._dialogs:
                contracts = self._initiates if entry["initiator"] else self._accepts
                conversation = UUID(entry["id"]).bytes
                self._dialogs[name] = PeerDialog(
                    self, conversation, entry["initiator"], entry["key"], contracts[entry["contract"]]
                )


_CODEC: Service[dict[str, Any]] = Service("entries")


def scripted_state(state: bytes) -> dict[str, Entry]:
    """Decode the state of a scripted service's group."""
    decoded: dict[str, Entry] = _CODEC.state.decode(state, 1)
    return decoded


def scripted(name: str, accepts: Sequence[Contract], initiates: Sequence[Contract]) -> Service[dict[str, Any]]:
    """Make a service that keeps everything it receives in the state of its groups."""
    service = Service(name, accepts=accepts, initiates=initiates)
    received = {t.name: t for c in accepts for t in c.by_initiator.values()}
    received |= {t.name: t for c in initiates for t in c.by_target.values()}
    for declared in received.values():
        service.on(declared.name)(_recorder())
        for version in range(1, declared.version):
            service.upgrade(declared, version)(lambda body: body)
    service.on_end()(_ended)
    service.on_error()(_broken)
    service.on_timer()(_fired)
    return service


def _recorder() -> Callable[[Any, Dialog[dict[str, Any]]], None]:
    def keep(body: Any, dialog: Dialog[dict[str, Any]]) -> None:
        declared = dialog._party.side.contract.types[dialog.message.type]  # noqa: SLF001 - the kit looks inside
        encoded = b64encode(codec_of(declared).encode(body)).decode()
        _entry(dialog)["messages"].append((declared.name, encoded))

    return keep


def _ended(dialog: Dialog[dict[str, Any]]) -> None:
    _entry(dialog)["ended"] = True


def _broken(error: PeerError, dialog: Dialog[dict[str, Any]]) -> None:
    _entry(dialog)["error"] = (error.code, error.description)


def _fired(dialog: Dialog[dict[str, Any]]) -> None:
    entry = _entry(dialog)
    entry["timers"] = entry.get("timers", 0) + 1


def _entry(dialog: Dialog[dict[str, Any]]) -> Entry:
    fresh: Entry = {
        "id": dialog.id, "initiator": dialog.is_initiator, "key": dialog.group.key, "contract": dialog.contract,
        "messages": [],
    }  # fmt: skip
    entry: Entry = dialog.group.state.setdefault(_entry_name(dialog.id, dialog.is_initiator), fresh)
    return entry


def _entry_name(conversation: str, initiator: bool) -> str:
    return f"{conversation}/{'initiator' if initiator else 'target'}"
