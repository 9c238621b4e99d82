"""`conversations status` and its read model, with the real command line on a real Kafka."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.protocol.states import State
from conversations_ops.operate.dialogs import Selector, dialogs, sides_of
from conversations_ops.operate.open_letters import kept_letter, open_letters
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.queues import queues
from conversations_ops.read_model import dialogs as found_dialogs
from conversations_ops.read_model import events as found_events
from conversations_ops.read_model import letters as found_letters
from conversations_ops.read_model import queues as found_queues
from conversations_ops.read_model.detached import kept_letter as found_kept
from conversations_ops.read_model.detached import with_bytes, without_bytes
from conversations_ops.read_model.file import File, path_of
from conversations_ops.read_model.letters import Waits
from conversations_ops.read_model.projector import current
from conversations_ops.read_model.status import Status, statuses
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import Running
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]
WHY = ("--reason", "INC-4711")


def untold(done: int, total: int) -> None:
    assert done <= total


def at_rest(kafka: Kafka) -> bool:
    """Return True if both sides of every dialog have acknowledged all that they got, so that two looks see the same."""
    every = dialogs(kafka, "", Selector())
    return len(every) == 12 and all(it.sent == it.acknowledged for it in every)


@dataclass
class Model:
    """A read model in a directory of the test."""

    kafka: Kafka
    directory: Path

    def look(self) -> list[Status]:
        with current(self.kafka, untold, self.directory) as file:
            return statuses(file)

    def fresh(self, name: str) -> list[Status]:
        return Model(self.kafka, self.directory / name).look()

    def path(self) -> Path:
        return path_of(self.kafka, self.directory)

    def change(self, statement: str, *values: object) -> None:
        with File(self.path()) as file, file.transaction() as connection:
            connection.execute(statement, values)


@pytest.fixture
def model(kafka: Kafka, tmp_path: Path) -> Iterator[Model]:
    """Ten dialogs: five whose second entry is held, one whose second entry is tried again in an hour, four that are over."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"), Client(asker, kafka) as client:
        for second in (*["one"] * 5, "later", *["0"] * 4):
            with client.begin_dialog("fragile", SUMS) as dialog:
                for entry in ("1", second, "10"):
                    dialog.send(Entry(text=entry))
        until(lambda: sum(it.behind for it in parked_messages(kafka, "fragile")) == 6)
        until(lambda: at_rest(kafka))
        yield Model(kafka, tmp_path / "model")


def test_a_status_is_the_sum_of_what_whole_topics_say(model: Model) -> None:
    """So it is after more records, after an interrupted reading, and after each reason to make the file anew."""
    kafka = model.kafka
    asks, fragile_now = model.look()
    assert (fragile_now.service, fragile_now.held, fragile_now.off, fragile_now.needs_person) == ("fragile", 5, 0, True)
    assert [(it.exception, it.held, it.dialogs) for it in fragile_now.heads] == [
        ("ValueError", True, 5),
        ("OverflowError", False, 1),
    ]
    assert not asks.needs_person
    for it in (asks, fragile_now):
        sides = dialogs(kafka, it.service, Selector())
        assert (it.open, it.parked) == (len(sides), sum(side.waits.parked.records for side in sides))
        assert it.pending == sum(side.sent - side.acknowledged for side in sides if side.state is not State.CLOSED)
    assert model.look() == model.fresh("second")
    made_anew(model)
    interrupted(model)


def made_anew(model: Model) -> None:
    """What the file has is thrown away when it may be wrong; nobody sees a row that Kafka does not have."""
    truth = model.look()
    ghost = "INSERT INTO sides SELECT service, partition, x'00', contract, peer, state, began, closed, pending, parked, delayed, key, code FROM sides LIMIT 1"
    for reason in (
        "UPDATE places SET topic_id = 'of-before'",
        "UPDATE places SET read_at = 0",
        "UPDATE places SET next = 1000000",
    ):
        model.change(ghost)
        model.change("UPDATE sums SET open = open + 1")
        assert model.look() != truth, "the ghost is seen"
        assert ghosts(model) == 1
        model.change(reason)
        assert model.look() == truth, reason
        assert ghosts(model) == 0, reason
    model.change(ghost)
    model.change("UPDATE sums SET open = open + 1")
    model.change("PRAGMA user_version = 99")
    assert model.look() == truth
    model.path().write_bytes(b"not a database " * 1_000)
    assert model.look() == truth


def ghosts(model: Model) -> int:
    with File(model.path()) as file:
        ((count,),) = file.connection.execute("SELECT count(*) FROM sides WHERE own = x'00'")
    return int(count)


def changed(model: Model) -> int:
    """Return the number of sides that are marked and not derived yet."""
    with File(model.path()) as file:
        ((count,),) = file.connection.execute("SELECT count(*) FROM changed")
    return int(count)


def interrupted(model: Model) -> None:
    """A reading that ends after its first part leaves its rows and its offset; the next one goes on."""
    truth, second = model.look(), Model(model.kafka, model.directory / "third")

    def end(done: int, total: int) -> None:
        if changed(second):  # the first part may have events only
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), current(second.kafka, end, second.directory):
        pass
    assert changed(second) > 0
    assert second.look() == truth
    fourth = Model(model.kafka, model.directory / "fourth")
    with ThreadPoolExecutor(4) as pool:
        several = [pool.submit(fourth.look) for _ in range(4)]
    assert [it.result() for it in several] == [truth] * 4, "several terminals may make the same file at once"


@pytest.mark.slow
def test_the_line_of_a_service_and_the_next_command(model: Model, tmp_path: Path) -> None:
    terminal = Terminal(model.kafka, tmp_path)
    code, told = terminal("status")
    assert code == 1
    (first,) = (it for it in told["services"] if it["service"] == "fragile")
    assert (first["held"], first["queues_off"], first["cause"][:35]) == (5, 0, "5 dialogs held: Entry failed since ")
    where = f"--bootstrap={model.kafka.bootstrap} --namespace={model.kafka.namespace}"
    assert first["next"] == f"conversations dead-letters list fragile --by exception {where}"
    code, groups = terminal(*first["next"].split()[1:])
    assert (code, groups["groups"][0]["letters"]) == (1, 5)
    text = terminal.text("status")
    assert f"next: {first['next']}" in text
    assert terminal("queue", "off", "fragile", *WHY)[0] == 0
    until(lambda: all(it.off for it in queues(model.kafka, "fragile")))
    code, told = terminal("status")
    (first,) = (it for it in told["services"] if it["service"] == "fragile")
    assert (code, first["queues_off"], first["off_reason"]) == (1, 2, "INC-4711")
    assert "OFF" in terminal.text("status")
    assert terminal(*first["next"].split()[1:])[0] == 1
    assert terminal("queue", "on", "fragile", *WHY)[0] == 0
    for letter in terminal.letters():
        assert terminal("dead-letters", "skip", letter["letter"], *WHY)[0] == 0
    code, told = terminal("status")
    (first,) = (it for it in told["services"] if it["service"] == "fragile")
    assert (first["held"], first["queues_off"]) == (0, 0)


def test_a_service_that_nobody_runs_needs_a_person_as_soon_as_a_record_waits(kafka: Kafka, tmp_path: Path) -> None:
    """It never ran, so it has no dialog yet: the read model alone would say that all is well."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    terminal = Terminal(kafka, tmp_path)
    code, told = terminal("status")
    assert (code, [it["partitions_without_owner"] for it in told["services"]]) == (0, [2, 2]), "nobody waits for them"
    with Client(asker, kafka) as client, client.begin_dialog("fragile", SUMS) as dialog:
        dialog.send(Entry(text="1"))
    code, told = terminal("status")
    assert (code, [it["records_without_owner"] for it in told["services"]]) == (1, [1, 0]), "the command waits"
    with Running(kafka, tmp_path, "fragile:asker"):
        until(lambda: terminal("status")[1]["services"][1]["records_without_owner"] == 1, "status tells it", 60)
        code, told = terminal("status")
        asks, down = told["services"]
        assert code == 1
        assert (asks["cause"], asks["partitions_without_owner"]) == ("", 0)
        assert (down["open"], down["partitions_without_owner"], down["records_without_owner"]) == (0, 2, 1)
        assert down["cause"] == "no worker has any partition, 1 record waits there: start the service"
        code, why = terminal(*down["next"].split()[1:])
        assert (code, [it["cause"] for it in why["causes"]]) == (1, ["no-owner"])
        assert terminal(*why["next"].split()[1:])[0] == 0
        with Running(kafka, tmp_path, "fragile:fragile"):
            until(lambda: terminal("status")[0] == 0, "it runs", 60)


def test_a_namespace_that_nobody_has_made(kafka: Kafka, tmp_path: Path) -> None:
    code, told = Terminal(kafka, tmp_path)("status")
    assert (code, "conversations apply" in told["error"]) == (2, True)


def test_a_file_that_cannot_be_written_is_an_error_with_its_path(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [asker.declaration()], 1, 1)
    (tmp_path / "cache").write_text("a file, and no directory")
    code, told = Terminal(kafka, tmp_path)("status")
    assert (code, str(tmp_path / "cache") in told["error"]) == (1, True)


@pytest.mark.slow
def test_letters_queues_and_dialogs_are_what_whole_topics_say(model: Model, tmp_path: Path) -> None:
    kafka, terminal = model.kafka, Terminal(model.kafka, tmp_path)
    first, *_ = letters = [it for it in parked_messages(kafka, "fragile") if it.held]
    assert terminal("dead-letters", "skip", first.letter, *WHY)[0] == 0
    assert (
        terminal(
            "dialogs",
            "end",
            letters[1].conversation,
            "--service",
            "fragile",
            "--error",
            "7",
            "--description",
            "no",
            *WHY,
        )[0]
        == 0
    )
    assert terminal("queue", "off", "fragile", *WHY)[0] == 0
    until(lambda: all(it.closed or it.sent == it.acknowledged for it in dialogs(kafka, "", Selector(closed=True))))
    with current(kafka, untold, model.directory) as file:
        same_letters(kafka, file)
        same_dialogs(kafka, file)
        same_detached(kafka, file)
        same_lists(kafka, file)
        assert [it for name in ("asker", "fragile") for it in found_queues.queues(file, name)] == queues(kafka)
        decided = found_events.events(file, found_events.Wanted(by_person=True))
        assert {it.told.name for it in decided} >= {"RESOLVED", "QUEUE_DISABLED", "DIALOG_ENDING"}
        assert [it.told.name for it in found_events.events_of(file, first.conversation)][:2] == ["GAVE_UP", "RESOLVED"]
        by_key = found_dialogs.search(file, first.key[:20])
        assert {it.conversation for it in by_key} >= {first.conversation}


def same_letters(kafka: Kafka, file: File) -> None:
    parked = parked_messages(kafka)
    for waits, wanted in (
        (Waits.PERSON, lambda it: it.held or (it.queue_off and it.failure)),
        (Waits.RETRY, lambda it: it.due is not None),
    ):
        here = found_letters.heads(file, found_letters.Wanted(waits), limit=3)
        while here and len(
            more := found_letters.heads(
                file, found_letters.Wanted(waits, after=(here[-1].since, here[-1].letter)), limit=3
            )
        ):
            here += more
        assert [it.letter for it in here] == [it.letter for it in parked if wanted(it)]
        groups = found_letters.groups(file, waits)
        assert sum(it.letters for it in groups) == len(here)
        assert sum(it.behind for it in groups) == sum(it.behind for it in here)
    for it in parked:
        assert found_letters.parked_letter(file, kafka.namespace, it.letter) == it
    opened = open_letters(kafka)
    assert opened, "ending a dialog left letters"
    assert [it.letter for it in found_letters.open_letters(file)] == sorted(
        (it.letter for it in opened), key=lambda name: name.split("-")
    )
    assert sum(it.letters for it in found_letters.open_groups(file)) == len(opened)
    for letter in opened:
        (kept,) = [it for it in found_letters.kept_letters(file, letter.letter) if it.is_last]
        same = (
            "reason",
            "exception",
            "message",
            "conversation",
            "number",
            "what",
            "at",
            "decided_by",
            "decided_why",
            "code",
        )
        assert [getattr(kept, name) for name in same] == [getattr(letter, name) for name in same]


def same_detached(kafka: Kafka, file: File) -> None:
    """The letters of the read model, with their bytes, are those that whole topics have. The stack trace is with one letter only."""
    whole = open_letters(kafka)
    kept = found_letters.every_open(file)
    assert [it._replace(stack="") for it in with_bytes(kafka, kept)] == [it._replace(stack="") for it in whole]
    assert [without_bytes(it) for it in kept] == [it._replace(stack="", key=b"", value=b"") for it in whole]
    assert (
        {it.service for it in whole} == {it.service for it in found_letters.every_open(file, "fragile")} == {"fragile"}
    )
    for letter in [it.letter for it in whole] + [it.letter for it in parked_messages(kafka)]:
        assert found_kept(kafka, file, letter) == kept_letter(kafka, letter)
    begun = found_letters.open_that_begin(file, whole[0].letter[:-1], 100)
    assert begun == sorted(it.letter for it in whole if it.letter.startswith(whole[0].letter[:-1]))
    held = [it.letter for it in parked_messages(kafka) if it.due is None]
    assert found_letters.held_that_begin(file, "fragile.", 100) == sorted(held)
    assert found_letters.held_that_begin(file, "fragile.", 1) == sorted(held)[:1]


def same_lists(kafka: Kafka, file: File) -> None:
    """Each list of the read model is that of the whole topics, and so is each dialog."""
    for service, wanted in (
        ("", Selector()), ("fragile", Selector()), ("", Selector(closed=True)), ("asker", Selector(pending=True)),
        ("", Selector(pending=True)), ("", Selector(state=State.CONVERSING)), ("", Selector(state=State.CLOSED)),
        ("", Selector(contract="Sums", peer="asker")), ("", Selector(peer="nobody")), ("", Selector(older_than=timedelta(hours=1))),
        ("", Selector(older_than=timedelta(0))), ("", Selector(contract="Sums", pending=True, closed=True)),
    ):  # fmt: skip
        whole = dialogs(kafka, service, wanted)
        found = found_dialogs.listed(file, kafka.namespace, service, wanted, 1_000)
        for here, there in zip(found.first, whole, strict=True):
            assert [(name, it) for name, it in asdict(here).items() if asdict(there)[name] != it] == [], (
                service,
                wanted,
            )
        assert found.total == len(whole)
        found = found_dialogs.listed(file, kafka.namespace, service, wanted, 2)
        assert (found.first, found.total) == (whole[:2], len(whole)), (service, wanted)
    for it in dialogs(kafka, "", Selector(closed=True)):
        assert found_dialogs.known_sides(kafka, file, it.conversation) == sides_of(kafka, it.conversation)
        assert found_dialogs.known_sides(kafka, file, it.conversation, it.service) == sides_of(kafka, it.conversation)
    with pytest.raises(LookupError, match="any service"):
        found_dialogs.known_sides(kafka, file, bytes(16))


def same_dialogs(kafka: Kafka, file: File) -> None:
    whole = {(it.service, it.identity): it.state for it in dialogs(kafka, "", Selector(closed=True))}
    seen, before = {}, b""
    while True:
        page = found_dialogs.page(file, found_dialogs.Wanted(before=before), limit=7)
        seen.update({(it.service, it.own): it.state for it in page.sides})
        if not (before := page.more):
            break
    assert seen == whole
    assert [own for _, own in seen] == sorted((own for _, own in seen), reverse=True)
    waits = found_dialogs.page(file, found_dialogs.Wanted(waits=True), limit=100).sides
    assert {it.conversation for it in waits} == {it.conversation for it in parked_messages(kafka)}
