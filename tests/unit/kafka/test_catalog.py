from conversations.kafka.catalog import Catalog, schema_record, service_record
from conversations.protocol.declarations import ServiceDeclaration

ORDERS = ServiceDeclaration("orders", accepts={"Ordering": {"target": ["Placed"], "initiator": ["Order", "Cancel"]}})


def test_what_is_written_is_read_back() -> None:
    catalog = Catalog()
    catalog.take([service_record("orders", ORDERS.entry(8)), schema_record("00ff", '"bytes"')])
    assert catalog.partitions("orders") == 8
    assert catalog.services["orders"]["accepts"] == {
        "Ordering": {"initiator": ["Cancel", "Order"], "target": ["Placed"]}
    }
    assert catalog.schemas == {"00ff": '"bytes"'}
    assert catalog.partitions("nobody") is None


def test_a_deleted_service_is_gone_and_foreign_keys_are_left_alone() -> None:
    catalog = Catalog()
    catalog.take([service_record("orders", ORDERS.entry(8)), (b"policy/x", b"not json"), (b"service/orders", None)])
    assert catalog.services == {}


def test_an_entry_does_not_depend_on_the_order_of_declaration() -> None:
    one = ServiceDeclaration("s", accepts={"A": {"any": ["x", "y"]}, "B": {"any": []}})
    other = ServiceDeclaration("s", accepts={"B": {"any": []}, "A": {"any": ["y", "x"]}})
    assert service_record("s", one.entry(1)) == service_record("s", other.entry(1))
