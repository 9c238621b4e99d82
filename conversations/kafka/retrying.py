"""Asking Kafka again until a deadline, by tenacity: which failures pass is said in ``failures``, how long to wait by the caller.

Two loops are not written with it, as each of their attempts depends on what the one before did: those that commit and that abort a
transaction (``transactions``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tenacity
from confluent_kafka import KafkaError, KafkaException

from conversations.kafka.failures import Word, passing, unreachable, word_for

T = TypeVar("T")

AGAIN = 0.2
"""Seconds until a request is repeated that a broker could not answer just now."""


def is_retriable(error: KafkaError) -> bool:
    """Say whether nothing was decided, and the same call may be made again at once."""
    return word_for(error) is Word.RETRIABLE


def is_unsure(error: KafkaError) -> bool:
    """Say whether a broker answered that it does not know just now: its leader changes, or its coordinator loads."""
    return passing(error) and not unreachable(error)


def patiently(
    call: Callable[[], T], seconds: float, *, again: Callable[[KafkaError], bool] = is_retriable, pause: float = 0.0
) -> T:
    """Make a call, again while it fails with an error that passes.

    Args:
        call: raises ``KafkaException`` when it failed.
        seconds: after so many the last failure is raised.
        again: says which errors pass.
        pause: seconds between two calls.

    Raises:
        KafkaException: the call failed for good, or until the deadline.
    """

    def passes(failure: BaseException) -> bool:
        return isinstance(failure, KafkaException) and again(failure.args[0])

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(passes),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_fixed(pause),
        reraise=True,
    )
    try:
        return retrying(call)
    except BaseException as failure:  # noqa: BLE001 - raised again
        # tenacity's frame holds the failure and is held by its traceback: a client that failed would live, and go on asking,
        # until the garbage collector comes by.
        raise failure.with_traceback(None)  # noqa: B904 - the same failure


def looked_for(look: Callable[[], T], is_there: Callable[[T], bool], seconds: float, *, pause: float = AGAIN) -> T:
    """Look again until the awaited result is there, or the time is over; return the last result."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda found: not is_there(found)),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_fixed(pause),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        reraise=True,
    )
    return retrying(look)
