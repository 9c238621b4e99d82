"""Checks of this machine, of the settings that were given, and of the local copies."""

from __future__ import annotations

from collections.abc import Iterator

from conversations.config_checks import addresses_of
from conversations.durations import SECOND
from conversations.kafka.clients import NEVER
from conversations_ops.doctor.facts import Facts, LocalPath
from conversations_ops.doctor.findings import Check, Hit, Severity
from conversations_ops.doctor.topics import place

LEAST = {"python": (3, 11), "librdkafka": (2, 12), "rocksdict": (0, 3, 24)}
"""The oldest versions that the package allows."""
JAVA = 17
ROOM = 1_000_000_000
"""Free bytes below which a disk is nearly full."""
FILES = 1_024
OTHERS = 0o077
_ORDINARY = {
    "acks": {"all", "-1"},
    "auto.offset.reset": {"error"},
    "enable.auto.commit": {"false"},
    "enable.auto.offset.store": {"false"},
    "enable.idempotence": {"true"},
    "isolation.level": {"read_committed"},
}
"""Settings of librdkafka that the product sets itself, with the values that it uses."""
_LOCAL = ("localhost", "127.", "::1", "[::1]")


def _old(facts: Facts) -> Iterator[Hit]:
    for name, least in LEAST.items():
        found = facts.machine.versions.get(name)
        if found is not None and found < least:
            yield Hit(name, _version(found), f"{_version(least)} or newer")


def _java(facts: Facts) -> Iterator[Hit]:
    found = facts.machine.versions.get("java")
    if found is None or found < (JAVA,):
        yield Hit("java", "none" if found is None else _version(found), f"{JAVA} or newer")


def _version(found: tuple[int, ...]) -> str:
    return ".".join(map(str, found))


def _full(facts: Facts) -> Iterator[Hit]:
    for disk in facts.machine.disks:
        if disk.free < ROOM:
            yield Hit(str(disk.path), f"{disk.free // 1_000_000} MB are free", f"{ROOM // 1_000_000} MB")


def _few_files(facts: Facts) -> Iterator[Hit]:
    if facts.machine.open_files < FILES:
        yield Hit("this process", f"it may have {facts.machine.open_files} files open", f"{FILES}")


# -- local copies ------------------------------------------------------------------------------------------------------


def _open_stores(facts: Facts) -> Iterator[Hit]:
    return _open_to_others((*facts.machine.stores, *_read_models(facts)))


def _read_models(facts: Facts) -> Iterator[LocalPath]:
    if facts.machine.read_model is not None:
        yield facts.machine.read_model


def _open_to_others(paths: tuple[LocalPath, ...]) -> Iterator[Hit]:
    for it in paths:
        if it.mode & OTHERS and not it.mode & 0o1000:
            yield Hit(str(it.path), f"its mode is {it.mode & 0o777:o}", "no rights for other users")


def _unusable_stores(facts: Facts) -> Iterator[Hit]:
    for it in facts.machine.stores:
        if not it.is_writable:
            yield Hit(
                str(it.path), "it is read-only for this user", "a directory that the user of the worker may write to"
            )


def _damaged_copies(facts: Facts) -> Iterator[Hit]:
    for copy in facts.machine.copies:
        if copy.damage:
            yield Hit(str(copy.path), copy.damage, "a copy whose rows can be read")


def _old_copies(facts: Facts) -> Iterator[Hit]:
    oldest = facts.periods.deletes_kept // 2
    for copy in facts.machine.copies:
        if copy.saved_at is not None and (age := facts.machine.now - copy.saved_at * SECOND) > oldest:
            yield Hit(str(copy.path), f"it was written {age // SECOND} s ago", f"at most {oldest // SECOND} s ago")


def _damaged_read_model(facts: Facts) -> Iterator[Hit]:
    if facts.machine.read_model_damage:
        assert facts.machine.read_model is not None
        yield Hit(str(facts.machine.read_model.path), facts.machine.read_model_damage, "a file that SQLite can read")


# -- settings ----------------------------------------------------------------------------------------------------------


def _open_settings(facts: Facts) -> Iterator[Hit]:
    file = facts.machine.settings_file
    if file is not None and file.has_secrets:
        yield from _open_to_others((file,))


def _refused(facts: Facts) -> Iterator[Hit]:
    if facts.machine.refused:
        yield Hit("settings", facts.machine.refused, "settings that Kafka's client accepts")


def _without_effect(facts: Facts) -> Iterator[Hit]:
    for name, value in sorted(facts.machine.settings.items()):
        if name in NEVER or (name in _ORDINARY and value.lower() not in _ORDINARY[name]):
            needed = f"{name}={min(_ORDINARY[name])}" if name in _ORDINARY else f"no {name}"
            yield Hit(name, f"{name}={value}", f"{needed}, which the product uses whatever is set")


def _not_verified(facts: Facts) -> Iterator[Hit]:
    settings = {name: value.lower() for name, value in facts.machine.settings.items()}
    if not settings.get("security.protocol", "").endswith("ssl"):
        return
    if settings.get("enable.ssl.certificate.verification") == "false":
        yield Hit("enable.ssl.certificate.verification", "false", "true")
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        yield Hit("ssl.endpoint.identification.algorithm", "none", "https")


def _plaintext(facts: Facts) -> Iterator[Hit]:
    protocol = facts.machine.settings.get("security.protocol", "plaintext").lower()
    for address in addresses_of(facts.bootstrap):
        if not protocol.endswith("ssl") and not address.lower().startswith(_LOCAL):
            yield Hit(address, f"security.protocol={protocol}", "SSL or SASL_SSL to another machine")


# -- the clock ---------------------------------------------------------------------------------------------------------


def _clock_behind(facts: Facts) -> Iterator[Hit]:
    if facts.namespace.ahead:
        where, at = max(facts.namespace.ahead.items(), key=lambda it: it[1])
        found = f"a record of {place(where)} is dated {(at - facts.machine.now) / SECOND:.0f} s ahead of this machine's clock"
        yield Hit("the clock of this machine", found, f"at most {facts.machine.clock_off.total_seconds():g} s")


def _clocks_of_workers(facts: Facts) -> Iterator[Hit]:
    for service, seconds in sorted(facts.namespace.clocks_off.items()):
        side = "ahead of" if seconds > 0 else "behind"
        found = f"a worker has reported that the clock of its machine is {abs(seconds):.0f} s {side} log time"
        yield Hit(service, found, f"at most {facts.machine.clock_off.total_seconds():g} s")


SYNC = "timedatectl set-ntp true"
CHMOD = "chmod go-rwx {place}"
CHECKS = (
    Check("version-too-old", Severity.FATAL, "The product needs functions of newer versions.", "pip install --upgrade kafka-dialogs", _old),
    Check("settings-refused", Severity.FATAL, "Kafka's client does not start with these settings, so no worker does.",
          "change the setting that the message names, in the settings file or the option", _refused),
    Check("store-unusable", Severity.FATAL, "A worker cannot keep its local copies there, and does not start.",
          'chown -R "$USER" {place}, or give the worker another --state-dir', _unusable_stores),
    Check("store-damaged", Severity.WARNING, "Its worker throws it away and restores it from the state topic, which takes time. Is the disk failing?",
          "stop its worker, and: rm -r {place}", _damaged_copies),
    Check("store-open", Severity.WARNING, "Local copies have bodies of messages, and other users may read them.", CHMOD, _open_stores),
    Check("read-model-damaged", Severity.WARNING, "Commands that read it fail, or show what is not there. Its next reader makes it anew.",
          "rm {place}", _damaged_read_model),
    Check("disk-full", Severity.WARNING, "A worker stops when it cannot write its local copies.",
          "free some space, or give the worker another --state-dir", _full),
    Check("settings-file-open", Severity.WARNING, "Other users may read the password in it.", CHMOD, _open_settings),
    Check("certificates-not-verified", Severity.WARNING, "Anybody on the way may read and change everything.",
          "remove {place} from the settings, and give ssl.ca.location", _not_verified),
    Check("clock-behind", Severity.WARNING, "Workers go by log time, but clients date their messages with this clock. A message may be refused as too old.",
          SYNC, _clock_behind),
    Check("worker-clock-off", Severity.WARNING, "Workers go by log time, but clients on the same machine do not.", SYNC + ", on the machine of the worker",
          _clocks_of_workers),
    Check("open-files", Severity.WARNING, "Each local copy may have 256 files open.", "ulimit -n 65536", _few_files),
    Check("setting-without-effect", Severity.NOTE, "Exactly-once depends on it, so the product sets it itself.", "remove {place} from the settings", _without_effect),
    Check("store-old", Severity.NOTE, "Kafka may have dropped the marks of deleted rows. Its worker restores it from the state topic.",
          "nothing needs to be done", _old_copies),
    Check("plaintext", Severity.NOTE, "Everybody on the way can read and change messages and passwords.",
          "set security.protocol=SASL_SSL in the settings, if the brokers have such a listener", _plaintext),
    Check("java-missing", Severity.NOTE, "Only the embedded broker and the Spark jobs need Java.", "apt install openjdk-17-jre-headless", _java),
)  # fmt: skip
"""The checks of this machine."""
