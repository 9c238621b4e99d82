"""The requests that clients of this process wait for, by the conversation that answers each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conversations.hosts import Watcher
from conversations.protocol.effects import Failure

MOST = 10_000
"""Maximum number of answered conversations that are kept. If another worker takes a partition over, their commit never comes here."""


class _Answered:
    """Stands for a request that has its answer, until the step with the answer is committed."""

    __slots__ = ("_message_type",)

    def __init__(self, message_type: str) -> None:
        self._message_type = message_type

    def wants(self, message_type: str) -> bool:
        return message_type == self._message_type

    def message(self, message_type: str, body: object) -> None:
        """Do nothing: the client has its answer."""

    def taken(self) -> None:
        """Do nothing."""

    def acknowledged(self) -> None:
        """Do nothing."""

    def over(self, failure: Failure | None) -> None:
        """Do nothing."""


class Watchers:
    r"""Finds who waits for the messages of a conversation, and keeps the answers to tell before the commit. ``Context.lock`` guards it.

    watch --> waits --answer--> answered --committed--> gone
                \--forget--> gone

    A client may get its answer before the step that read it is committed, if no handler of the service runs for the answer: the peer has
    committed it. Then the client does not wait any more, and forgets the request. But the step may be rolled back, and read the answer
    again. So the conversation stays ``answered`` until the commit: an answer that is read again still ends its dialog, and is told to nobody.
    """

    __slots__ = ("_answered", "_answers", "_waits", "there")

    def __init__(self) -> None:
        self._waits: dict[bytes, Watcher] = {}
        self._answered: dict[bytes, _Answered] = {}
        self._answers: list[Callable[[], None]] = []
        self.there = False
        """True if there is a request or an answer. It is an attribute, because the worker looks at it for each message."""

    def _look(self) -> None:
        self.there = bool(self._waits or self._answered or self._answers)

    def watch(self, conversation: bytes, watcher: Watcher) -> None:
        """Let a request wait for the messages of a conversation."""
        self._waits[conversation] = watcher
        self.there = True

    def forget(self, conversation: bytes) -> None:
        """End the wait for a conversation."""
        self._waits.pop(conversation, None)
        self._look()

    def find(self, conversation: bytes) -> Watcher | None:
        """Return the request that waits for a conversation, or what stands for it until the commit of its answer; None if there is none."""
        return self._waits.get(conversation) or self._answered.get(conversation)

    def all(self) -> list[Watcher]:
        """Return the requests that wait."""
        return list(self._waits.values())

    def follow(self, before: bytes, after: bytes) -> None:
        """Let the request that waits for a conversation also wait for the conversation that carries on with it."""
        if (watcher := self._waits.get(before)) is not None:
            self._waits[after] = watcher

    def answer(self, conversation: bytes, watcher: Watcher, message_type: str, body: object) -> None:
        """Keep an answer that ``take_answers`` returns before the commit."""
        self._waits.pop(conversation, None)
        self._answered[conversation] = _Answered(message_type)
        if len(self._answered) > MOST:
            del self._answered[next(iter(self._answered))]
        self._answers.append(partial(watcher.message, message_type, body))
        self.there = True

    def committed(self, conversation: bytes) -> None:
        """Note that the step with the answer of a conversation is committed. This call needs no lock."""
        self._answered.pop(conversation, None)
        self._look()

    def take_answers(self) -> list[Callable[[], None]]:
        """Return the calls that tell the answers of this step. The caller makes them without the lock."""
        answers, self._answers = self._answers, []
        self._look()
        return answers
