"""Counts the replies of a run as a reader of committed records sees them: none lost, none twice, all in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import Message

from bench import topics, wire
from bench.contenders import our_loop
from bench.workload import PARTITIONS, Job
from conversations.protocol.envelope import Kind
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing.said import said

Reply = tuple[object, int]
"""Conversation, and a number that is different for each reply in it."""


@dataclass(frozen=True)
class Verdict:
    """The number of replies of a run, and the numbers of faults."""

    replies: int
    lost: int
    twice: int
    disordered: int

    @property
    def good(self) -> bool:
        """True if every message was answered exactly once, in order."""
        return not (self.lost or self.twice or self.disordered)


def judge(replies: Iterable[Reply], messages: int) -> Verdict:
    """Judge replies, which are given in the order of their topic."""
    seen: set[Reply] = set()
    last: dict[object, int] = {}
    count = disordered = 0
    for reply in replies:
        count += 1
        seen.add(reply)
        conversation, number = reply
        disordered += number < last.get(conversation, -1)
        last[conversation] = number
    return Verdict(count, messages - len(seen), count - len(seen), disordered)


def plain(job: Job) -> Verdict:
    """Judge the replies of a contender that is not ours."""
    messages = topics.read(job.bootstrap, job.target, job.workload.partitions)
    return judge(_plain(messages), job.workload.messages)


def _plain(messages: Iterable[Message]) -> Iterator[Reply]:
    for message in messages:
        envelope = wire.decode(message.value() or b"")
        yield envelope["conversation"], envelope["ack"]


def queue(job: Job, messages: int | None = None) -> Verdict:
    """Judge the queue of the asking service: it must have an answer to each message of the workload, or ``messages`` answers."""
    topic = service_topic(job.space, our_loop.ASKING, QUEUE)
    found = topics.read(job.bootstrap, topic, job.workload.partitions)
    return judge(_queue(found), job.workload.messages if messages is None else messages)


def _queue(messages: Iterable[Message]) -> Iterator[Reply]:
    for message in messages:
        conversation, _from_initiator, kind, number = said(message.value())
        if kind is Kind.MESSAGE:
            yield conversation, number


def dialogs(bootstrap: str, space: str, service: str, count: int) -> Verdict:
    """Judge the queue of a service that must have exactly one message on each of ``count`` dialogs."""
    received = _messages(bootstrap, space, service)
    return judge(((conversation, 0) for conversation, _ in received), count)


def numbered(bootstrap: str, space: str, service: str, count: int) -> Verdict:
    """Judge the queue of a service that must have ``count`` different messages, in order on each dialog."""
    return judge(_messages(bootstrap, space, service), count)


def _messages(bootstrap: str, space: str, service: str) -> Iterator[Reply]:
    return _queue(topics.read(bootstrap, service_topic(space, service, QUEUE), PARTITIONS))
