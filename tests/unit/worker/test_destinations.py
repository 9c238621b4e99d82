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
    destinations = Destinations("conv", lambda _: None, catalog_is_not_read, lambda _: "", Periods(), schemas)
    now, pauses = DAY, []
    for _ in range(7):
        pauses.append(pause(destinations, now))
        now += pauses[-1] * SECOND
    assert pauses == [4, 8, 16, 32, 64, 64, 64]
    assert pause(destinations, now + 10 * MINUTE) == 4


def test_envelopes_for_another_cluster_go_into_its_transmission_topic() -> None:
    schemas = WriterSchemas(catalog_is_not_read, dict)
    counts = {"credit": 4, "loans": 12}
    clusters = {"credit": "emea"}
    destinations = Destinations(
        "conv", counts.get, catalog_is_not_read, lambda service: clusters.get(service, ""), Periods(), schemas
    )
    assert [destinations.topic(it) for it in ("credit", "loans")] == ["conv.emea.transmission", "conv.loans.queue"]
    assert destinations.partitions("credit") == 4


def test_the_way_to_another_cluster_follows_the_catalog_and_one_of_this_cluster_stays() -> None:
    schemas = WriterSchemas(catalog_is_not_read, dict)
    counts = {"credit": 4, "loans": 12}
    clusters = {"credit": "emea"}
    destinations = Destinations(
        "conv", counts.get, catalog_is_not_read, lambda service: clusters.get(service, ""), Periods(), schemas
    )
    assert (destinations.partitions("credit"), destinations.partitions("loans")) == (4, 12)
    clusters["credit"], counts["credit"], counts["loans"] = "apac", 7, 13
    assert (destinations.partitions("credit"), destinations.partitions("loans")) == (7, 12)
    assert destinations.topic("credit") == "conv.apac.transmission"
