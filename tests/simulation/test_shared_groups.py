"""Groups that initiators name: all dialogs about one thing share its lane and its state, whoever began them."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Contract, Dialog, LocalError, Service, WorkerSettings, local
from conversations.protocol import rows
from conversations.protocol.contract import ANY_SERVICE
from conversations.protocol.envelope import Kind
from conversations.protocol.times import moment
from conversations.testing import Faults, Simulation, reading
from tests.simulation.support import records

DAY = timedelta(days=1)


class Transfer(BaseModel):
    amount: int


class Done(BaseModel):
    balance: int


class Close(BaseModel):
    pass


class Account(BaseModel):
    balance: int = 0
    transfers: int = 0


def contract(*names: str) -> Contract:
    return Contract("Transfers", sent_by_initiator=[Transfer, Close], sent_by_target=[Done], group_named_by=names)


TRANSFERS = contract("bank", "till")


def accounts(declared: Contract = TRANSFERS) -> Service[Account]:
    service = Service("accounts", state=Account, accepts=[declared])

    @service.on(Transfer)
    def transfer(body: Transfer, dialog: Dialog[Account]) -> None:
        account = dialog.group.state
        account.balance += body.amount
        account.transfers += 1
        dialog.send(Done(balance=account.balance))

    @service.on(Close)
    def close(_: Close, dialog: Dialog[Account]) -> None:
        dialog.group.delete_state()

    return service


def transfer(sim: Simulation, who: str, account: str, amount: int, declared: Contract = TRANSFERS) -> Any:
    dialog = sim.peer(who).begin_dialog("accounts", declared, to_group=account)
    dialog.send(Transfer(amount=amount))
    return dialog


def group_rows(sim: Simulation) -> dict[bytes, rows.GroupRow]:
    return {
        key: rows.decode_group(row)
        for table in reading.state_of(sim.broker, "accounts")
        for key, row in table.items()
        if key.startswith(rows.GROUP)
    }


def test_two_initiators_share_the_state_of_one_account() -> None:
    with Simulation(accounts(), partitions=4) as sim:
        transfer(sim, "bank", "account-42", 100)
        transfer(sim, "till", "account-42", -30)
        transfer(sim, "till", "account-43", 5)
        sim.run()
        found = sim.state("accounts", "account-42")
        assert found is not None
        assert (found.value, found.as_of) == (Account(balance=70, transfers=2), moment(sim.clock.now()))
        assert sim.state("accounts", "account-44") is None
        sim.check_invariants()


def test_the_state_outlives_its_dialogs_and_its_row_does_not_grow() -> None:
    with Simulation(accounts(), partitions=1) as sim:
        for number in range(20):
            dialog = transfer(sim, ("bank", "till")[number % 2], "a", 1)
            sim.run()
            dialog.end()
            sim.run()
        (row,) = group_rows(sim).values()
        assert len(row.members) == 0
        sim.advance(3 * DAY)
        assert sim.open_dialogs() == []
        sim.crash("accounts")
        sim.run()
        found = sim.state("accounts", "a")
        assert found is not None
        assert found.value == Account(balance=20, transfers=20)
        transfer(sim, "bank", "a", 1)
        sim.run()
        found = sim.state("accounts", "a")
        assert found is not None
        assert found.value.balance == 21
        sim.check_invariants()


def test_deleted_state_is_gone_with_the_last_dialog() -> None:
    with Simulation(accounts(), partitions=1) as sim:
        first = transfer(sim, "bank", "a", 7)
        closing = sim.peer("till").begin_dialog("accounts", TRANSFERS, to_group="a")
        sim.run()
        closing.send(Close())
        sim.run()
        assert sim.state("accounts", "a") is None
        first.send(Transfer(amount=1))
        sim.run()
        found = sim.state("accounts", "a")
        assert found is not None
        assert found.value.balance == 1
        closing.send(Close())
        for dialog in (first, closing):
            dialog.end()
        sim.run()
        assert group_rows(sim) == {}
        sim.advance(3 * DAY)
        sim.check_invariants()
        sim.check_forgotten()


@pytest.mark.parametrize("seed", range(6))
def test_under_faults_the_balance_is_the_sum(seed: int) -> None:
    faults = Faults(
        seed=seed,
        duplicate=0.1,
        reorder=0.1,
        crash=0.02,
        abort=0.05,
        revoke=0.03,
        slow=0.1,
        move=0.02,
        stall=0.02,
        hang=0.05,
        survive=0.5,
    )
    with Simulation(accounts(), partitions=2, faults=faults, workers=2) as sim:
        dialogs = []
        for number in range(40):
            dialogs.append(transfer(sim, ("bank", "till")[number % 2], f"account-{number % 3}", number))
            if number % 5 == 0:
                sim.run()
        sim.run()
        for dialog in dialogs[::2]:
            dialog.end()
        sim.advance(timedelta(hours=3))  # the tombstones are deleted, while the other dialogs stay open
        dialogs += [transfer(sim, "bank", f"account-{number}", 0) for number in range(3)]
        for number, dialog in enumerate(dialogs[1:40:2]):
            dialog.send(Transfer(amount=-(2 * number + 1)))
        sim.run()
        for dialog in dialogs:
            if not dialog.ended:
                dialog.end()
        sim.advance(timedelta(hours=3))
        states = [sim.state("accounts", f"account-{number}") for number in range(3)]
        assert [None if it is None else it.value.balance for it in states] == [
            sum(number for number in range(first, 40, 3) if number % 2 == 0) for first in range(3)
        ]
        sim.check_invariants()


def test_reading_the_state_of_a_group_that_has_none_makes_no_row_that_stays() -> None:
    service = Service("accounts", state=Account, accepts=[TRANSFERS], ignores=[Close])

    @service.on(Transfer)
    def look(_: Transfer, dialog: Dialog[Account]) -> None:
        dialog.send(Done(balance=dialog.group.state.balance))
        dialog.end()

    with Simulation(service, partitions=1) as sim:
        for number in range(5):
            transfer(sim, "bank", f"guessed-{number}", 0)
        sim.run()
        assert group_rows(sim) == {}
        sim.check_invariants()


def test_a_group_has_one_lane_after_the_tombstone_of_one_of_its_dialogs_is_deleted() -> None:
    """Open dialogs of the group are in memory meanwhile. With two lanes, each would write over the state of the other."""
    with Simulation(accounts(), partitions=1) as sim:
        over = transfer(sim, "bank", "a", 1)
        sim.run()
        over.end()
        sim.run()
        stays = transfer(sim, "bank", "a", 1)
        sim.advance(timedelta(hours=1))
        sim.advance(timedelta(hours=1))
        transfer(sim, "till", "a", 10)
        sim.run()
        stays.send(Transfer(amount=100))
        sim.run()
        found = sim.state("accounts", "a")
        assert found is not None
        assert found.value.balance == 112
        sim.check_invariants()


def test_a_target_of_an_older_release_refuses_a_dialog_that_names_a_group() -> None:
    """It would open a private group, and the account would have several balances."""
    with Simulation(accounts(contract()), raise_failures=False) as sim:
        transfer(sim, "bank", "a", 5)
        sim.run()
        assert [it.code for it in records.queued(sim, "bank") if it.kind is Kind.ERROR] == [-8494]


def test_only_a_contract_that_permits_it_lets_a_service_name_the_group() -> None:
    private = contract()
    with Simulation(accounts(private)) as sim:
        with pytest.raises(LocalError, match=r"lets no service name.*group_named_by=\['bank'\]") as refused:
            sim.peer("bank").begin_dialog("accounts", private, to_group="a")
        assert refused.value.code == 8494
    with Simulation(accounts()) as sim:
        with pytest.raises(LocalError, match="does not let service 'stranger'"):
            sim.peer("stranger").begin_dialog("accounts", TRANSFERS, to_group="a")
        with pytest.raises(LocalError, match=r"begin_dialog\(..., to_group=...\)"):
            sim.peer("bank").begin_dialog("accounts", TRANSFERS)
        with pytest.raises(LocalError, match="the key of a group"):
            sim.peer("bank").begin_dialog("accounts", TRANSFERS, to_group="")


def test_the_target_refuses_a_service_that_permits_itself() -> None:
    with Simulation(accounts(), raise_failures=False) as sim:
        mine = transfer(sim, "bank", "a", 5)
        sim.run()
        transfer(sim, "stranger", "a", 1_000, contract("stranger"))
        sim.run()
        assert [it.code for it in records.queued(sim, "stranger") if it.kind is Kind.ERROR] == [-8494]
        found = sim.state("accounts", "a")
        assert found is not None
        assert found.value.balance == 5
        mine.end()
        sim.advance(3 * DAY)
        sim.check_invariants()


def test_any_service_may_be_permitted_and_a_dialog_that_the_group_begins_shares_it() -> None:
    asking = Contract("Asking", sent_by_initiator=[Done], sent_by_target=[Transfer])
    declared = contract(ANY_SERVICE)
    service = Service("accounts", state=Account, accepts=[declared], initiates=[asking], ignores=[Close])

    @service.on(Transfer)
    def transfer_(body: Transfer, dialog: Dialog[Account]) -> None:
        dialog.group.state.balance += body.amount
        if not dialog.is_initiator:
            dialog.group.begin_dialog("auditor", asking).send(Done(balance=dialog.group.state.balance))

    with Simulation(service) as sim:
        auditor = sim.peer("auditor", accepts=[asking])
        transfer(sim, "anybody", "a", 1, declared)
        sim.run()
        auditor.dialog().send(Transfer(amount=10))
        sim.run()
        found = sim.state("accounts", "a")
        assert found is not None
        assert found.value.balance == 11
        sim.check_invariants()


def test_a_handler_names_the_group_at_the_target() -> None:
    bank = Service(
        "bank", accepts=[Contract("Orders", sent_by_initiator=[Transfer])], initiates=[TRANSFERS], ignores=[Done]
    )

    @bank.on(Transfer)
    def order(body: Transfer, dialog: Dialog) -> None:
        for related in (True, False):
            dialog.group.begin_dialog("accounts", TRANSFERS, to_group="a", related=related).send(body)

    with Simulation(bank, accounts()) as sim:
        sim.peer("web").begin_dialog("bank", bank.accepts["Orders"]).send(Transfer(amount=3))
        sim.run()
        found = sim.state("accounts", "a")
        assert found is not None
        assert found.value == Account(balance=6, transfers=2)
        sim.check_invariants()


def test_groups_that_nobody_names_are_read_by_who_began_them() -> None:
    private = contract()
    with Simulation(accounts(private)) as sim:
        dialog = sim.peer("bank").begin_dialog("accounts", private)
        dialog.send(Transfer(amount=4))
        sim.run()
        assert sim.state("accounts", dialog.id) is None
        found = sim.state("accounts", dialog.id, begun_by="bank")
        assert found is not None
        assert found.value.balance == 4


def test_a_client_in_this_process_begins_and_reads() -> None:
    declared, settings = contract(ANY_SERVICE), WorkerSettings()
    service = accounts(declared)
    with local(service, settings=settings) as client:
        for amount in (1, 2):
            done = client.request(
                "accounts", declared, Transfer(amount=amount), reply=Done, timeout=DAY / 1_000, to_group="a"
            )
            done.result()
        found = client.state(service, "a")
        assert found is not None
        assert found.value == Account(balance=3, transfers=2)
        with pytest.raises(LocalError, match="takes the Service object"):
            client.state("accounts", "a")  # type: ignore[arg-type]  # the mistake
