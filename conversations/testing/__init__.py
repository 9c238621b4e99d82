"""Tests of whole services in milliseconds, without Kafka, Java, threads or waiting.

``Simulation`` runs the same worker and codecs as production, on a log in memory and with a clock that the test moves.
``Faults`` duplicates and re-orders records, crashes workers, aborts transactions and takes partitions away.
"""

from conversations.protocol.parked import Decision, Parked
from conversations.testing.faults import Faults
from conversations.testing.peer import Peer, PeerDialog
from conversations.testing.reading import DeadLetter, PublishedRecord
from conversations.testing.simulation import Simulation

__all__ = ["DeadLetter", "Decision", "Faults", "Parked", "Peer", "PeerDialog", "PublishedRecord", "Simulation"]
