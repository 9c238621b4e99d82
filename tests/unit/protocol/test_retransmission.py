"""When a side transmits again, and how much of it."""

from conversations.protocol.retransmission import FIRST, Retransmission
from conversations.protocol.timers import NEVER


def amounts(far: Retransmission, count: int) -> list[str]:
    """Let so many retransmissions be due, and say what each of them carries."""
    found: list[str] = []
    while len(found) < count:
        if far.again(far.at):
            found.append("probe" if far.probes() else "everything")
    return found


def test_after_the_first_time_only_a_probe_is_transmitted() -> None:
    far = Retransmission()
    far.sent(0)
    assert amounts(far, 4) == ["everything", "probe", "probe", "probe"]


def test_after_an_acknowledgement_everything_is_transmitted_again() -> None:
    far = Retransmission()
    far.sent(0)
    amounts(far, 3)
    far.acknowledged(100, everything=False)
    assert far.at == 100 + FIRST
    assert amounts(far, 2) == ["everything", "probe"]
    far.acknowledged(200, everything=True)
    assert far.at == NEVER
    far.sent(300)
    assert amounts(far, 2) == ["everything", "probe"]


def test_a_restored_side_begins_with_a_probe() -> None:
    far = Retransmission()
    far.restored(50)
    assert far.at == 50
    assert amounts(far, 2) == ["probe", "probe"]
