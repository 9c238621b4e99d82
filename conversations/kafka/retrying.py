"""Repeats calls to Kafka until a deadline, with tenacity. ``failures`` decides which errors may pass with time.

Two loops in ``transactions`` do not use this module: the commit and the abort of a transaction. There, each attempt depends on the
result of the attempt before.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

import tenacity
from confluent_kafka import KafkaError, KafkaException

from conversations.kafka.failures import Word, not_ready, passing, unreachable, word_for

T = TypeVar("T")

AGAIN = 0.2
"""Seconds before a request is repeated, if a broker could not answer it."""


def is_retriable(error: KafkaError) -> bool:
    """Return True if the failed call decided nothing, so that the same call may be repeated at once."""
    return word_for(error) is Word.RETRIABLE


def is_unsure(error: KafkaError) -> bool:
    """Return True if a broker could not serve the request now, because a leader is changing or not known yet, or a coordinator is loading."""
    return passing(error) and (not unreachable(error) or not_ready(error))


def patiently(
    call: Callable[[], T], seconds: float, *, again: Callable[[KafkaError], bool] = is_retriable, pause: float = 0.0
) -> T:
    """Make a call. Repeat the call while it fails with an error that may pass.

    Args:
        call: function that raises ``KafkaException`` when it fails.
        seconds: time after which the last failure is raised.
        again: function that returns True for errors that may pass.
        pause: seconds between two calls.

    Raises:
        KafkaException: the call failed with an error that cannot pass, or still failed at the deadline.
    """
    began = monotonic()
    try:
        return call()  # nearly always the only call: tenacity takes longer for it than some of Kafka's calls
    except KafkaException as failure:
        if not again(failure.args[0]):
            raise failure.with_traceback(None)  # noqa: B904 - the same failure, for the same reason as below
        failed = [failure.with_traceback(None)]

    def repeat() -> T:
        if failed:  # tenacity's first attempt has been made: it failed
            raise failed.pop()
        return call()

    def passes(failure: BaseException) -> bool:
        return isinstance(failure, KafkaException) and again(failure.args[0])

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(passes),
        stop=tenacity.stop_after_delay(max(0.0, seconds - (monotonic() - began))),
        wait=tenacity.wait_fixed(pause),
        reraise=True,
    )
    try:
        return retrying(repeat)
    except KafkaException as failure:
        # tenacity's frame refers to the failure, and the failure's traceback refers to that frame. This cycle would keep a
        # failed client alive, and sending requests, until the next garbage collection.
        raise failure.with_traceback(None)  # noqa: B904 - the same failure


def looked_for(look: Callable[[], T], is_there: Callable[[T], bool], seconds: float, *, pause: float = AGAIN) -> T:
    """Call ``look`` until ``is_there`` accepts its result, or until ``seconds`` have passed. Return the last result."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda found: not is_there(found)),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_fixed(pause),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        reraise=True,
    )
    return retrying(look)
