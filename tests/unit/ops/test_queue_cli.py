"""What `conversations queue show` prints."""

import pytest

from conversations.protocol.command import Switch
from conversations_ops.cli.queue import _plain, _show, _turned
from conversations_ops.operate.queues import Queue


def queue(service: str, partition: int, off: str = "", dialogs: int = 0) -> Queue:
    return Queue(service, partition, off, 1, "root", "INC-1", 0, dialogs, 2 * dialogs)


def shown(capsys: pytest.CaptureFixture[str], *found: Queue, every: bool = False) -> tuple[list[str], str]:
    _show(list(found), every=every)
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_only_what_is_off_or_holds_messages_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    on = [queue("a", 0), queue("a", 1)]
    assert shown(capsys, *on) == (["all queues are on: 2 partitions of 1 service (--all lists them)"], "")
    lines, rest = shown(capsys, *on, queue("b", 0, "operator"), queue("b", 1, dialogs=3))
    assert [line.split("\t")[:3] for line in lines[1:]] == [["b", "0", "OFF"], ["b", "1", "on"]]
    assert rest == "all other queues are on: 2 partitions of 2 services (--all lists them)\n"
    assert shown(capsys, queue("b", 0, "policy"))[1] == ""
    assert shown(capsys) == (["there is no service"], "")


def test_all_lists_every_partition(capsys: pytest.CaptureFixture[str]) -> None:
    lines, rest = shown(capsys, queue("a", 0), queue("a", 1), queue("b", 0, "operator"), every=True)
    assert [line.split("\t")[:3] for line in lines[1:]] == [["a", "0", "on"], ["a", "1", "on"], ["b", "0", "OFF"]]
    assert rest == ""


def test_the_first_end_of_a_lifetime_is_the_deadline(capsys: pytest.CaptureFixture[str]) -> None:
    waits = queue("b", 0, "policy", dialogs=2)._replace(deadline=1_000_000)
    (_, line), _ = shown(capsys, waits)
    assert line.endswith("\tnow (1970-01-01T00:00:01+00:00)")
    assert _plain(waits)["deadline"] == "1970-01-01T00:00:01+00:00"
    assert _plain(queue("b", 0))["deadline"] is None


def test_a_switch_is_told_before_it_is_made_and_after() -> None:
    found, on, off = [queue("b", 0, "operator", dialogs=3), queue("b", 1)], Switch(True, "x"), Switch(False, "x")
    assert _turned(found, "b", on, done=False) == "turn the queue of b on in 1 of 2 partitions; 6 messages wait for it"
    assert (
        _turned(found, "b", on, done=True) == "turned the queue of b on in 1 of 2 partitions; 6 messages waited for it"
    )
    assert (
        _turned(found[1:], "b", off, done=True)
        == "turned the queue of b off in 1 of 1 partition; 0 messages wait for it"
    )
    one = [found[0]._replace(messages=1)]
    assert _turned(one, "b", on, done=False).endswith("; 1 message waits for it")
