"""A program that runs its services itself; arguments: bootstrap address, namespace."""

import sys

from conversations import Kafka, run
from tests.acceptance.services import counting

run(counting.source, counting.sink, kafka=Kafka(sys.argv[1], namespace=sys.argv[2]), concurrency=4)
sys.stdout.write("stopped in order\n")
