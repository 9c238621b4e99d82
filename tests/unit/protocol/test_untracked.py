"""Objects that the collector does not know, because they are never part of a reference cycle."""

import gc

import pytest

from conversations.form import is_compiled
from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.protocol.sequencing import Inbound

PREFIX = Prefix(bytes(16), True, "Orders", "shop", "stock", "key", False, 0, -1)


@pytest.mark.skipif(not is_compiled(), reason="in the Python form, the collector knows every object with attributes")
def test_the_collector_knows_no_envelope() -> None:
    assert not any(map(gc.is_tracked, (PREFIX, Envelope(PREFIX, Kind.MESSAGE, 0, -1), Inbound())))
