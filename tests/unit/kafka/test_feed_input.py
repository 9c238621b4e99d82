"""The input of a feed and of a forwarder."""

import gc
from weakref import ref

from conversations import Kafka
from conversations.kafka.feed_input import FeedInput


def test_a_closed_input_is_freed_without_the_garbage_collector() -> None:
    """Else each time that a feed begins anew leaves the threads of a client behind. No broker is needed."""
    inputs = FeedInput(Kafka("127.0.0.1:1"), "readings", "group")
    freed = ref(inputs)
    gc.disable()
    try:
        inputs.join()
        inputs.close()
        del inputs
        assert freed() is None
    finally:
        gc.enable()
