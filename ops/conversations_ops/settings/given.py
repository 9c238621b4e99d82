"""The settings that were given, each with the place where it was given, and the resulting settings of workers and of librdkafka.

Each of these sources overrides the sources before it: the defaults, the ``WorkerSettings`` of a target, the file, ``--setting``, and
an option such as ``--concurrency``.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from conversations.config import Brake, Periods, WorkerSettings
from conversations.errors import DeclarationError
from conversations_ops.settings.file import VARIABLE, Line, lines_of
from conversations_ops.settings.names import GROUPS, SETTINGS, nearest
from conversations_ops.settings.values import read, written

DIVIDED_BY = "CONVERSATIONS_PERIODS_DIVIDED_BY"
"""Environment variable for tests: all periods are divided by this number. It must be the same for all processes of a namespace."""
OPTION = "--setting"
BRAKE = "worker.brake"
CLIENTS = (
    "client.id", "client.rack", "debug", "enable.ssl.certificate.verification", "sasl.mechanism", "sasl.mechanisms",
    "sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "sasl.oauthbearer.method", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol", "session.timeout.ms",
    "socket.timeout.ms", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
    "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password", "ssl.key.pem",
)  # fmt: skip
"""The most used settings of librdkafka. For an unknown name, the error message suggests the nearest of these names."""


class Given(NamedTuple):
    """Settings of the product and of librdkafka. If a name occurs twice, the later value counts."""

    product: tuple[Line, ...] = ()
    """Settings of the product. Each value was checked alone. The combination of the values was not checked."""
    clients: tuple[Line, ...] = ()
    """Settings of librdkafka, including passwords."""

    def of_clients(self) -> dict[str, str]:
        """Return the settings of librdkafka by name."""
        return {name: value for _, name, value in self.clients}

    def value_of(self, name: str) -> str:
        """Return the given value of one setting of the product, as text; empty if it was not given."""
        return next((value for _, found, value in reversed(self.product) if found == name), "")

    def without_options(self) -> Given:
        """Check that no setting of the product was given by ``--setting``, and return these settings unchanged.

        Some commands and jobs read settings of the product only from the file. They use this check.

        Raises:
            DeclarationError: a setting of the product was given by ``--setting``.
        """
        for line in self.product:
            if line.place == OPTION:
                raise DeclarationError(
                    f"{OPTION} {line.name}: give it in a file that {VARIABLE} names, because this command reads it only there"
                )
        return self

    def check_clients(self) -> None:
        """Check that librdkafka accepts its settings. No connection is made.

        Raises:
            DeclarationError: librdkafka refuses a setting, or the combination of settings.
        """
        if not self.clients:
            return
        from conversations.kafka.client_settings import refusal

        why = refusal(self.of_clients())
        if why is None:
            return
        place = next((f"{place}: {name}" for place, name, _ in reversed(self.clients) if f'"{name}"' in why), None)
        name = "" if place is None else place.rpartition(": ")[2]
        near = difflib.get_close_matches(name, [*CLIENTS, *SETTINGS], 1) if "No such configuration" in why else []
        hint = f"; the nearest name is {near[0]}" if near else ""
        places = place or ", ".join(dict.fromkeys(it.place for it in self.clients))
        raise DeclarationError(f"{places}: Kafka's client refuses this: {why}{hint}")

    def worker_settings(self, base: WorkerSettings | None = None) -> WorkerSettings:
        """Return the settings of a worker: ``base`` or the defaults, with the given settings applied.

        Raises:
            DeclarationError: settings contradict each other. The message has the places where they were given.
        """
        found = base or WorkerSettings()
        groups: dict[str, dict[str, Any]] = {name: {} for name in GROUPS}
        for line in self.product:
            setting = SETTINGS[line.name]
            groups[setting.group][setting.field] = read(setting, line.value)
        with_brake = groups["worker"].pop("brake", None)
        if with_brake is False and groups["brake"]:
            raise DeclarationError(
                f"{self._places('worker', 'brake')}: {BRAKE} is off, so the settings of the brake have no effect: remove them"
            )
        brake = found.brake or (Brake() if with_brake or groups["brake"] else None)
        made: WorkerSettings = self._made(
            "worker", found, **groups["worker"],
            limits=self._made("limits", found.limits, **groups["limits"]),
            periods=self._made("periods", found.periods, **groups["periods"]),
            brake=None if brake is None or with_brake is False else self._made("brake", brake, **groups["brake"]),
        )  # fmt: skip
        return made

    def _made(self, group: str, found: Any, **changed: Any) -> Any:
        try:
            return replace(found, **changed)
        except (ValueError, DeclarationError) as error:
            raise DeclarationError(f"{self._places(group)}: {error}") from None

    def _places(self, *groups: str) -> str:
        """Return the places where settings of some groups were given, as text."""
        return ", ".join(f"{place}: {name}" for place, name, _ in self.product if SETTINGS[name].group in groups)


def given(options: Iterable[str] = ()) -> Given:
    """Read the settings in the file of the variable ``CONVERSATIONS_SETTINGS``, and the settings in ``--setting`` options.

    Args:
        options: texts of the form ``NAME=VALUE``. They override the file.

    Raises:
        DeclarationError: the file cannot be read, a setting does not exist, or a value is not valid.
    """
    path = os.environ.get(VARIABLE, "")
    lines = lines_of(path) if path else []
    for option in options:
        name, equals, value = option.partition("=")
        if not name.strip() or not equals:
            raise DeclarationError(f"{OPTION} {name!r} is not NAME=VALUE, for instance security.protocol=SSL")
        lines.append(Line(OPTION, name.strip(), value.strip()))
    return _divided(lines)


def settings_by_cluster(options: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings of librdkafka for each cluster of options ``NAME[=FILE]``, by its name.

    Raises:
        DeclarationError: see ``clients_in``.
    """
    pairs = (it.partition("=") for it in options)
    return {name: clients_in(file) if file else {} for name, _, file in pairs}


def clients_in(path: str) -> dict[str, str]:
    """Read a file that has only settings of librdkafka, for example the login of another cluster.

    Raises:
        DeclarationError: the file cannot be read, has a setting of the product, or librdkafka refuses a setting.
    """
    found = _divided(lines_of(path))
    for line in found.product:
        raise DeclarationError(
            f"{line.place}: {line.name} is a setting of this side: this file is about the other cluster"
        )
    found.check_clients()
    return found.of_clients()


def _divided(lines: Sequence[Line]) -> Given:
    product = tuple(line for line in lines if _is_ours(line))
    return Given(product, tuple(line for line in lines if line.name not in SETTINGS))


def _is_ours(line: Line) -> bool:
    """Return True for a setting of the product, after a check of its value. Return False for a setting of librdkafka.

    Raises:
        DeclarationError: the value is not valid, or the name is misspelt.
    """
    place, name, value = line
    if name in SETTINGS:
        try:
            read(SETTINGS[name], value)
        except ValueError as error:
            raise DeclarationError(f"{place}: {name}={value:.40}: {error}") from None
        return True
    if (near := nearest(name)) is not None:
        raise DeclarationError(f"{place}: there is no setting {name}; the nearest name is {near}")
    if name.endswith((".ms", ".bytes")) and not value.removeprefix("-").isdecimal():
        unit = "milliseconds" if name.endswith(".ms") else "bytes"
        raise DeclarationError(
            f"{place}: {name} is a setting of Kafka's client: give a whole number of {unit} without a unit"
        )
    return False


def shortened(settings: WorkerSettings) -> WorkerSettings:
    """Divide all periods by the number in the variable ``CONVERSATIONS_PERIODS_DIVIDED_BY``. Only tests set this variable.

    Raises:
        DeclarationError: the periods cannot be divided by this value.
    """
    said = os.environ.get(DIVIDED_BY, "")
    if not said:
        return settings
    try:
        return settings.scaled(float(said))
    except (ValueError, OverflowError) as error:
        raise DeclarationError(f"{DIVIDED_BY}={said:.40}: {error}") from None


def periods() -> Periods:
    """Return the periods of the namespace from the settings file. Operators' tools and jobs call this, because they are not workers.

    Raises:
        DeclarationError: a setting is not valid, as described at ``given``, ``worker_settings`` and ``shortened``.
    """
    return shortened(given().worker_settings()).periods


def differences(settings: WorkerSettings) -> dict[str, tuple[str, str]]:
    """Return the settings that differ from the defaults: the value and the default as text, by name."""
    groups = {"worker": settings, "brake": settings.brake, "limits": settings.limits, "periods": settings.periods}
    found = {}
    for name, setting in SETTINGS.items():
        group = groups[setting.group]
        value = setting.default if group is None else getattr(group, setting.field)
        pair = written(setting, value), written(setting, setting.default)
        if pair[0] != pair[1]:
            found[name] = pair
    return found
