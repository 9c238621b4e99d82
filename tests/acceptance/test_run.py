"""Services as real processes on a real Kafka, some of them killed."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations import Client, DeclarationError, Kafka, Service, run
from conversations.kafka.admin import apply
from conversations.kafka.restore import read_all
from conversations.protocol import rows
from conversations.protocol.partition_row import decode_partition
from conversations.protocol.topics import STATE, service_topic
from tests.acceptance.services import counting, modest, various
from tests.acceptance.support.command_line import LOG_FORMAT, ROOT, Running, alive, conversations, environment
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]

DAY = 86_400_000
PARTITIONS = 4
LENGTH = 50
"""Numbers per dialog."""


@pytest.fixture
def counted(kafka: Kafka) -> Iterator[Client]:
    """A client of the source; the topics are there."""
    apply(kafka, [counting.source.declaration(), counting.sink.declaration()], PARTITIONS, 1)
    with Client(counting.source, kafka) as client:
        yield client


@pytest.fixture
def writer(kafka: Kafka) -> Iterator[Client]:
    """A client of the writer of notes; its topics are there, those of who reads them not yet."""
    apply(kafka, [various.writer.declaration()], PARTITIONS, 1)
    with Client(various.writer, kafka) as client:
        yield client


def count_up(client: Client, dialogs: int) -> list[str]:
    """Begin dialogs that count; return their ids."""
    ids = []
    for _ in range(dialogs):
        with client.begin_dialog("sink", counting.COUNTING) as dialog:
            for n in range(LENGTH):
                dialog.send(counting.Number(n=n, of=LENGTH))
        ids.append(dialog.id)
    return ids


def written(out: Path, name: str) -> list[list[str]]:
    path = out / name
    return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


def by_dialog(lines: list[list[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for conversation, n, *_ in lines:
        found[conversation].append(int(n))
    return found


def totals(out: Path) -> set[tuple[str, ...]]:
    return {tuple(line) for line in written(out, "totals")}


def complete(ids: list[str]) -> set[tuple[str, ...]]:
    return {(name, str(LENGTH), str(LENGTH)) for name in ids}


# -- settings ------------------------------------------------------------------------------------------------------


def test_a_file_an_option_and_a_target_say_how_a_worker_works(kafka: Kafka, tmp_path: Path) -> None:
    file = tmp_path / "shop.settings"
    file.write_text("limits.body_bytes = 2 kB\nworker.batch = 8\nperiods.events_kept = 40 d\nclient.id = hush\n")
    connected = ("--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--settings", str(file))
    apply(kafka, [modest.modest.declaration(), modest.talker.declaration()], 1, 1)
    applied = conversations("apply", "modest:target", "modest:talker", *connected, "--partitions", "1", out=tmp_path)
    assert f"changed retention.ms of topic {kafka.namespace}.events from {30 * DAY} to {40 * DAY}" in applied.stdout
    settings = ("--settings", str(file), "--setting", "worker.batch=9")
    with (
        Running(kafka, tmp_path, "modest:target", "modest:talker", *settings) as running,
        Client(modest.talker, kafka) as client,
    ):
        given = {"worker.batch": "9", "limits.body_bytes": "2 kB", "periods.events_kept": "40 d"}
        assert {it["service"]: it["settings"] for it in running.told["services"]} == {
            "modest": given | {"worker.concurrency": "7", "limits.held_messages": "7"},
            "talker": given,
        }
        assert running.told["client_settings"] == ["client.id"]
        with client.begin_dialog("modest", modest.TALK) as dialog:
            dialog.send(modest.Question(text="hello"))
        until((tmp_path / "refused").exists, "the handler has sent")
    assert (tmp_path / "refused").read_text().split() == ["3000", "5000"]


def test_a_setting_makes_every_log_line_an_object(kafka: Kafka, tmp_path: Path) -> None:
    """Those of the supervisor, and those of the worker about a dialog, whose body is nowhere."""
    apply(kafka, [modest.modest.declaration(), modest.talker.declaration()], 1, 1)
    with (
        Running(kafka, tmp_path, "modest:target", "modest:talker", "--slot", "s", "--setting", LOG_FORMAT) as running,
        Client(modest.talker, kafka) as client,
    ):
        with client.begin_dialog("modest", modest.TALK) as dialog:
            dialog.send(modest.Question(text="secret"))
        until((tmp_path / "refused").exists, "the handler has sent")
        running.tell(signal.SIGTERM)
        running.ended()
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    assert {it["worker"] for it in lines} >= {"run", "modest s-1"}
    (answered,) = [it for it in lines if it["message"] == "answered"]
    told = {
        "conversation": dialog.id,
        "service": "modest",
        "partition": 0,
        "message_type": "Question",
        "message_number": 0,
        "attempt": 1,
    }
    assert {name: answered.get(name) for name in told} == told
    assert "secret" not in running.log.read_text()


# -- killing -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["sink", "source"])
def test_a_killed_worker_loses_nothing_repeats_nothing_and_keeps_its_slot(
    kafka: Kafka, counted: Client, tmp_path: Path, killed: str
) -> None:
    with (
        Running(kafka, tmp_path, "counting:source", "--workers", "2", "--slot", "left") as source,
        Running(kafka, tmp_path, "counting:sink", "--workers", "2", "--slot", "right") as sink,
    ):
        run = {"source": source, "sink": sink}[killed]
        slots = {"source": ["left-1", "left-2"], "sink": ["right-1", "right-2"]}[killed]
        source.ready()
        sink.ready()
        before = run.workers()
        assert sorted(before) == slots
        ids = count_up(counted, 30)
        name = {"source": "echoes", "sink": "numbers"}[killed]
        target = str(before[slots[0]]["pid"])
        until(
            lambda: sum(line[2] == target for line in written(tmp_path, name)) > 100,
            "the service to be killed is at work",
        )
        os.kill(int(target), signal.SIGKILL)
        ids += count_up(counted, 30)
        until(lambda: not run.is_well(), "the page tells of the death")
        assert set(totals(tmp_path)) < complete(ids), "killed too late: everything had arrived"
        until(run.is_well, "the page tells of the recovery")
        after = run.workers()
        assert sorted(after) == slots
        assert after[slots[0]]["restarts"] == 1
        assert after[slots[0]]["pid"] != before[slots[0]]["pid"]
        assert after[slots[1]]["pid"] == before[slots[1]]["pid"]
        until(lambda: len(totals(tmp_path)) >= len(ids), "every dialog is counted to its end")
        assert totals(tmp_path) == complete(ids)
        assert written(tmp_path, "disorder") == []
        unharmed = {"source": "numbers", "sink": "echoes"}[killed]
        assert by_dialog(written(tmp_path, unharmed)) == {name: list(range(LENGTH)) for name in ids}


def test_the_supervisor_takes_its_workers_along_however_it_dies(kafka: Kafka, counted: Client, tmp_path: Path) -> None:
    with Running(kafka, tmp_path, "counting:sink", "--workers", "2") as run:
        pids = [worker["pid"] for worker in run.ready().workers().values()]
        assert all(map(alive, pids))
        run.tell(signal.SIGKILL)
        until(lambda: not any(map(alive, pids)), "the workers are gone", 20)


# -- stopping ------------------------------------------------------------------------------------------------------


def test_a_stop_in_order_leaves_clean_partitions_and_runs_no_handler_twice(
    kafka: Kafka, counted: Client, tmp_path: Path
) -> None:
    targets = ("counting:source", "counting:sink")
    with Running(kafka, tmp_path, *targets, "--workers", "2") as run:
        run.ready()  # a partition that moves meanwhile may run a handler again
        ids = count_up(counted, 40)
        until(lambda: len(written(tmp_path, "numbers")) > 100, "the sink is at work")
        run.tell(signal.SIGTERM)
        assert run.ended() == (0, "")
    assert totals(tmp_path) < complete(ids), "stopped too late: nothing was at work any more"
    topic = service_topic(kafka.namespace, "sink", STATE)
    read, _ = read_all(kafka, topic, 0)  # partition 0
    assert decode_partition(dict(read)[rows.PARTITION] or b"").clean
    with Running(kafka, tmp_path, *targets) as run:
        until(lambda: len(totals(tmp_path)) >= len(ids), "every dialog is counted to its end")
        run.tell(signal.SIGINT)
        assert run.ended() == (0, "")
    with Running(kafka, tmp_path, *targets) as run:  # a terminal that closes tells the workers, too
        run.ready()
        for worker in (it for service in run.health()[1]["services"] for it in service["workers"]):
            os.kill(worker["pid"], signal.SIGHUP)
        is_heard = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # under nohup, no process of this run hears it
        run.tell(signal.SIGHUP if is_heard else signal.SIGTERM)
        assert run.ended() == (0, "")
    assert totals(tmp_path) == complete(ids)
    assert written(tmp_path, "disorder") == []
    for name in ("numbers", "echoes"):
        assert by_dialog(written(tmp_path, name)) == {name: list(range(LENGTH)) for name in ids}


def test_a_second_signal_kills_a_worker_whose_handler_does_not_end(
    kafka: Kafka, writer: Client, tmp_path: Path
) -> None:
    apply(kafka, [various.never_ending().declaration()], PARTITIONS, 1)
    note(writer, "stuck", "one")
    with Running(kafka, tmp_path, "various:never_ending") as run, Running(kafka, tmp_path, "various:writer"):
        ((pid,),) = until(lambda: written(tmp_path, "stuck"), "the handler runs")
        run.tell(signal.SIGTERM)
        until(lambda: any("stopping" in line["message"] for line in run.lines()), "the first signal is heeded")
        assert alive(int(pid))
        run.tell(signal.SIGTERM)
        code, out = run.ended(5)
        assert (code, "second signal" in out) == (1, True)
        assert not alive(int(pid))


@pytest.mark.slow
def test_a_worker_whose_event_loop_is_blocked_for_good_is_replaced_until_its_message_is_given_up_on(
    kafka: Kafka, writer: Client, tmp_path: Path
) -> None:
    """Each process counts one attempt; the fourth gives up, and the next goes on with other dialogs."""
    apply(kafka, [various.never_ending().declaration()], 1, 1)
    note(writer, "stuck", "stuck")
    with Running(kafka, tmp_path, "various:blocking") as run, Running(kafka, tmp_path, "various:writer"):
        until(lambda: len(written(tmp_path, "stuck")) == 4, "four attempts")
        until(lambda: any("giving up" in line["message"] for line in run.lines()), "it is given up on")
        note(writer, "stuck", "other")
        until(lambda: [text for text, _ in written(tmp_path, "stuck")].count("other") == 1, "others go on")
        assert len({pid for text, pid in written(tmp_path, "stuck") if text == "stuck"}) == 4
        assert any("blocks the event loop" in line["message"] for line in run.lines())


SHORT = (
    "--setting",
    "worker.replaced_after=3s",
    "--setting",
    "worker.revocation=0s",
    "--setting",
    "periods.unreachable_after=5s",
)
"""Settings with which a process is replaced after 15 s: the last commit of a worker has 10 s, and 5 s are to spare."""


@pytest.mark.slow
def test_a_handler_that_holds_the_interpreter_lock_has_its_process_replaced_until_its_message_is_given_up_on(
    kafka: Kafka, writer: Client, tmp_path: Path
) -> None:
    """No thread of the process runs any more, so only the supervisor can help."""
    apply(kafka, [various.hogging().declaration()], 1, 1)
    note(writer, "hogged", "hog")
    hogging = Running(kafka, tmp_path, "various:hogging", *SHORT)
    with hogging as run, Running(kafka, tmp_path, "various:writer"):
        until(lambda: any("stands still" in line["message"] for line in run.lines()), "it is replaced", 60)
        note(writer, "hogged", "other")
        until(lambda: "other" in [text for text, _ in written(tmp_path, "hogged")], "others go on", 200)
        assert any("no report for" in line["message"] for line in run.lines())
        assert any("giving up on hogging" in line["message"] for line in run.lines())
        until(run.is_well, "it is healthy", 60)


# -- containers ----------------------------------------------------------------------------------------------------

HOMELESS = {"HOME": "/dev/null/home", "CONVERSATIONS_CACHE": ""}
"""Variables of a container whose user has no home directory."""


def test_a_run_without_a_home_needs_one_writable_volume_and_shows_what_it_does(
    kafka: Kafka, writer: Client, tmp_path: Path
) -> None:
    """The start prints where local copies are, the list of processes has target and slot, and the log has the end of the stop."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o775)
    with Running(kafka, tmp_path, "various:writer", "--state-dir", str(volume), variables=HOMELESS) as run:
        assert run.told["state"] == str(volume)
        run.ready()
        ((slot, worker),) = run.workers().items()
        command = Path(f"/proc/{worker['pid']}/cmdline").read_text().split("\0")
        assert command[2:4] + command[-3:-1] == ["-m", "conversations_ops.host", "various:writer", slot]
        with Running(kafka, tmp_path, "various:writer", "--state-dir", str(volume), variables=HOMELESS) as second:
            second.ready()
            assert slot not in second.workers()
        run.tell(signal.SIGTERM)
        assert run.ended()[0] == 0
        assert run.lines()[-1]["message"] == "stopped: every worker process has ended"
        assert any("need the same --state-dir, or another --slot" in line["message"] for line in run.lines())
    assert stat.S_IMODE(volume.stat().st_mode) == 0o775, "a directory that somebody made keeps its mode"
    assert (volume / ".slots" / kafka.namespace / "writer" / f"{slot}.lock").exists()


def test_a_run_without_a_writable_directory_names_the_options_that_give_one(kafka: Kafka, tmp_path: Path) -> None:
    address = ("--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace)
    ways = ("--state-dir", "CONVERSATIONS_CACHE")
    for options, told in (((), [True, True]), (("--memory-state",), [False, True])):
        found = conversations("run", "various:writer", *options, *address, out=tmp_path, variables=HOMELESS)
        assert (found.returncode, "Traceback" in found.stderr) == (1, False)
        assert "/dev/null/home" in found.stderr
        assert [way in found.stderr for way in ways] == told
    found = conversations("run", "various:writer", "--state-dir", "/dev/null/state", *address, out=tmp_path)
    assert (found.returncode, "/dev/null/state" in found.stderr, "Traceback" in found.stderr) == (1, True, False)
    found = conversations("broker", "start", out=tmp_path, variables=HOMELESS)
    assert (found.returncode, "CONVERSATIONS_CACHE" in found.stderr, "Traceback" in found.stderr) == (1, True, False)


# -- refusing to start ---------------------------------------------------------------------------------------------

NOWHERE = ("--bootstrap", "127.0.0.1:1")


def test_an_incomplete_service_ends_with_2_before_kafka_is_asked_and_names_the_gap(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        where = f"127.0.0.1:{server.getsockname()[1]}"
        ended = conversations("run", "counting:sink", "various:incomplete", "--bootstrap", where, out=tmp_path)
        with pytest.raises(BlockingIOError):  # nobody called
            server.accept()
    assert ended.returncode == 2
    assert "Note (contract Notes, sent by the initiator)" in ended.stderr
    assert "KafkaUnreachable" not in ended.stderr


def test_without_kafka_the_end_is_3_with_the_address_and_how_to_start_one(tmp_path: Path) -> None:
    ended = conversations("run", "counting:sink", *NOWHERE, out=tmp_path)
    assert ended.returncode == 3
    assert "127.0.0.1:1" in ended.stderr
    assert "conversations broker start" in ended.stderr


def test_missing_topics_end_the_run_with_the_command_that_makes_them(kafka: Kafka, tmp_path: Path) -> None:
    where = ("--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace)
    ended = conversations("run", "counting:sink", *where, out=tmp_path)
    assert ended.returncode == 1
    assert "conversations apply" in ended.stderr
    made = conversations("apply", "counting:sink", "--partitions", "2", *where, out=tmp_path)
    assert made.returncode == 0, made.stderr
    assert f"created topic {kafka.namespace}.sink.queue (2 partitions)" in made.stdout
    again = conversations("apply", "counting:sink", "--partitions", "2", *where, out=tmp_path)
    assert (again.returncode, again.stdout) == (0, "Nothing to do: sink is as declared\n")
    other = conversations("apply", "counting:sink", "--partitions", "3", *where, out=tmp_path)
    assert other.returncode == 2
    assert "2 partitions" in other.stderr


# -- state, slots, resources, log lines ------------------------------------------------------------------------------


def note(client: Client, to: str, *texts: str, group: str | None = None) -> str:
    with client.begin_dialog(to, various.NOTES, group=group) as dialog:
        for text in texts:
            dialog.send(various.Note(text=text))
    return dialog.id


@pytest.mark.slow
def test_state_is_upgraded_by_the_next_version_and_waits_for_it_at_the_one_before(
    kafka: Kafka, writer: Client, tmp_path: Path
) -> None:
    apply(kafka, [various.first_version().declaration()], 1, 1)
    with Running(kafka, tmp_path, "various:writer"):
        with Running(kafka, tmp_path, "various:first_version") as run:
            dialog = note(writer, "tally", "one", "two")
            until(lambda: len(written(tmp_path, "tally")) == 2, "two notes")
            run.tell(signal.SIGTERM)
            assert run.ended()[0] == 0
        with Running(kafka, tmp_path, "various:second_version") as run:
            with writer.dialog(dialog) as going_on:
                going_on.send(various.Note(text="three"))
            until(lambda: len(written(tmp_path, "tally")) == 3, "the third note")
            run.tell(signal.SIGTERM)
            assert run.ended()[0] == 0
        assert written(tmp_path, "tally") == [["one", "1"], ["two", "2"], ["three", "3", "?,?,three"]]
        with Running(kafka, tmp_path, "various:first_version") as run:
            with writer.dialog(dialog) as going_on:
                going_on.send(various.Note(text="four"))
            until(lambda: "NewerState" in run.log.read_text(), "the note waits")
            until(run.is_well, f"healthy: {run.health()}")
        assert len(written(tmp_path, "tally")) == 3
        with Running(kafka, tmp_path, "various:second_version"):
            until(lambda: len(written(tmp_path, "tally")) == 4, "the fourth note")


def test_two_runs_on_one_machine_never_share_a_slot(kafka: Kafka, counted: Client, tmp_path: Path) -> None:
    with (
        Running(kafka, tmp_path, "counting:sink", "--slot", "s", "--workers", "2") as one,
        Running(kafka, tmp_path, "counting:sink", "--slot", "s") as two,
    ):
        assert sorted(one.workers()) == ["s-1", "s-2"]
        assert sorted(two.workers()) == ["s-3"]


@pytest.mark.parametrize(("target", "extra"), [("with_file", []), ("with_loop", ["True"])])
def test_what_a_target_owns_is_made_in_the_worker_and_given_back_and_log_lines_name_the_conversation(
    kafka: Kafka, writer: Client, tmp_path: Path, target: str, extra: list[str]
) -> None:
    apply(kafka, [Service("owner", accepts=[various.NOTES]).declaration()], PARTITIONS, 1)
    with Running(kafka, tmp_path, "various:writer"), Running(kafka, tmp_path, f"various:{target}") as run:
        dialog = note(writer, "owner", "hello")
        until(lambda: written(tmp_path, "resource"), "the note")
        run.tell(signal.SIGTERM)
        assert run.ended()[0] == 0
        assert written(tmp_path, "resource") == [["hello", dialog, *extra], ["closed", *extra]]
        (line,) = [line for line in run.lines() if line["logger"] == "various"]
        assert line["message"] == "noted hello"
        assert line["conversation"] == dialog
        assert line["worker"].startswith("owner ")
        assert {line["conversation"] for line in run.lines() if line["logger"] != "various"} == {""}


# -- without the command line ----------------------------------------------------------------------------------------


def embedded(kafka: Kafka, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.acceptance.services.embedding", kafka.bootstrap, kafka.namespace],
        cwd=ROOT, env=environment(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_program_runs_its_services_until_a_signal(kafka: Kafka, counted: Client, tmp_path: Path) -> None:
    ids = count_up(counted, 3)
    with embedded(kafka, tmp_path) as program:
        until(lambda: totals(tmp_path) == complete(ids), "every dialog is counted to its end")
        program.terminate()
        out, err = program.communicate(timeout=20 * SLOWER)
    assert (program.returncode, out) == (0, "stopped in order\n"), err


def test_a_program_hears_that_kafka_is_not_there(tmp_path: Path) -> None:
    with embedded(Kafka("127.0.0.1:1"), tmp_path) as program:
        _, err = program.communicate(timeout=40 * SLOWER)
    assert program.returncode == 1
    assert "KafkaUnreachable: Kafka cannot be reached at 127.0.0.1:1" in err


def test_a_program_with_an_incomplete_service_connects_to_nothing() -> None:
    with pytest.raises(DeclarationError, match=r"Note \(contract Notes"):
        run(counting.sink, various.incomplete, kafka=Kafka("127.0.0.1:1"))


def test_a_release_is_compared_with_the_catalog_before_it_is_applied(kafka: Kafka, tmp_path: Path) -> None:
    """The exit code stops a pipeline if the release has effects, and the first release of a namespace has none."""
    where = ("releases:desk", "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace)
    strict = ("check", *where, "--catalog", "--strict", "--json")

    def of_release(number: int, *command: str) -> tuple[int, dict[str, Any]]:
        done = conversations(*command, out=tmp_path, variables={"RELEASE": str(number)})
        answer: dict[str, Any] = json.loads(done.stdout)
        return done.returncode, answer

    code, told = of_release(1, *strict)
    assert (code, told["effects"]) == (0, [])
    assert of_release(1, "apply", *where, "--json")[0] == 0
    assert of_release(1, *strict)[0] == 0
    code, told = of_release(2, *strict)
    assert code == 1
    assert ["peers hold messages of the new type Cancel" in line for line in told["effects"]] == [True], told
