"""A cause for which a dialog or a service stalls, the table of all causes in their order, and the command that comes next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from conversations_ops.printable import counted

REASON = "--reason WHY"
Clock = Callable[[int], str]
"""Writes a time, with its distance from now."""


class Cause(NamedTuple):
    """One thing that keeps a dialog from going on."""

    name: str
    """The same word in every output, for programs: ``queue-off``, ``held``, ``no-owner``, ..."""
    service: str
    says: str
    since: int | None = None
    """Since when, microseconds since 1970; None if that is not known."""
    needs_person: bool = False
    """True if it does not pass by itself."""
    next: str = ""
    """A command that mends it or, if none can, shows more."""
    cluster: str = ""
    """The other cluster on which the service lives; empty for the cluster that is asked."""


class Mends(StrEnum):
    """What ends a cause."""

    COMMAND = "the command"
    ITSELF = "time: it passes by itself"
    PERSON = "a person"


class Meaning(NamedTuple):
    """What a cause is, and what ends it."""

    means: str
    next: str
    """The command, with capital letters for names."""
    mends: Mends


_RETRY = f"conversations dead-letters retry LETTER {REASON}"
_SHOW = "conversations dialogs show ID"
TABLE: Mapping[str, Meaning] = {
    "queue-off": Meaning(
        "the queue of a partition is off: an operator, a policy or failing steps turned it off. Messages arrive and wait",
        f"conversations queue on SERVICE {REASON}", Mends.COMMAND,
    ),
    "no-owner": Meaning(
        "no worker has the partition, at this side or at the peer. Start the service. For a service, the command is the one that shows "
        "what waits there", "conversations why SERVICE", Mends.PERSON
    ),
    "no-forwarder": Meaning(
        "the peer lives on another cluster, and no forwarder carries the messages there. Start one, with the login for the other cluster",
        "conversations forward CLUSTER", Mends.PERSON,
    ),
    "cluster-away": Meaning(
        "the peer lives on another cluster, and a forwarder runs, and cannot carry: a cluster does not answer, or refuses something. It goes on by itself when "
        "that is over (the runbook is cluster-away)", "conversations events --event CLUSTER_AWAY", Mends.PERSON,
    ),
    "set-aside": Meaning(
        "the state or a topic of the partition is damaged. Mend that, then restart the workers (the runbook is partition-set-aside)",
        "conversations events --service SERVICE --event PARTITION_SET_ASIDE", Mends.PERSON,
    ),
    "open-transaction": Meaning(
        "a program wrote to the queue in a transaction and has not ended it for five seconds, which hides the newest records. Kafka aborts it after "
        "the time-out of that program; the command does it now", f"conversations queue abort SERVICE {REASON}", Mends.COMMAND,
    ),
    "unfit": Meaning(
        "a message waits because the running release does not know its type or its body: it was sent under the contract of another release. "
        "Run a release that knows it, then give it back", _RETRY, Mends.COMMAND,
    ),
    "held": Meaning(
        "a message failed as often as its policy allows, and its dialog waits for your decision. For a service: its groups of such messages", _RETRY,
        Mends.COMMAND,
    ),
    "brake": Meaning(
        "too many dialogs with the peer failed within a short time, so its messages are tried one at a time. When one is handled, all go on. The "
        "command tries this one now", _RETRY, Mends.COMMAND,
    ),
    "retry-waits": Meaning(
        "a message failed and is tried again at a known time; the command tries it now", _RETRY, Mends.COMMAND
    ),
    "slow-handler": Meaning(
        "a handler has not finished. At its time limit it fails", _SHOW, Mends.ITSELF
    ),
    "unread": Meaning(
        "records are in the queue that its owner has not read: there is much to do, or the worker stands still",
        "conversations queue show SERVICE --all", Mends.ITSELF,
    ),
    "gap": Meaning(
        "a message arrived early. The peer is asked for the missing one three times within seven seconds; then the dialog breaks", _SHOW, Mends.ITSELF
    ),
    "unknown-destination": Meaning(
        "the namespace has no service of this name, for example because the name has a typo. Apply the service, or close the dialog",
        f"conversations dialogs cleanup ID --service SERVICE --side SIDE --yes {REASON}", Mends.COMMAND,
    ),
    "right-missing": Meaning(
        "the user of the workers may not write to the queue of the peer. It is known only if you may describe the rights of the cluster",
        "kafka-acls.sh --bootstrap-server BOOTSTRAP --add --allow-principal USER --operation WRITE --topic QUEUE", Mends.COMMAND,
    ),
    "delayed": Meaning(
        "the queue of the peer takes no records now: its topic, its brokers or a right. It is tried again by itself", "conversations queue show SERVICE --all",
        Mends.ITSELF,
    ),
    "pool": Meaning(
        "another dialog is before it in its pool. The command is the one for the first dialog of the pool's key", "conversations why ID", Mends.COMMAND
    ),
    "broken": Meaning("the dialog is broken, and on_error has not finished", _SHOW, Mends.ITSELF),
    "peer-stalls": Meaning(
        "only for a service: a peer keeps open dialogs of the service from going on. The command says why", "conversations why SERVICE", Mends.PERSON
    ),
    "unacknowledged": Meaning(
        "the peer has not acknowledged what was sent; usually another cause says why", "conversations why SERVICE", Mends.ITSELF
    ),
    "lifetime-near": Meaning(
        "the lifetime ends within a quarter of an hour. With a message that waits, it must be handled before", _RETRY, Mends.COMMAND
    ),
    "expired": Meaning(
        "the lifetime ended before messages that waited were handled, for example while their handler failed. They are open letters; the command "
        "sends them again. What the target never got is no open letter: on_error was told", f"conversations dead-letters resubmit LETTER {REASON}", Mends.COMMAND,
    ),
    "letters": Meaning(
        "the dialog is over and left open letters: resubmit what nobody decided about, discard the rest. For a service: its open letters, by reason",
        f"conversations dead-letters discard LETTER {REASON}", Mends.COMMAND,
    ),
}  # fmt: skip
"""All causes, by name. The first ones are causes of the later ones."""

_PLACES = {name: place for place, name in enumerate(TABLE)}


def in_order(found: Iterable[Cause]) -> list[Cause]:
    """Sort causes: a cause that others depend on comes before them."""
    return sorted(found, key=lambda it: _PLACES[it.name])


def next_command(found: Sequence[Cause]) -> str:
    """Return the command for the first cause that needs a person, or else for the first cause; empty if there is none."""
    for it in sorted(found, key=lambda it: not it.needs_person):
        if it.next:
            return it.next
    return ""


def command(*words: str, reason: bool = False) -> str:
    """Write a command of ``conversations`` for a shell. With ``reason``, it ends with the option that every change needs."""
    line = shlex.join(("conversations", *words))
    return f"{line} {REASON}" if reason else line


def wait(count: int, what: str) -> str:
    """Write how many things wait: ``1 record waits``, ``2 records wait``."""
    return f"{counted(count, what)} {'waits' if count == 1 else 'wait'}"
