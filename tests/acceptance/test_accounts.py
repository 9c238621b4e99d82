"""Two services, one account: whoever begins the transfers and whatever is killed, the balance that a client reads is their sum."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conversations import Client, Kafka, Service
from conversations.kafka.admin import apply
from tests.acceptance.services.accounts import TRANSFERS, Account, Transfer, accounts, bank, till
from tests.acceptance.support.command_line import Running
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]

TRANSFERS_EACH = int(os.environ.get("TRANSFERS", "150"))
"""Transfers of each of the two services."""
KILLS = 4


def begin(service: Service[dict[str, object]], kafka: Kafka, amount: int) -> None:
    with Client(service, kafka) as client:
        for _ in range(TRANSFERS_EACH):
            with client.begin_dialog("accounts", TRANSFERS, to_group="account-42") as dialog:
                dialog.send(Transfer(amount=amount))


def balance(client: Client) -> Account:
    found = client.state(accounts, "account-42")
    return Account() if found is None else Account.model_validate(found.value)


@pytest.mark.slow
def test_two_services_transfer_to_one_account_while_its_workers_are_killed(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [it.declaration() for it in (accounts, bank, till)], 2, 1)
    targets = [f"accounts:{name}" for name in ("accounts", "bank", "till")]
    with (
        Running(kafka, tmp_path, *targets, "--workers", "2").ready() as run,
        Client(bank, kafka) as reader,
        ThreadPoolExecutor(2) as pool,
    ):
        begun = [pool.submit(begin, bank, kafka, 5), pool.submit(begin, till, kafka, -2)]
        for kill in range(KILLS):
            part = 2 * TRANSFERS_EACH * (kill + 1) // (KILLS + 1)
            until(lambda part=part: balance(reader).transfers >= part, f"{part} transfers", 600)  # type: ignore[misc]
            run.ready()
            (service,) = (it for it in run.health()[1]["services"] if it["service"] == "accounts")
            pids = [it["pid"] for it in service["workers"] if it.get("pid")]
            os.kill(pids[kill % len(pids)], signal.SIGKILL)
        for each in begun:
            each.result()
        until(lambda: balance(reader).transfers >= 2 * TRANSFERS_EACH, "all transfers", 600)
        assert balance(reader) == Account(balance=3 * TRANSFERS_EACH, transfers=2 * TRANSFERS_EACH)
        assert reader.state(accounts, "account-43") is None
