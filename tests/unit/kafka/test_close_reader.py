"""A client that does not close keeps nobody waiting for ever."""

from threading import Event

import pytest

from conversations.kafka.clients import close_reader


class Standing:
    """A client whose close stands still, as librdkafka's does in a rare moment."""

    def __init__(self) -> None:
        self.ends = Event()

    def close(self) -> None:
        self.ends.wait()


def test_a_close_that_stands_still_is_left_alone_and_told(caplog: pytest.LogCaptureFixture) -> None:
    standing = Standing()
    close_reader(standing, 0.05)  # type: ignore[arg-type]  # librdkafka's own client cannot be brought to it on purpose
    assert "did not close in 0.05 s" in caplog.text
    standing.ends.set()
    caplog.clear()
    close_reader(standing, 5.0)  # type: ignore[arg-type]  # as above
    assert caplog.text == ""
