"""The owner of queue partitions: polls, decides, runs handlers in lanes, commits one transaction per step."""

from conversations.worker.loop import Worker

__all__ = ["Worker"]
