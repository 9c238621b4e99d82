"""The routes of a namespace in its status: what is down, and what waits for it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conversations import Kafka
from conversations.durations import SECOND
from conversations.kafka.forwarded import MOST, key_of, position_in
from conversations.protocol.letters import TEXT_LIMIT
from conversations.protocol.states import State
from conversations.protocol.topics import STATE
from conversations_ops.console.times import next_try
from conversations_ops.read_model.dialogs import Found, Page, merged
from conversations_ops.read_model.file import File
from conversations_ops.read_model.live import Live
from conversations_ops.read_model.status import Heads, Status, Unowned, cause, next_command, plain, stalled
from conversations_ops.read_model.transmissions import _ENDPOINTS, LOOKED_AT, unacknowledged
from conversations_ops.web.boards import Boards
from conversations_ops.web.hidden import routes_for
from conversations_ops.web.users import Role, User
from conversations_ops.why.facts import Way
from conversations_ops.why.routes import Route, Waiting, _added, condition, counted_most, with_stalls
from conversations_ops.why.unowned import with_unowned
from conversations_ops.why.ways import _away, _lacked, _last
from tests.support.waiting import until

NOW = 1_000_000_000_000
WAY = Way("emea", "kafka.emea:9092", 2, frozenset({0, 1}))
AWAY = WAY._replace(away=(NOW - 9, "no broker answers"))
WAITING = {"loans": Waiting(311, NOW + 32 * SECOND), "bills": Waiting(2, None)}


def clock(at: int) -> str:
    return f"<{at - NOW}>"


def status(service: str = "loans") -> Status:
    return Status(service, 2, 0, "", "", 0, 4, 311, 0, 0, 0, 0, None, (), ())


def route(way: Way = WAY, **changed: object) -> Route:
    return Route(way, {}, WAITING, None, NOW)._replace(**changed)  # type: ignore[arg-type]


def test_a_route_that_is_down_is_the_first_cause_of_the_services_that_wait_for_it() -> None:
    loans, idle = with_stalls([status(), status("idle")], [route(AWAY)])
    assert (
        cause(loans, clock) == "route to emea down since <-9>, 311 unacknowledged, next try in 32s: no broker answers"
    )
    assert next_command(loans) == "conversations events --event CLUSTER_AWAY"
    assert loans.needs_person
    assert (cause(idle, clock), idle.needs_person) == ("", False), "nothing of it waits"
    (bills,) = with_stalls([status("bills")], [route(WAY._replace(carried=frozenset({0}), ended=NOW - 4))])
    assert cause(bills, clock) == "route to emea: no forwarder runs since <-4>, 2 unacknowledged"
    assert next_command(bills) == "conversations forward emea"
    assert plain(loans, clock)["routes_down"] == [{
        "cluster": "emea", "forwarder": True, "why": "no broker answers", "since": "<-9>", "unacknowledged": 311, "next_try": f"<{32 * SECOND}>",
    }]  # fmt: skip


def test_a_failed_message_of_the_service_itself_is_told_before_a_route() -> None:
    held = status()._replace(heads=(Heads("KeyError", "Check", True, 1, NOW - 5, None),), held=1)
    (told,) = with_stalls([held], [route(AWAY)])
    assert cause(told, clock).startswith("1 dialog held: ")
    (told,) = with_stalls([status()._replace(waits_for=(("credit", 2),), letters=1)], [route(AWAY)])
    assert cause(told, clock).startswith("route to emea down"), "it is why the peer is waited for"


def test_a_service_without_workers_needs_a_person_if_there_is_work_for_one() -> None:
    idle = status()._replace(open=0)
    for found, unowned, says in (
        (status(), Unowned(2), "no worker has any partition: start the service"),
        (idle, Unowned(2, 1), "no worker has any partition, 1 record waits there: start the service"),
        (idle, Unowned(1, 5), "no worker has 1 of 2 partitions, 5 records wait there: start the service"),
    ):
        (told,) = with_unowned([found], {"loans": unowned})
        assert (cause(told, clock), told.needs_person) == (says, True)
        assert next_command(told) == "conversations why loans"
        assert plain(told, clock)["partitions_without_owner"] == unowned.partitions
        assert plain(told, clock)["records_without_owner"] == unowned.records
    (nothing_to_do,) = with_unowned([idle], {"loans": Unowned(2)})
    assert (cause(nothing_to_do, clock), nothing_to_do.needs_person) == ("", False)
    assert with_unowned([status()], {"other": Unowned(2)}) == [status()]


def test_a_missing_worker_is_told_before_what_it_would_try_again() -> None:
    failed = status()._replace(heads=(Heads("KeyError", "Check", False, 1, NOW - 5, NOW + 5),), unowned=Unowned(2))
    assert cause(failed, clock).startswith("no worker has any partition")
    assert cause(failed._replace(off=2, off_why="operator"), clock).startswith("queue off"), (
        "nobody would read it anyway"
    )


def test_a_route_that_is_carried_stalls_nothing() -> None:
    assert with_stalls([status()], [route()]) == [status()]
    assert condition(route(), clock) == "carried"
    assert (route().unacknowledged, route().next_try) == (313, NOW + 32 * SECOND)


def test_the_condition_of_a_route_is_said_in_a_few_words() -> None:
    assert condition(route(AWAY), clock) == "down since <-9>: no broker answers"
    assert condition(route(WAY._replace(carried=frozenset())), clock) == "no forwarder runs"
    assert (
        condition(route(WAY._replace(carried=frozenset({1}), ended=NOW - 4)), clock)
        == "some partitions have no forwarder since <-4>"
    )
    assert condition(route(lacked={"debit": NOW - 6}), clock) == "it had no service 'debit' at <-6>"
    down = route(AWAY, lacked={"debit": NOW - 6})
    assert condition(down, clock) == "down since <-9>: no broker answers; it had no service 'debit' at <-6>"
    quiet = route(AWAY, waiting={}).stall()
    assert quiet is not None
    assert stalled(quiet, clock) == "route to emea down since <-9>, nothing waits: no broker answers"


def test_a_count_that_has_ended_early_says_so() -> None:
    assert [counted_most(it) for it in (None, 0, 1_234, MOST)] == ["", "0", "1,234", "10,000 or more"]


def test_the_next_try_is_ahead_or_now() -> None:
    assert [next_try(at, NOW) for at in (None, NOW - 1, NOW, NOW + 90 * SECOND)] == [
        "", "next try now", "next try now", "next try in 1m30s",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[]", b"not JSON", b'{"next": -1}', b'{"next": true}', b'{"next": "7"}'])  # fmt: skip
def test_a_position_that_is_none_is_the_start(value: bytes | None) -> None:
    assert position_in(value) == 0


def test_a_position_belongs_to_one_partition_of_one_topic() -> None:
    assert position_in(b'{"next": 7, "at": 1}') == 7
    assert key_of("an id", 3) == b"an id/3"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    with File(tmp_path / "model.sqlite") as file:
        yield file


def test_what_waits_for_all_services_of_a_cluster_is_added_up(file: File) -> None:
    """Two services here, and two on the other cluster; a third one there waits for nothing."""
    for service in ("loans", "bills"):
        file.connection.execute("INSERT INTO places VALUES (?,0,?,?,'id',0,0)", (f"{service}.state", service, STATE))
    for service, peer, pending in (("loans", "credit", 3), ("loans", "debit", 4), ("bills", "debit", 5)):
        file.connection.execute("INSERT INTO sums VALUES (?,0,?,1,?,0,0,0)", (service, peer, pending))
    waiting: dict[str, Waiting] = {}
    for peer in ("credit", "debit", "idle"):
        waiting = _added(file, waiting, peer)
    assert waiting == {"loans": Waiting(7, None), "bills": Waiting(5, None)}


def tell(file: File, *events: dict[str, object]) -> None:
    for number, it in enumerate(events):
        row = (number, NOW + number, it["event"], "", "", "", "", json.dumps(it))
        file.connection.execute("INSERT INTO events VALUES (?,?,?,?,?,?,?,?)", row)


def test_events_of_forwarders_that_somebody_else_wrote_do_no_harm(file: File) -> None:
    tell(
        file,
        {"event": "NOT_FORWARDED", "cluster": "emea", "service": "debit"},
        {"event": "NOT_FORWARDED"},
        {"event": "NOT_FORWARDED", "cluster": ["emea"], "service": {"a": 1}},
        {"event": "CLUSTER_AWAY"},
        {"event": "CLUSTER_AWAY", "cluster": "emea", "why": "x" * 1_000_000},
    )
    assert _lacked(file)["emea", "debit"] == NOW
    since, why = _away({"CLUSTER_AWAY": _last(file, "CLUSTER_AWAY")["emea"]}) or (0, "")
    assert (since, len(why)) == (NOW + 4, TEXT_LIMIT)


def test_a_viewer_does_not_see_what_a_forwarder_was_told() -> None:
    ann, ben = (User("a", Role.OPERATOR, bodies=True), User("b", Role.VIEWER, bodies=False))
    found = [route(WAY._replace(away=(NOW - 9, "GroupCoordinator: at kafka.emea"))), route()]
    assert [it.way.away for it in routes_for(ann, found)] == [(NOW - 9, "GroupCoordinator: at kafka.emea"), None]
    assert [it.way.away for it in routes_for(ben, found)] == [(NOW - 9, "GroupCoordinator"), None]


def side(number: int, initiator: int) -> Found:
    own = number.to_bytes(16, "big") + bytes([initiator])
    return Found("s", 0, own, "", "", State.CONVERSING, None, False, 0, 0, 0, "", 0)


def test_pages_of_several_clusters_are_one_page_without_holes() -> None:
    """One cluster has more than fits, the other one has only old dialogs: these come on a later page."""
    here = Page([side(9, 1), side(8, 1), side(7, 1)], side(7, 1).own)
    there = Page([side(8, 0), side(7, 1), side(2, 0)], b"")
    found = merged([here, there])
    assert [(it.own[15], it.own[16]) for it in found.sides] == [(9, 1), (8, 1), (8, 0), (7, 1), (7, 1)]
    assert found.more == here.more
    assert merged([Page([], b""), there]) == there
    assert merged([]) == Page([], b"")


def test_a_board_tells_why_it_knows_nothing_and_keeps_no_page_waiting(tmp_path: Path) -> None:
    live = Live(Kafka("127.0.0.1:1"), tmp_path)
    boards = Boards({"": live})
    assert boards.of("") is None, "the first page does not wait"
    board = until(lambda: boards.of(""), "a look has ended", 60)
    assert board is not None
    assert board.routes == ()
    assert "127.0.0.1:1" in board.trouble


def test_what_waits_for_a_peer_is_found_without_a_look_at_every_side(file: File) -> None:
    plan = file.connection.execute(f"EXPLAIN QUERY PLAN {_ENDPOINTS}", ("loans", "credit", LOOKED_AT)).fetchall()
    assert "sides_unacknowledged (service=? AND peer=?)" in plan[0][3]
    assert unacknowledged(file, "loans", "credit") == (0, None)
