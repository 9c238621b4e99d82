"""Laws of speaking from outside: a block is one command, written when it is left, and wrong requests write nothing."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from conversations import Begun, Client, Contract, Kafka, MessageType, Opening, Service
from conversations.config import Limits
from conversations.errors import (
    BodyTooLarge,
    DialogEnded,
    LocalError,
    LogError,
    NotAccepted,
    NotInContract,
    NoWorkerHere,
    UnknownContract,
    UnknownService,
    WrongDirection,
)
from conversations.local import LocalClient, MemoryCommands
from conversations.many_dialogs import UNDER_WAY
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.ports import Headers
from conversations.protocol.command import Begin, Command, End, EndWithError, Send, SetTimer, decode_command
from conversations.protocol.identifiers import drawn_at
from conversations.protocol.limits import OPERATIONS


class Ask(BaseModel):
    text: str = ""


class Answer(BaseModel):
    text: str = ""


SALES = Contract("Sales", sent_by_initiator=[Ask], sent_by_target=[Answer], lifetime=timedelta(hours=2))
OTHER = Contract("Other", sent_by_initiator=[Ask])
WEB = Service("web", initiates=[SALES], ignores=[Answer])


SMALL = Limits(body_bytes=500_000)


class Speaker:
    """A client whose commands can be read."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(SystemClock())
        self.broker.create_service("web", 4)
        self.broker.create_service("shop", 1)
        self.client = LocalClient(WEB, Kafka("memory"), MemoryCommands(self.broker, "web"))

    def written(self) -> list[Command]:
        partitions = self.broker.topics["conv.web.commands"]
        return [decode_command(record.value() or b"") for records in partitions for record in records]


@pytest.fixture
def speaker() -> Speaker:
    return Speaker()


def test_a_block_is_one_command(speaker: Speaker) -> None:
    """Begin, sends, timer and end take effect together or not at all."""
    with speaker.client.begin_dialog("shop", SALES) as dialog:
        dialog.send(Ask(text="1"))
        dialog.set_timer(timedelta(seconds=2))
        dialog.cancel_timer()
        dialog.end()
        assert speaker.written() == []
    (command,) = speaker.written()
    assert command.operations == (
        Begin("shop", "Sales", 7_200_000_000),
        Send("Ask", "application/json", b'{"text":"1"}'),
        SetTimer(2_000_000),
        SetTimer(-1),
        End(),
    )
    assert (command.issued_by, command.key, command.from_initiator) == ("web", dialog.id, True)


def test_a_block_that_fails_writes_nothing(speaker: Speaker) -> None:
    """An exception inside is the end of it."""

    def speak() -> None:
        with speaker.client.begin_dialog("shop", SALES) as dialog:
            dialog.send(Ask())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        speak()
    assert speaker.written() == []


def operations(speaker: Speaker) -> list[list[type]]:
    return [[type(operation) for operation in command.operations] for command in speaker.written()]


def test_nothing_of_a_block_that_fails_is_left_for_the_next_one(speaker: Speaker) -> None:
    """The same object may have several blocks, and the first that succeeds begins the dialog."""
    dialog = speaker.client.begin_dialog("shop", SALES)

    def fail(verb: Callable[[], None]) -> None:
        with dialog:
            verb()
            raise ZeroDivisionError

    async def fail_async() -> None:
        async with dialog:
            dialog.end()
            raise ZeroDivisionError

    for verb in (lambda: dialog.send(Ask(text="lost"), key="k"), dialog.end, lambda: dialog.end_with_error(1, "no")):
        with pytest.raises(ZeroDivisionError):
            fail(verb)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail_async())
    with dialog:
        dialog.send(Ask(text="first"))
    with pytest.raises(ZeroDivisionError):
        fail(lambda: dialog.send(Ask(text="lost")))
    with dialog:
        dialog.send(Ask(text="second"))
    assert operations(speaker) == [[Begin, Send], [Send]]
    assert [command.idempotency_key for command in speaker.written()] == ["", ""]


class Failing:
    """A sink of commands that fails until it is told to work."""

    def __init__(self, speaker: Speaker) -> None:
        self._sink = speaker.client.sink()
        self.way = "raises"

    def append_async(self, *what: Any, **how: Any) -> Future[None]:
        if self.way == "works":
            return self._sink.append_async(*what, **how)
        if self.way == "raises":
            raise LogError("no")
        failed: Future[None] = Future()
        if self.way == "fails":
            failed.set_exception(LogError("no"))
        return failed


@pytest.mark.parametrize("way", ["raises", "fails", "never ends"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_block_that_was_not_written_or_perhaps_not_can_be_repeated_as_a_whole(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch, way: str, is_async: bool
) -> None:
    """The repetition begins the dialog, too: the first block may have had no effect."""
    sink = Failing(speaker)
    monkeypatch.setattr(speaker.client, "sink", lambda: sink)
    monkeypatch.setattr(speaker.client, "timeout", timedelta(seconds=0.1))
    dialog = speaker.client.begin_dialog("shop", SALES)

    def note() -> None:
        dialog.send(Ask(text="all"), key="k")
        dialog.end()

    async def block_async() -> None:
        async with dialog:
            note()

    def block() -> None:
        if is_async:
            asyncio.run(block_async())
        else:
            with dialog:
                note()

    for sink.way in (way, way, "works"):
        if sink.way == "works":
            block()
        else:
            with pytest.raises(
                LogError if way != "never ends" else NotAccepted, match=r"^no$|with the same dialog object"
            ):
                block()
    assert operations(speaker) == [[Begin, Send, End]]


def test_no_other_block_follows_one_that_began_its_dialog_and_was_perhaps_written(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner would refuse it, if the first one took effect or if it did not."""
    sink = Failing(speaker)
    monkeypatch.setattr(speaker.client, "sink", lambda: sink)
    dialog = speaker.client.begin_dialog("shop", SALES)

    def block(text: str, key: str | None = None) -> None:
        with dialog:
            dialog.send(Ask(text=text), key=key)

    sink.way = "raises"
    with pytest.raises(LogError):
        block("surely not written")
    sink.way = "fails"
    with pytest.raises(LogError):
        block("one")
    sink.way = "works"
    for text, key in (("two", None), ("one", "key")):
        with pytest.raises(LocalError, match="was not confirmed and may take effect: repeat it first"):
            block(text, key)
    block("one")
    block("two")
    assert operations(speaker) == [[Begin, Send], [Send]]


def test_a_block_that_is_too_large_or_for_nobody_may_be_made_again(speaker: Speaker) -> None:
    """Nothing was written, also not the beginning of its dialog."""
    dialog = speaker.client.begin_dialog("shop", SALES)

    def speak(count: int) -> None:
        with dialog:
            for _ in range(count):
                dialog.send(Ask())

    with pytest.raises(BodyTooLarge):
        speak(OPERATIONS)
    speak(1)
    nobody = speaker.client.begin_dialog("later", SALES)
    for _ in range(2):
        with pytest.raises(UnknownService), nobody:
            nobody.send(Ask())
    assert operations(speaker) == [[Begin, Send]]


def test_a_key_is_that_of_one_block(speaker: Speaker) -> None:
    with speaker.client.begin_dialog("shop", SALES) as dialog:
        dialog.send(Ask(text="a"), key="k")
        dialog.send(Ask(text="b"), key="k")
        dialog.send(Ask(text="c"))
        with pytest.raises(LocalError, match="a block has one key, and this one has key='k'"):
            dialog.send(Ask(text="d"), key="other")
    with dialog:
        dialog.send(Ask(text="e"))
    assert [(command.idempotency_key, len(command.operations)) for command in speaker.written()] == [("k", 4), ("", 1)]


def test_an_async_block_is_the_same(speaker: Speaker) -> None:
    """One shell: ``async with`` writes what ``with`` writes."""

    async def speak() -> None:
        async with speaker.client, speaker.client.begin_dialog("shop", SALES) as dialog:
            dialog.send(Ask())

    asyncio.run(speak())
    assert [type(operation) for operation in speaker.written()[0].operations] == [Begin, Send]


def test_speaking_on_an_existing_dialog_needs_only_its_id(speaker: Speaker) -> None:
    """The handle tells the group too."""
    with speaker.client.begin_dialog("shop", SALES, group="customer-7") as dialog:
        pass
    with speaker.client.dialog(dialog.id) as again:
        again.send(Ask(), key="once")
    first, second = sorted(
        speaker.written(), key=lambda command: isinstance(command.operations[0], Begin), reverse=True
    )
    assert first.conversation_id == second.conversation_id
    assert first.key == second.key == "customer-7"
    assert second.idempotency_key == "once"


def test_on_an_existing_dialog_a_class_finds_the_message_type_that_names_it() -> None:
    named = Contract("Named", sent_by_initiator=[MessageType("sales.Ask", Ask)])
    broker = MemoryBroker(SystemClock())
    broker.create_service("web", 4)
    service = Service("web", initiates=[named])
    client = LocalClient(service, Kafka("memory"), MemoryCommands(broker, "web"))
    with client.dialog(Client.new_id()) as dialog:
        dialog.send(Ask(text="?"))
    ((record,),) = [records for records in broker.topics["conv.web.commands"] if records]
    (send,) = decode_command(record.value() or b"").operations
    assert isinstance(send, Send)
    assert send.message_type == "sales.Ask"


def test_an_id_may_be_drawn_before(speaker: Speaker) -> None:
    """Beginning with it twice is the same request twice; its age can be read off."""
    drawn = Client.new_id()
    for _ in range(2):
        with speaker.client.begin_dialog("shop", SALES, id=drawn) as dialog:
            assert dialog.id == drawn
    first, second = speaker.written()
    assert first.conversation_id == second.conversation_id
    assert first.operations == second.operations
    assert first.command_id != second.command_id
    age = drawn_at(first.conversation_id)
    assert age is not None
    assert abs(first.issued_at - age) < 10_000_000


def test_an_empty_block_on_a_dialog_writes_nothing(speaker: Speaker) -> None:
    """There is nothing to say."""
    with speaker.client.dialog(Client.new_id()):
        pass
    assert speaker.written() == []


def test_an_error_drops_the_messages_of_its_block(speaker: Speaker) -> None:
    """As in a handler; the begin stays, or the error would have no dialog."""
    with speaker.client.begin_dialog("shop", SALES) as dialog:
        dialog.send(Ask())
        dialog.end_with_error(3, "x" * 5000)
    (command,) = speaker.written()
    assert command.operations[1:] == (EndWithError(3, "x" * 3000),)


def test_after_the_end_the_block_is_over(speaker: Speaker) -> None:
    """8429, 8427, 8458: nothing more is noted."""
    codes = []
    with speaker.client.begin_dialog("shop", SALES) as dialog:
        dialog.end()
        verbs: list[Callable[[], object]] = [
            lambda: dialog.send(Ask()),
            dialog.end,
            lambda: dialog.end_with_error(1, "x"),
            lambda: dialog.set_timer(timedelta(1)),
        ]
        for verb in verbs:
            with pytest.raises(DialogEnded) as refused:
                verb()
            codes.append(refused.value.code)
    assert codes == [8429, 8427, 8427, 8458]
    assert len(speaker.written()[0].operations) == 2


def test_what_the_contract_forbids_is_refused_before_anything_is_written(speaker: Speaker) -> None:
    """Direction, type, size: the client knows its service's contracts, on new dialogs and on old ones."""
    speaker.client.limits = SMALL
    with speaker.client.begin_dialog("shop", SALES) as dialog:
        with pytest.raises(WrongDirection):
            dialog.send(Answer())
        with pytest.raises(NotInContract):
            dialog.send(3)
        with pytest.raises(BodyTooLarge):
            dialog.send(Ask(text="x" * 1_000_000))
    with speaker.client.dialog(Client.new_id()) as old, pytest.raises(WrongDirection):
        old.send(Answer())
    assert [type(operation) for operation in speaker.written()[0].operations] == [Begin]


def test_a_contract_the_service_does_not_initiate_is_refused(speaker: Speaker) -> None:
    """8425."""
    with pytest.raises(UnknownContract) as refused:
        speaker.client.begin_dialog("shop", OTHER)
    assert refused.value.code == 8425


@pytest.mark.parametrize("text", ["", "x", "b9c9c7a4-38a5-4ab5-8d1c-0b6a4a3f6f3e"])
def test_an_id_of_another_kind_is_refused(speaker: Speaker, text: str) -> None:
    """Not a UUID, or one whose age cannot be read off."""
    with pytest.raises(LocalError) as refused:
        speaker.client.begin_dialog("shop", SALES, id=text)
    assert refused.value.code == 8426


def test_lifetimes_are_the_dialogs_the_contracts_or_unlimited(speaker: Speaker) -> None:
    """0 is refused, None in the contract is for ever."""
    forever = Contract("Forever", sent_by_initiator=[Ask], lifetime=None)
    client = LocalClient(
        Service("web", initiates=[SALES, forever], ignores=[Answer]),
        Kafka("memory"),
        MemoryCommands(speaker.broker, "web"),
    )
    for contract, lifetime in ((SALES, timedelta(seconds=1)), (SALES, None), (forever, None)):
        with client.begin_dialog("shop", contract, lifetime=lifetime):
            pass
    begins = [command.operations[0] for command in speaker.written()]
    assert sorted(begin.lifetime for begin in begins if isinstance(begin, Begin)) == [-1, 1_000_000, 7_200_000_000]
    with pytest.raises(LocalError) as refused:
        client.begin_dialog("shop", SALES, lifetime=timedelta(0))
    assert refused.value.code == 8411


def test_a_timer_that_would_never_fire_is_refused_in_the_block_that_begins_its_dialog(speaker: Speaker) -> None:
    """8410. The lifetime of another dialog is known to its owner alone."""
    minute = timedelta(minutes=1)
    with speaker.client.begin_dialog("shop", SALES, lifetime=minute) as dialog:
        for after in (minute, 2 * minute, timedelta.max):
            with pytest.raises(LocalError) as refused:
                dialog.set_timer(after)
            assert refused.value.code == 8410
        dialog.set_timer(minute - timedelta(microseconds=1))
    with speaker.client.dialog(dialog.id) as later:
        later.set_timer(timedelta.max)
    assert [len(command.operations) for command in speaker.written()] == [2, 1]


def test_timers_have_names_in_a_block(speaker: Speaker) -> None:
    with speaker.client.begin_dialog("shop", SALES) as dialog:
        dialog.set_timer(timedelta(seconds=2), name="reminder")
        dialog.cancel_timer(name="give-up")
        for name in ("two words", "a" * 65, None):
            with pytest.raises(LocalError, match="name of a timer"):
                dialog.set_timer(timedelta(seconds=2), name=name)  # type: ignore[arg-type]  # what somebody in a hurry writes
            with pytest.raises(LocalError, match="name of a timer"):
                dialog.cancel_timer(name=name)  # type: ignore[arg-type]  # the same
    (command,) = speaker.written()
    assert command.operations[1:] == (SetTimer(2_000_000, "reminder"), SetTimer(-1, "give-up"))


class Deaf:
    """A Kafka that never confirms."""

    def append_async(
        self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
    ) -> Future[None]:
        return Future()

    def close(self) -> None:
        """Nothing to close."""


def test_a_write_that_is_not_confirmed_says_so() -> None:
    """NotAccepted, with the id: the same block again is harmless."""
    client = LocalClient(WEB, Kafka("memory"), Deaf())
    client.timeout = timedelta(milliseconds=1)
    dialog = client.begin_dialog("shop", SALES)
    with pytest.raises(NotAccepted, match=dialog.id), dialog:
        dialog.send(Ask())

    async def speak() -> None:
        async with client.begin_dialog("shop", SALES) as other:
            other.send(Ask())

    with pytest.raises(NotAccepted):
        asyncio.run(speak())


def test_a_request_needs_a_worker_of_its_service_in_this_process(speaker: Speaker) -> None:
    """Its reply would arrive elsewhere."""
    with pytest.raises(NoWorkerHere, match="web"):
        speaker.client.request("shop", SALES, Ask(), reply=Answer, timeout=timedelta(seconds=1))
    assert speaker.written() == []


def test_a_dialog_with_a_service_that_nobody_knows_is_refused_unless_it_may_wait(speaker: Speaker) -> None:
    with (
        pytest.raises(UnknownService, match=r"'shpo'.*wait_for_service=True"),
        speaker.client.begin_dialog("shpo", SALES),
    ):
        pass

    async def begin() -> None:
        async with speaker.client.begin_dialog("shpo", SALES):
            pass

    with pytest.raises(UnknownService):
        asyncio.run(begin())
    assert speaker.written() == []
    with speaker.client.begin_dialog("shpo", SALES, wait_for_service=True) as dialog:
        pass
    with speaker.client.dialog(dialog.id) as again:
        again.send(Ask(text="?"), type="Ask")
    assert [type(operation) for command in speaker.written() for operation in command.operations] == [Begin, Send]


def test_making_a_client_does_no_io() -> None:
    """It may be made before a fork, and where no Kafka is."""
    with Client("web", Kafka("127.0.0.1:1")) as client, client.dialog(Client.new_id()):
        pass


BUYER = Service("buyer", accepts=[SALES], ignores=[Ask])


class Acceptor(Speaker):
    """A client of a service that accepts dialogs."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.create_service("buyer", 4)
        self.client = LocalClient(BUYER, Kafka("memory"), MemoryCommands(self.broker, "buyer"))

    def written(self) -> list[Command]:
        partitions = self.broker.topics["conv.buyer.commands"]
        return [decode_command(record.value() or b"") for records in partitions for record in records]


def test_a_client_speaks_on_the_side_that_its_handle_names() -> None:
    """The side of the target may send what the target sends; its commands have its side and the key of its group."""
    acceptor = Acceptor()
    conversation = Client.new_id()
    with acceptor.client.dialog(f"{conversation}:target@account-7") as dialog:
        dialog.send(Answer())
        dialog.set_timer(timedelta(minutes=1))
        dialog.end()
    (command,) = acceptor.written()
    assert (command.from_initiator, command.key, command.conversation_id) == (
        False,
        "account-7",
        UUID(conversation).bytes,
    )
    assert [type(operation) for operation in command.operations] == [Send, SetTimer, End]
    assert dialog.id == f"{conversation}:target@account-7"


def test_a_wrong_message_on_the_accepted_side_is_refused_before_anything_is_written() -> None:
    acceptor = Acceptor()
    acceptor.client.limits = SMALL
    with acceptor.client.dialog(f"{Client.new_id()}:target") as dialog:
        with pytest.raises(WrongDirection):
            dialog.send(Ask())
        with pytest.raises(NotInContract):
            dialog.send(3)
        with pytest.raises(NotInContract):
            dialog.send(b"", type="Nonsense")
        with pytest.raises(BodyTooLarge):
            dialog.send(Answer.model_construct(text="x" * 1_000_000))
    assert acceptor.written() == []


# -- many dialogs in one call --------------------------------------------------------------------------------------


def test_many_dialogs_begin_in_one_call_with_a_result_for_each(speaker: Speaker) -> None:
    ids = [Client.new_id() for _ in range(2_500)]
    begun = speaker.client.begin_dialogs("shop", SALES, ((id_, Ask(text=str(n))) for n, id_ in enumerate(ids)))
    assert begun == [Begun(id_, None) for id_ in ids]
    written = speaker.written()
    assert len(written) == 2_500
    assert {type(operation) for command in written for operation in command.operations} == {Begin, Send}


def test_a_begin_that_fails_hinders_no_other(speaker: Speaker) -> None:
    speaker.client.limits = SMALL
    good, wrong = Client.new_id(), Client.new_id()
    begun = speaker.client.begin_dialogs(
        "shop",
        SALES,
        [(wrong, Answer()), Opening(good, Ask(), group="g"), (wrong, Ask(text="x" * 1_000_000)), ("x", Ask())],
    )
    assert [type(it.error) for it in begun] == [WrongDirection, type(None), BodyTooLarge, LocalError]
    assert [it.id for it in begun] == [wrong, f"{good}@g", wrong, "x"]
    assert len(speaker.written()) == 1


def test_a_wrong_service_is_found_before_the_second_command(speaker: Speaker) -> None:
    taken: list[int] = []

    def openings() -> Iterator[tuple[str, Ask]]:
        for n in range(100):
            taken.append(n)
            yield Client.new_id(), Ask()

    with pytest.raises(UnknownService):
        speaker.client.begin_dialogs("shpo", SALES, openings())
    assert taken == [0]
    with pytest.raises(UnknownContract):
        speaker.client.begin_dialogs("shop", OTHER, openings())
    with pytest.raises(LocalError, match="pairs of an id and a body"):
        speaker.client.begin_dialogs("shop", SALES, [Ask()])  # type: ignore[list-item]
    assert speaker.written() == []


def test_at_most_a_window_of_commands_is_under_way() -> None:
    """The memory of a call does not grow with the number of dialogs, apart from its results."""
    under_way, most = set[int](), [0]

    class Confirmation(Future[None]):
        """A confirmation that comes as soon as it is waited for."""

        def result(self, timeout: float | None = None) -> None:
            under_way.discard(id(self))

    class Slow:
        def append_async(
            self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
        ) -> Future[None]:
            future = Confirmation()
            under_way.add(id(future))
            most[0] = max(most[0], len(under_way))
            kept.append(future)
            return future

        def close(self) -> None: ...

    kept: list[Future[None]] = []
    client = LocalClient(WEB, Kafka("memory"), Slow())
    openings = ((Client.new_id(), Ask()) for _ in range(3_000))
    assert all(it.error is None for it in client.begin_dialogs("shop", SALES, openings))
    assert most[0] == UNDER_WAY
    assert under_way == set()


def test_a_command_that_kafka_does_not_confirm_says_how_to_repeat_it() -> None:
    class Silent:
        def append_async(
            self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
        ) -> Future[None]:
            return Future()

        def close(self) -> None: ...

    client = LocalClient(WEB, Kafka("memory"), Silent())
    client.timeout = timedelta(milliseconds=10)
    (begun,) = client.begin_dialogs("shop", SALES, [(Client.new_id(), Ask())])
    assert isinstance(begun.error, NotAccepted)
    assert "same id=" in str(begun.error)
