"""Which records a forwarder leaves out after a queue has refused some."""

from conversations.kafka.refusing_queues import AGAIN_AFTER, Refused, RefusingQueues


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_queue_that_takes_nothing_is_left_out_for_a_while() -> None:
    clock = Clock()
    queues = RefusingQueues(clock)
    queues.note({"bad": Refused("it is missing")})
    assert not queues.takes("bad", 0)
    assert queues.takes("good", 1_000)
    clock.now = AGAIN_AFTER - 0.1
    queues.begin()
    assert not queues.takes("bad", 0)
    clock.now = AGAIN_AFTER
    queues.begin()
    assert queues.takes("bad", 0)


def test_a_record_that_is_too_large_is_found_one_by_one() -> None:
    """The first refusal may be about a batch. So nothing is left out before the size of one record is known."""
    clock = Clock()
    queues = RefusingQueues(clock)
    queues.note({"bad": Refused("too large", 300)})
    assert queues.is_careful("bad")
    assert queues.takes("bad", 300)
    queues.note({"bad": Refused("too large", 300)})
    assert (queues.takes("bad", 299), queues.takes("bad", 300)) == (True, False)
    queues.note({"bad": Refused("too large", 200)})
    assert (queues.takes("bad", 199), queues.takes("bad", 299)) == (True, False)
    clock.now = AGAIN_AFTER
    queues.begin()
    assert queues.takes("bad", 300)
    assert not queues.is_careful("bad")
