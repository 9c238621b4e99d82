"""Tests of whole services in milliseconds, without Kafka, Java, threads or waiting.

``Simulation`` runs the worker, codec and lanes of production on a log in memory and a clock that the test moves.
``Faults`` duplicates and re-orders records, crashes workers, aborts transactions and takes partitions away.
"""

from conversations.testing.faults import Faults
from conversations.testing.peer import Peer, PeerDialog
from conversations.testing.reading import DeadLetter
from conversations.testing.simulation import Simulation

__all__ = ["DeadLetter", "Faults", "Peer", "PeerDialog", "Simulation"]
