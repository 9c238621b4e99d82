"""The checker of chaos runs of speakers finds each fault that is planted in a clean run."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from conversations.protocol import rows
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from tests.chaos.checker.finding import Finding
from tests.chaos.checker.records import Record
from tests.chaos.checker.speakers import judge

DIALOG = "0199c1f2-0000-7000-8000-000000000001"
ID = UUID(DIALOG).bytes
DESK, SHOP = "desk", "shop"
Said = tuple[str, int]
SAID: tuple[Said, ...] = (("handler", 0), ("hook", 0), ("terminal", 0), ("hook", 1))


class Run:
    """A run: the desk asks at 1, the shop speaks at 10 to 13, the desk hears it at 20 to 23, and ends at 30."""

    def __init__(self) -> None:
        self._offsets = count()
        self.plan: dict[str, Any] = {
            "namespace": "ns", "desk": DESK, "shop": SHOP, "told": "run.told", "heard": "run.heard", "dialogs": [DIALOG],
            "accepted": {"hook": {DIALOG: 2}, "terminal": {DIALOG: 1}},
        }  # fmt: skip
        self.records: list[Record] = []
        self.views: list[dict[str, Any]] = []
        self.envelope(0, 1, initiator=True)
        self.row(SHOP, 1, 5)
        self._add("run.told", 6, {"n": 0, "handle": f"{DIALOG}:target"})
        for number, said in enumerate(SAID):
            self.envelope(number, 10 + number, initiator=False)
            self.row(DESK, number + 1, 20 + number)
            self.hear(said, number, 20 + number)
        self.envelope(1, 30, initiator=True, kind=Kind.END)
        self.row(SHOP, 2, 31)
        self.view(DESK, 22, sequenced=1, acknowledged=1, accepted=3, handled=3, counted=3)
        self.view(SHOP, 22, sequenced=4, acknowledged=3, accepted=1, handled=1)
        self.view(DESK, 31, status="ended", sequenced=2, accepted=4)
        self.view(SHOP, 31, status="ended", sequenced=4, accepted=2)

    def hear(self, said: Said, number: int, at: int) -> None:
        self._add("run.heard", at, {"speaker": said[0], "n": said[1], "number": number, "over": False})

    def view(self, service: str, at: int, *, status: str = "open", refused: int = 0, **told: int) -> None:
        nothing = dict.fromkeys(("sequenced", "acknowledged", "accepted", "handled", "counted"))
        self.views.append(
            {"at": at, "service": service, "dialog": DIALOG, "status": status, "refused": refused} | nothing | told
        )

    def envelope(self, number: int, at: int, *, initiator: bool, kind: Kind = Kind.MESSAGE) -> None:
        ours, theirs = (DESK, SHOP) if initiator else (SHOP, DESK)
        prefix = Prefix(ID, initiator, "talk", ours, theirs, DIALOG, initiator, 0, NEVER >> 2)
        self._put(f"ns.{theirs}.queue", at, DIALOG.encode(), encode(Envelope(prefix, kind, number, -1, -1, sent_at=0)))

    def row(self, service: str, accepted: int, at: int) -> None:
        initiator = service == DESK
        endpoint = Endpoint(
            ID, initiator, contract="talk", service=service, peer=SHOP if initiator else DESK, key=DIALOG, peer_key=DIALOG,
            expires_at=NEVER,
        )  # fmt: skip
        endpoint.inbound.next = accepted
        key = rows.ENDPOINT + rows.identity(ID, initiator)
        self._put(f"ns.{service}.state", at, key, rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)))

    def letter(self) -> None:
        self._put(f"ns.{SHOP}.dead-letter", 20, b"", b"")

    def without(self, topic: str, at: int) -> None:
        self.records = [it for it in self.records if (it.topic, it.timestamp) != (topic, at)]

    def _add(self, topic: str, at: int, note: dict[str, Any]) -> None:
        self._put(topic, at, DIALOG.encode(), json.dumps(note).encode())

    def _put(self, topic: str, at: int, key: bytes, value: bytes) -> None:
        self.records.append(Record(topic, 0, next(self._offsets), at, key, value))

    def judged(self) -> Finding[Any]:
        return judge(self.plan, self.views, self.records)


def test_a_clean_run_is_clean() -> None:
    found = Run().judged()
    assert found.clean, found.wrong
    assert found.line == (
        "dialogs 1 · of the handler 1 · of the hook 2 · of the terminal 1 · changes of speaker 3 · views 4 · "
        "lost 0, twice 0, unasked 0, holes 0, out of order 0, told too early 0, told backwards 0, refused 0, letters 0"
    )


@pytest.mark.parametrize(
    ("plant", "faults"),
    [
        (lambda it: it.plan["accepted"]["hook"].update({DIALOG: 3}), {"lost"}),
        (lambda it: it.plan["accepted"]["hook"].update({DIALOG: 1}), {"unasked"}),
        (lambda it: it.hear(("hook", 1), 4, 24), {"twice"}),
        (lambda it: it.envelope(3, 14, initiator=False), {"twice"}),
        (lambda it: it.hear(("hook", 0), 4, 24), {"twice", "out of order"}),
        (lambda it: (it.without("run.heard", 23), it.hear(("hook", 1), 5, 23)), {"holes"}),
        (lambda it: it.view(DESK, 40, refused=1), {"refused"}),
        (lambda it: it.letter(), {"letters"}),
        (lambda it: it.view(SHOP, 40, sequenced=3), {"told backwards"}),
        (lambda it: it.view(SHOP, 40, sequenced=5), {"told too early"}),
        (lambda it: it.views.insert(0, it.views[0] | {"at": 21, "handled": 0, "counted": 0}), {"told too early"}),
        (lambda it: it.views.insert(0, it.views[0] | {"at": 21, "counted": 0, "accepted": 0}), {"told too early"}),
        (lambda it: it.views.insert(0, it.views[0] | {"at": 21, "handled": 0, "accepted": 0}), {"told too early"}),
        (lambda it: (it.without("ns.desk.queue", 12), it.envelope(2, 23, initiator=False)), {"told too early"}),
        (lambda it: it.views.insert(0, it.views[1] | {"at": 21}), {"told too early"}),
        (lambda it: it.views.insert(0, it.views[2] | {"at": 29, "accepted": 0, "sequenced": 0}), {"told too early"}),
        (lambda it: it.view(SHOP, 40, status="failed"), {"told too early"}),
    ],
)  # fmt: skip
def test_each_fault_is_found(plant: Callable[[Run], None], faults: set[str]) -> None:
    run = Run()
    plant(run)
    assert {name for name, items in run.judged().wrong.items() if items} == faults
