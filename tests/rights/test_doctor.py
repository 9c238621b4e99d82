"""The rights that `conversations doctor` misses, on a Kafka that checks rights."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conversations_ops.cli.app import app
from tests.rights.support.authorizing_kafka import until
from tests.rights.support.restricted_service import RestrictedService

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_rights_that_a_role_lacks_are_named(restricted: RestrictedService, tmp_path: Path) -> None:
    settings = tmp_path / "clerk.settings"
    login = restricted.broker.login("clerk")
    settings.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
    settings.chmod(0o600)

    def doctor(*arguments: str) -> dict[str, set[tuple[str, str]]]:
        where = (
            "--bootstrap",
            restricted.broker.guarded,
            "--namespace",
            restricted.kafka.namespace,
            "--settings",
            str(settings),
        )
        done = CliRunner().invoke(
            app, ["doctor", *arguments, *where, "--json"], env={"CONVERSATIONS_CACHE": str(tmp_path)}
        )
        assert done.stdout, done.exception
        found: dict[str, set[tuple[str, str]]] = {}
        for it in json.loads(done.stdout)["findings"]:
            found.setdefault(it["name"], set()).add((it["place"], it["needed"].partition(",")[0]))
        return found

    state = restricted.topic("state")
    of_worker = {it for it in doctor("--role", "worker").get("right-missing", set()) if ".clerk." in it[0]}
    assert of_worker == set()
    restricted.lose(("WRITE", "TOPIC", state))
    until(lambda: (state, "WRITE") in doctor("--role", "worker").get("right-missing", set()), "the right is named")
    assert (state, "WRITE") in doctor()["right-of-another-role"]
    unseen = doctor()["not-looked-at"]
    assert len(unseen) >= 1
