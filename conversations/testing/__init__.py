"""Test whole services in milliseconds: no Kafka, no Java, no threads, no waiting.

``Simulation`` runs the worker, codec and lanes that run in production on a log in memory and a clock moved by hand;
``Faults`` duplicates and re-orders records, crashes workers, aborts transactions and takes partitions away.
"""

from conversations.testing.faults import Faults
from conversations.testing.peer import Peer, PeerDialog
from conversations.testing.reading import DeadLetter
from conversations.testing.simulation import Simulation

__all__ = ["DeadLetter", "Faults", "Peer", "PeerDialog", "Simulation"]
