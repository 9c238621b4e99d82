"""The offsets of the inputs that a consumer reads: where it began, and where it last reached the end."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

Place = tuple[str, int]
"""A topic and the number of a partition."""


class InputOffsets:
    """The inputs that one consumer reads.

    Of each it knows the offset at which reading began, the offset at which its end was last reached, and whether it is paused. The end
    is needed because transaction markers come behind the last record, and no record shows that they are read.
    """

    __slots__ = ("_ends", "_paused", "_starts")

    def __init__(self) -> None:
        self._starts: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._paused: set[Place] = set()

    def __contains__(self, place: Place) -> bool:
        return place in self._starts

    def begin(self, place: Place, offset: int | None) -> None:
        """Note that an input is read from ``offset`` on, or from the start of its log. What was known of the input is not valid any more."""
        self.forget(place)
        self._starts[place] = offset or 0

    def forget(self, place: Place) -> None:
        """Note that an input is not read any more."""
        self._starts.pop(place, None)
        self._ends.pop(place, None)
        self._paused.discard(place)

    def pause(self, place: Place) -> None:
        """Note that an input is paused."""
        self._paused.add(place)

    def resume(self, place: Place) -> None:
        """Note that an input is read again."""
        self._paused.discard(place)

    def is_paused(self, place: Place) -> bool:
        """Return True if an input is paused."""
        return place in self._paused

    def reach_end(self, place: Place, offset: int) -> None:
        """Note that every record before ``offset`` was returned, and that nothing comes behind it now. Ignore inputs that are not read."""
        if place in self._starts:
            self._ends[place] = offset

    def end(self, place: Place) -> int:
        """Return the offset at which the end of an input was last reached, or 0."""
        return self._ends.get(place, 0)

    def positions(self, consumer: Consumer) -> dict[Place, int]:
        """Return the next offset of each input that is not paused. Transaction markers at the end of an input are skipped."""
        flowing = [TopicPartition(*place) for place in self._starts if place not in self._paused]
        found = consumer.position(flowing) if flowing else []
        at = {(it.topic, it.partition): it.offset for it in found}
        return {place: max(offset, self._starts[place], self.end(place)) for place, offset in at.items()}
