"""Giving many failed messages back, with the real command line on a real Kafka."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest

from conversations import Client, Kafka
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision
from conversations.protocol.topics import events_topic
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.redrive.drive import Drive
from conversations_ops.operate.redrive.journal import History, Journal
from conversations_ops.operate.redrive.outcomes import End
from conversations_ops.operate.redrive.plan import Care, Plan, freeze
from conversations_ops.operate.redrive.selection import Selector
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import PROGRAM, Running, environment
from tests.acceptance.support.operator import Terminal
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
WHY = ("--reason", "INC-4711")


@pytest.fixture
def terminal(kafka: Kafka, tmp_path: Path) -> Iterator[Terminal]:
    """The fragile service runs; eight dialogs of it wait behind "one" and two behind "six", which nobody mends."""
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    with Running(kafka, tmp_path, "fragile:fragile", "fragile:asker"), Client(asker, kafka) as client:
        for _ in range(8):
            begin(client, "one")
        until(lambda: len(parked_messages(kafka, "fragile")) == 8, "the oldest letters")
        for _ in range(2):
            begin(client, "six")
        until(lambda: sum(it.behind for it in parked_messages(kafka, "fragile")) == 20)
        yield Terminal(kafka, tmp_path)


def begin(client: Client, text: str) -> None:
    with client.begin_dialog("fragile", SUMS) as dialog:
        for entry in ("1", text, "10", "0"):
            dialog.send(Entry(text=entry))


def told(kafka: Kafka, name: str) -> list[dict[str, object]]:
    with Follower(kafka, [events_topic(kafka.namespace)]) as follower:
        found = [json.loads(record.value() or b"{}") for record in follower.to_the_end(30)]
    return [event for event in found if event["event"] == name]


def test_a_redrive_tries_a_few_first_and_leaves_later_letters_alone(terminal: Terminal) -> None:
    kafka, file = terminal.kafka, str(terminal.out / "rd.json")
    code, groups = terminal("dead-letters", "list", "--by", "exception")
    assert code == 1
    assert [(it["name"], it["letters"], it["behind"]) for it in groups["groups"]] == [("ValueError", 10, 20)]
    assert "ValueError" in terminal.text("dead-letters", "list", "--by", "type")

    code, made = terminal(
        "redrive", "plan", "--service", "fragile", "--exception", "ValueError", "--canary", "2", "-o", file
    )
    assert (code, made["letters"], made["behind"]) == (0, 10, 20)
    assert terminal("redrive", "start", file, "--dry-run")[1]["done"] is False
    code, ended = terminal("redrive", "start", file, *WHY)
    assert (code, ended["end"]) == (1, "canary failed")
    assert ended["outcomes"]["came back"] == 1
    assert ended["outcomes"]["open"] == 9
    assert terminal("redrive", "start", made["redrive"], *WHY)[0] == 2, "it was started: resume"
    (terminal.out / "rd.json").unlink()  # the plan is in Kafka
    file = made["redrive"]
    shown = terminal("redrive", "show", file)[1]
    assert (shown["redrive"], len(shown["letters"]), shown["care"]["canary"]) == (file, 10, 2)
    is_told_as_started(terminal, file)

    (terminal.out / "mended").touch()
    with Client(asker, kafka) as client:
        begin(client, "six")
    until(lambda: len(parked_messages(kafka, "fragile")) == 11)
    code, ended = terminal("redrive", "resume", file, *WHY)
    assert code == 1
    assert ended["outcomes"]["handled"] == 7, ended
    assert ended["outcomes"]["came back"] == 3, "the first, and those nobody mended"
    left = parked_messages(kafka, "fragile")
    assert sorted(json.loads(it.body)["text"] for it in left) == ["one", "six", "six", "six"]
    assert sorted(it.returns for it in left) == [0, 1, 1, 1]

    (terminal.out / "second.json").touch()
    assert terminal("redrive", "plan", "-o", str(terminal.out / "second.json"))[0] == 2, "a file is kept"
    code, made = terminal("redrive", "plan", "--max-returns", "1")
    file = made["redrive"]
    assert [it["state"] for it in terminal("redrive", "list")[1]["redrives"]] == ["done", "planned"]
    assert (made["letters"], made["left_out"]) == (1, 3)
    assert terminal("dead-letters", "skip", next(it.letter for it in left if not it.returns), *WHY)[0] == 0
    code, ended = terminal("redrive", "start", file, *WHY)
    assert (code, ended["outcomes"]["changed"]) == (0, 1), "somebody decided meanwhile"
    code, seen = terminal("redrive", "watch", ended["redrive"])
    assert (code, seen["end"]) == (0, "done")
    assert {event["reason"] for event in told(kafka, "RESOLVED")} == {"INC-4711"}
    code, again = terminal("redrive", "resume", file, "--reason", "a slip")
    assert (code, again["end"], again["outcomes"]) == (0, "done", ended["outcomes"]), "nothing is left to do"
    assert "is done already" in terminal.text("redrive", "resume", file, "--reason", "a slip")
    assert len(told(kafka, "REDRIVE_STARTED")) == 3
    first, second = terminal("redrive", "list")[1]["redrives"]
    assert (first["letters"], first["end"], first["outcomes"]["handled"]) == (10, "done", 7)
    assert (second["redrive"], second["reason"]) == (ended["redrive"], "INC-4711")
    assert ended["redrive"] in terminal.text("redrive", "list")


def test_a_group_is_noted_and_a_redrive_that_ends_well_notes_that_it_is_mended(terminal: Terminal) -> None:
    """A message that fails after that is a regression."""
    kafka, group = terminal.kafka, ("--service", "fragile", "--exception", "ValueError", "--type", "Entry")

    def marks() -> list[str]:
        return [it["mark"] for it in terminal("dead-letters", "groups")[1]["groups"]]

    code, found = terminal("dead-letters", "groups")
    assert (code, found["groups"][0]["letters"], marks()) == (1, 10, ["new"])
    assert terminal("dead-letters", "note", *group, "--reason", "x", "--dry-run")[1]["done"] is False
    assert terminal("dead-letters", "note", *group)[0] == 2, "a note needs its text"
    assert terminal("dead-letters", "note", *group[:-1], "Exit", "--reason", "x")[0] == 2, "there is no such group"
    assert terminal("dead-letters", "note", *group, "--reason", "wait for release 12")[0] == 0
    assert marks() == ["noted"]
    assert "wait for release 12" in terminal.text("dead-letters", "groups")
    (terminal.out / "mended").touch()
    for letter in [it for it in parked_messages(kafka, "fragile") if json.loads(it.body)["text"] == "six"]:
        assert terminal("dead-letters", "skip", letter.letter, *WHY)[0] == 0
    (rest, *_) = (it.letter for it in parked_messages(kafka, "fragile"))
    made = terminal("redrive", "plan", *group)[1]["redrive"]
    assert terminal("redrive", "start", made, *WHY)[1]["end"] == "done"
    assert marks() == [], f"{rest} and all others are handled"
    with Client(asker, kafka) as client:
        begin(client, "six")
    until(lambda: len(parked_messages(kafka, "fragile")) == 1)
    assert marks() == ["regressed"]
    (found,) = terminal("dead-letters", "groups")[1]["groups"]
    assert (found["note"]["text"], found["mended"]["text"]) == ("wait for release 12", f"{made}: INC-4711")
    assert terminal("dead-letters", "note", *group, "--mended", "--reason", "really")[0] == 0
    assert marks() == ["mended"]
    noted = [it["reason"] for it in terminal("journal")[1]["journal"] if it["event"] == "GROUP_NOTED"]
    assert noted == ["wait for release 12", f"{made}: INC-4711", "really"]


def is_told_as_started(terminal: Terminal, redrive: str) -> None:
    shown = terminal.text("redrive", "show", redrive)
    assert "came back" in shown
    assert f"conversations redrive resume {redrive}" in shown
    assert "redrive start" not in shown, "it was started"
    assert terminal("events", "--event", "REDRIVE_STARTED", "--since", "1h")[1]["events"]
    assert {it["event"] for it in terminal("journal", "--since", "1h")[1]["journal"]} >= {"REDRIVE_STARTED"}


def test_a_redrive_is_stopped_from_elsewhere_and_goes_on(terminal: Terminal) -> None:
    kafka, file = terminal.kafka, terminal.out / "rd.json"
    (terminal.out / "mended").touch()
    made = terminal(
        "redrive", "plan", "--until", "2100-01-01T00:00:00", "--canary", "1", "--rate", "0.2", "-o", str(file)
    )[1]
    running = terminal.start("redrive", "start", str(file), *WHY)
    until(lambda: told(kafka, "REDRIVE_PROGRESS") or running.poll() is not None)
    assert [it["state"] for it in terminal("redrive", "list")[1]["redrives"]] == ["runs"]
    code, answer = terminal("redrive", "resume", made["redrive"], *WHY)
    assert (code, "runs already" in answer["error"]) == (2, True)
    watching = watched(terminal, made["redrive"])
    assert terminal("redrive", "stop", str(file), "--reason", "the release is wrong")[0] == 0
    out, _ = running.communicate(timeout=60 * SLOWER)
    assert running.returncode == 1
    first = json.loads(out)
    assert (first["end"], first["ended_why"]) == ("stopped", "the release is wrong")
    ends_as_it_was_stopped(terminal, made["redrive"], watching)
    assert "REDRIVE_PROGRESS" not in {it["event"] for it in terminal("journal", "--since", "1h")[1]["journal"]}
    assert 1 <= first["outcomes"]["handled"] < 8
    assert terminal("redrive", "stop", made["redrive"], *WHY)[0] == 1, "it does not run"
    plan = json.loads(file.read_text())
    plan["letters"], letters = plan["letters"][1:], plan["letters"]
    file.write_text(json.dumps(plan))
    code, answer = terminal("redrive", "resume", str(file), *WHY)
    assert (code, "was started with other letters" in answer["error"]) == (2, True)
    plan["care"]["rate"], plan["letters"] = 100, letters
    file.write_text(json.dumps(plan))
    code, ended = terminal("redrive", "resume", str(file), *WHY)
    assert terminal("redrive", "show", made["redrive"])[1]["care"]["rate"] == 100
    assert (code, ended["end"], ended["outcomes"]["handled"], ended["outcomes"]["came back"]) == (1, "done", 8, 2)


def watched(terminal: Terminal, redrive: str) -> subprocess.Popen[str]:
    """Watch a redrive without a terminal, and return when its progress was shown once."""
    where = ["--bootstrap", terminal.kafka.bootstrap, "--namespace", terminal.kafka.namespace]
    found = subprocess.Popen(
        [PROGRAM, "redrive", "watch", redrive, *where], env=environment(terminal.out), stdout=subprocess.PIPE, text=True
    )
    assert found.stdout is not None
    assert "open" in found.stdout.readline()
    return found


def ends_as_it_was_stopped(terminal: Terminal, redrive: str, watching: subprocess.Popen[str]) -> None:
    """The reason of the stop is the reason of the end, and the reason of the start stays that of the start."""
    lines = watching.communicate(timeout=60 * SLOWER)[0].splitlines()
    assert re.search(r"; stopped by .+: the release is wrong$", lines[-1])
    assert len(lines) < 12, "a line for each change"
    assert [line for line, before in zip(lines[1:], lines, strict=False) if line == before] == []
    (event,) = terminal("events", "--event", "REDRIVE_ENDED")[1]["events"]
    assert (event["end"], event["reason"]) == ("stopped", "the release is wrong")
    journal = terminal.text("journal", "--since", "1h").splitlines()
    (line,) = (it for it in journal if "REDRIVE_ENDED" in it)
    assert "the release is wrong" in line
    shown = terminal.text("redrive", "show", redrive)
    assert re.search(r"started by .+: INC-4711; stopped by .+: the release is wrong\n", shown)
    (known,) = terminal("redrive", "list")[1]["redrives"]
    assert (known["reason"], known["ended_why"]) == ("INC-4711", "the release is wrong")


def test_of_two_runs_of_one_plan_only_one_gives_letters_back(terminal: Terminal) -> None:
    """Both begin at the same moment, so that neither sees the other before it begins. The log decides."""
    kafka = terminal.kafka
    (terminal.out / "mended").touch()
    parked = parked_messages(kafka, "fragile")
    letters, _ = freeze(parked, Selector(), Care())
    plan = Plan("rd-2", kafka.namespace, "", "ann", Selector(), Care(1, 1_000.0, 3), letters)
    ends: list[End] = []
    together = Barrier(2)

    def run(by: str) -> None:
        with Journal(kafka, History(plan.redrive), 0) as journal:
            together.wait()
            decision = Decision(Action.RETRY, by, "at once")
            drive = Drive(kafka, plan, journal, decision, lambda: parked_messages(kafka), lambda _: None)
            ends.append(drive.run())

    threads = [Thread(target=run, args=(by,)) for by in ("ann", "ben")]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert sorted(ends) == [End.DONE, End.TAKEN_OVER]
    asked = [event["by"] for event in told(kafka, "RESOLVED")]
    assert len(asked) == len(letters)
    assert len(set(asked[1:])) == 1, "at most the canary was given back before the other run began"


def test_what_an_operator_may_get_wrong(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    terminal = Terminal(kafka, tmp_path)
    file = tmp_path / "rd.json"
    assert terminal("redrive", "plan", "--service", "nobody")[0] == 2
    code, made = terminal("redrive", "plan", "-o", str(file))
    assert (code, made["letters"], made["plan"]) == (0, 0, None)
    assert not file.exists()
    assert "no time" in terminal.text("redrive", "plan", "--since", "yesterday")
    for name in ("start", "resume"):
        assert terminal("redrive", name, str(file), *WHY)[0] == 2
    for text in ("", "[]", "{}", '{"version": 2}', '{"version": 1, "letters": [1]}'):
        file.write_text(text)
        code, answer = terminal("redrive", "start", str(file), *WHY)
        assert code == 2, text
        assert "plan" in answer["error"]
    for command in (("watch", "rd-nobody"), ("stop", "rd-nobody", *WHY), ("watch", "rd-0")):
        assert terminal("redrive", *command)[0] == 2, command
    assert terminal("redrive", "stop", "rd-0", *WHY)[0] == 1
    assert "no plan rd-0" in terminal("redrive", "start", "rd-0", *WHY)[1]["error"]
    assert terminal("redrive", "show", "rd-0")[0] == 2
    assert terminal("redrive", "list") == (0, {"redrives": []})
