"""The changes from one release of a service to the next, by their entries in the catalog, and their effect on messages in flight.

A message that does not fit is held (``worker.inbound``), so nothing is lost. The texts say what will be held, and how to prevent it. Two
changes are refused:

* Another program that has the name of a service by mistake would share the messages and the state of the service.
* State without one of its fields would begin again with the default of a new field, for example after the field got another name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conversations.errors import DeclarationError
from conversations.protocol.declarations import ServiceDeclaration

Entry = Mapping[str, Any]
"""An entry of the catalog; see ``declarations.ServiceDeclaration.entry``."""
HELD = "are held until a release fits them"
WAIT = "wait for a worker of the newer release"
_WORDS = frozenset({"default", "title", "description", "examples", "deprecated"})
"""Keys of a field's schema that no value is checked against."""


class AnotherProgram(DeclarationError):
    """In the catalog, a service of this name belongs to another program: none of its contracts is a contract of this one."""

    def __init__(self, service: str, contracts: Sequence[str]) -> None:
        super().__init__(
            f"service {service!r}: in the catalog it has other contracts ({', '.join(contracts)}), and none of this program. Two programs of one name "
            "would share messages and state: give this service another name. If it takes the place of the other program, apply it with --replace"
        )
        self.service = service


def is_another_program(before: Entry, after: Entry) -> bool:
    """Return True if a service had contracts, has contracts now, and none of them has the same name. Its code is another program then."""
    had, has = _contracts(before), _contracts(after)
    return bool(had) and bool(has) and not had & has


def check_program(before: Entry, declaration: ServiceDeclaration) -> None:
    """Check that a program is the one to which a service in the catalog belongs.

    Raises:
        AnotherProgram: it is another one.
    """
    if is_another_program(before, declaration.entry(0)):
        raise AnotherProgram(declaration.name, sorted(_contracts(before)))


def check_release(before: Entry, declaration: ServiceDeclaration) -> None:
    """Check that a release may take the place of the release in the catalog.

    Raises:
        AnotherProgram: it is another program.
        DeclarationError: its state lacks a field that the state had. The message says what to do.
    """
    check_program(before, declaration)
    gone = _lost_fields(before, declaration.entry(0))
    if gone:
        version = declaration.state_version
        raise DeclarationError(
            f"service {declaration.name!r}: its state has no {_fields_named(gone)} any more, so handlers would not see the stored values. "
            f"Make the service with state_version={version + 1}, and turn old state into new in a function "
            f"@service.upgrade_state({version}). If no handler needs these values, apply the release with --replace: they stay stored"
        )


def _fields_named(names: list[str]) -> str:
    return f"field {names[0]}" if len(names) == 1 else f"fields {', '.join(names)}"


def _lost_fields(before: Entry, after: Entry) -> list[str]:
    """Return the fields that the state had before, and has not in this release, though its version is the same."""
    if before.get("state_version", 1) != after.get("state_version", 1):
        return []
    had, has = _fields(before.get("state")), _fields(after.get("state"))
    return [] if has is None else sorted(set(had or {}) - set(has))


def _fields(schema: Any) -> Mapping[str, Any] | None:
    fields = schema.get("properties") if isinstance(schema, dict) else None
    return fields if isinstance(fields, dict) else None


def changes(before: Entry, after: Entry) -> list[str]:
    """Return a line for each change that has an effect on open dialogs, messages in flight, or peers with another release."""
    return [
        *_of_contracts(before, after),
        *_of_peers(before, after),
        *_of_types(before, after),
        *_of_bodies(before, after),
        *_of_state(before, after),
    ]


def _contracts(entry: Entry) -> set[str]:
    return {name for side in ("accepts", "initiates") for name in entry.get(side, {})}


def _of_contracts(before: Entry, after: Entry) -> Iterator[str]:
    for side, verb in (("accepts", "accepted"), ("initiates", "initiated")):
        for name in sorted(set(before.get(side, {})) - set(after.get(side, {}))):
            yield (
                f"contract {name} is not {verb} any more: while it has open dialogs, the workers of this release refuse to start. "
                f"Declare it until they are over"
            )


def _of_peers(before: Entry, after: Entry) -> Iterator[str]:
    had, has = set(before.get("accepts_from", ())), set(after.get("accepts_from", ()))
    if has and not had:
        yield f"accepts_from is new: new dialogs from services other than {', '.join(sorted(has))} are refused (-8494)"
    for gone in sorted(had - has) if has else ():
        yield f"{gone} is not in accepts_from any more, so its new dialogs are refused (-8494)"


def _of_types(before: Entry, after: Entry) -> Iterator[str]:
    for contract, receives in (("accepts", "initiator"), ("initiates", "target")):
        for name in sorted(set(before.get(contract, {})) & set(after.get(contract, {}))):
            had, has = before[contract][name], after[contract][name]
            for gone in sorted(_types(had, receives) - _types(has, receives)):
                yield f"contract {name}: messages of type {gone} that are in flight, or come from older releases of a peer, {HELD}"
            yield from _of_groups(name, had, has, takes=receives == "initiator")
            sends = "target" if receives == "initiator" else "initiator"
            for new in sorted(_types(has, sends) - _types(had, sends)):
                yield f"contract {name}: peers hold messages of the new type {new} until their release knows it. Release the peers first"


def _of_groups(contract: str, had: Mapping[str, Any], has: Mapping[str, Any], *, takes: bool) -> Iterator[str]:
    before, after = set(had.get("group_named_by", ())), set(has.get("group_named_by", ()))
    if not takes or before == after:
        return
    if not before or not after:
        yield (
            f"contract {contract}: releases that differ in group_named_by refuse the dialogs of each other, or put them into different groups. "
            "Give the contract a new name"
        )
    for gone in sorted(before - after) if after else ():
        yield f"contract {contract}: {gone} may name no group any more, so its new dialogs are refused (-8494)"


def _types(sides: Mapping[str, Any], sender: str) -> set[str]:
    return {*sides.get(sender, ()), *sides.get("any", ())}


def _of_bodies(before: Entry, after: Entry) -> Iterator[str]:
    had, has = before.get("bodies", {}), after.get("bodies", {})
    for name in sorted(set(had) & set(has)):
        old, new = had[name], has[name]
        if new["version"] < old["version"]:
            yield (
                f"message type {name} goes back from version {old['version']} to {new['version']}: newer bodies are read as they are, "
                f"and bodies that do not fit {HELD}"
            )
        elif new["version"] == old["version"]:
            yield from _of_fields(name, old["version"], old.get("schema"), new.get("schema"))


def _of_fields(name: str, version: int, old: Any, new: Any) -> Iterator[str]:
    """Compare two schemas of one version of a message type."""
    if old == new or not isinstance(old, dict) or not isinstance(new, dict):
        return
    mend = f"To upgrade them, raise its version to {version + 1} and register @service.upgrade({name}, {version})"
    fields, before = new.get("properties"), old.get("properties")
    if not isinstance(fields, dict) or not isinstance(before, dict):
        yield f"message type {name} has another schema: bodies of the old schema that do not fit {HELD}. {mend}"
        return
    for field in sorted(_required(new) - _required(old)):
        yield f"message type {name} needs field {field}: bodies without it {HELD}. Give it a default. {mend}"
    for field in sorted(set(fields) & set(before)):
        if _shape(fields[field]) != _shape(before[field]):
            yield f"field {field} of message type {name} has another type: bodies that do not fit {HELD}. {mend}"
    for field in sorted(_required(old) - set(fields)):
        yield f"message type {name} has no field {field} any more: peers whose release needs the field hold what this release sends"
    if old.get("$defs") != new.get("$defs"):
        yield f"a nested class of message type {name} has changed: bodies that do not fit {HELD}. {mend}"


def _shape(schema: Any) -> Any:
    """Return the part of a field's schema that decides which values fit."""
    return {key: value for key, value in schema.items() if key not in _WORDS} if isinstance(schema, dict) else schema


def _required(schema: Mapping[str, Any]) -> set[str]:
    names = schema.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _of_state(before: Entry, after: Entry) -> Iterator[str]:
    had, has = before.get("state_version", 1), after.get("state_version", 1)
    if has < had:
        yield f"the state goes back from version {had} to {has}: messages of groups whose state has version {had} {WAIT}"
    elif has > had:
        yield (
            f"the state goes from version {had} to {has}: at workers of the older release, messages of groups whose state this release has "
            f"changed {WAIT}"
        )
    else:
        yield from _of_state_fields(has, before.get("state"), after.get("state"))


def _of_state_fields(version: int, old: Any, new: Any) -> Iterator[str]:
    """Compare two schemas of one version of the state."""
    before, fields = _fields(old), _fields(new)
    if before is None or fields is None or old == new:
        return
    mend = f"To upgrade it, make the service with state_version={version + 1} and register @service.upgrade_state({version})"
    for field in sorted(set(fields) - set(before)):
        yield f"the state has the new field {field}: stored state gets the default of the field"
    for field in sorted(set(fields) & set(before)):
        if _shape(fields[field]) != _shape(before[field]):
            yield f"field {field} of the state has another type: messages of groups whose stored state does not load {HELD}. {mend}"
    if old.get("$defs") != new.get("$defs"):
        yield (
            f"a nested class of the state has changed: messages of groups whose stored state does not load {HELD}, and a release does not keep "
            f"the fields of nested classes that it does not know. {mend}"
        )
