"""Laws of destinations that take no records."""

from conversations.config import Periods
from conversations.durations import DAY, MINUTE, SECOND
from conversations.worker.destinations import Destinations
from conversations.writer_schemas import WriterSchemas


def catalog_is_not_read() -> None:
    raise AssertionError("nothing here reads the catalog")


def pause(destinations: Destinations, now: int) -> int:
    """Block a topic; return the seconds until it is tried again."""
    destinations.block("shop", now)
    at = destinations.blocked["shop"]
    destinations.try_again(at - 1)
    assert "shop" in destinations.blocked
    destinations.try_again(at)
    assert "shop" not in destinations.blocked
    return (at - now) // SECOND


def test_pauses_are_those_of_service_broker() -> None:
    """4, 8, 16, 32, and then always 64 seconds; from the beginning again after some minutes without a refusal."""
    schemas = WriterSchemas(catalog_is_not_read, dict)
    destinations = Destinations("conv", lambda _: None, catalog_is_not_read, Periods(), schemas)
    now, pauses = DAY, []
    for _ in range(7):
        pauses.append(pause(destinations, now))
        now += pauses[-1] * SECOND
    assert pauses == [4, 8, 16, 32, 64, 64, 64]
    assert pause(destinations, now + 10 * MINUTE) == 4
