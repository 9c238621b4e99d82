"""Sealed envelopes: only what a holder of the keys has sealed for a dialog, a direction and a place has an effect there."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conversations import WorkerSettings
from conversations.ports import Out
from conversations.protocol.envelope import (
    Envelope,
    Extras,
    Kind,
    Seal,
    decode,
    encode,
    tail_start,
)
from conversations.protocol.events import MessageCorrupt, MessageNotAuthentic
from conversations.protocol.integrity import CRC, checksum
from conversations.protocol.topics import service_topic
from conversations.seal_keys import Key, KeyProvider, Keys, KeyTable
from conversations.testing import Simulation
from conversations.testing.damage import flip
from tests.simulation.support.two_clusters import Both, begin
from tests.simulation.support.wire import each_byte_wrong, effects, events, pass_all, put, said, taken

OLD, NEW = Key("old", bytes(range(32))), Key("new", bytes(range(32, 64)))
SHARED = Keys((NEW, OLD))
TABLE = KeyTable(dict.fromkeys(("here", "there", "web"), SHARED))
"""All services of a simulation have the same settings. The service ``web`` begins what the one here does."""


def settings(keys: KeyProvider | None = TABLE) -> WorkerSettings:
    return WorkerSettings(patience=timedelta(0), revocation=timedelta(0), keys=keys)


def world(both: Both, keys: KeyProvider | None = TABLE, **more: Any) -> Simulation:
    return Simulation(both.here, both.there, settings=settings(keys), **{"far": ["there"], **more})


def made_good(out: Out) -> Out:
    """Give a forged record the checksum that belongs to it, as one who holds no key can."""
    return out._replace(headers=[(CRC, checksum(out.key, out.value))])


def forged(out: Out, **changed: Any) -> Out:
    return made_good(out._replace(value=encode(replace(decode(out.value or b""), **changed))))


def arrives_in_the_end(sim: Simulation, both: Both, dialogs: int = 1) -> None:
    pass_all(sim)
    sim.advance(timedelta(seconds=64))
    assert list(both.heard.values()) == list(both.answers.values()) == [["a", "last"]] * dialogs
    assert both.ended == set(both.heard)
    assert both.errors == []
    sim.check_invariants()


def test_everything_that_is_said_is_sealed_on_the_way_and_plain_behind_it() -> None:
    both = Both()
    with world(both) as sim:
        begin(sim, "a", "break")
        begin(sim, "b", "last")
        sim.run()
        found = [
            it for name in ("here", "there") for part in sim.broker_of(name).queue(name) for it in part if it.value()
        ]
        crossed = [decode(it.value() or b"") for it in found if CRC in dict(it.headers() or ())]
        assert {it.kind for it in crossed} == {Kind.MESSAGE, Kind.ACK, Kind.ERROR, Kind.END}
        seals = [it.extras.seal for it in crossed if it.extras is not None and it.extras.seal is not None]
        assert len(seals) == len(crossed)
        assert {(it.key_id, len(it.nonce), len(it.tag)) for it in seals} == {("new", 12, 16)}
        assert len({it.nonce for it in seals}) == len(seals), "a nonce for each transmission"
        assert all(b"text" not in it.body for it in crossed)
        assert sorted(both.answers.values()) == [["a"], ["b", "last"]]
        assert both.errors == [7]
        rows = [
            it.value() or b""
            for name in ("here", "there")
            for part in sim.broker_of(name).topics[service_topic(sim.broker.namespace, name, "state")]
            for it in part
        ]
        assert any(b'"text"' in row for row in rows), "what is kept is plain"
        assert not any(it.nonce in row for row in rows for it in seals)


def each_byte_forged(out: Out) -> Iterator[Out]:
    """Return copies with one wrong byte, and with a header and a checksum that fit where that can be made."""
    for wrong in each_byte_wrong(out):
        yield wrong
        if (wrong.key, wrong.value) == (out.key, out.value):
            continue  # only a header is wrong, and it would be right again
        try:
            yield made_good(wrong)
        except (ValueError, IndexError):
            continue  # the prefix cannot be read any more


def test_each_byte_wrong_has_no_effect_even_if_the_checksum_fits() -> None:
    both = Both()
    with world(both) as sim:
        records = taken(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        before = effects(sim, "there")
        for count, out in enumerate(each_byte_forged(records[0]), 1):
            put(sim, out)
            sim.run()
            told = events(sim, MessageCorrupt) + events(sim, MessageNotAuthentic)
            aside = sim.worker("there").counts.set_aside - before["set_aside"]
            assert told + aside == count, out
        after = effects(sim, "there")
        assert after["handled"] == after["accepted"] == after["duplicates"] == 0
        # What is no envelope any more, or is for or from another service, is set aside as always: nobody there has keys.
        assert events(sim, MessageNotAuthentic) > 150
        assert Kind.ACK not in said(sim, "here")
        arrives_in_the_end(sim, both)


@pytest.mark.parametrize("to", ["here", "there"])
def test_each_byte_wrong_is_discarded_on_an_open_dialog(to: str) -> None:
    both = Both()
    with world(both) as sim:
        begin(sim, "a", "last")
        records = taken(sim, to, lambda envelope: envelope.seq == 1)
        sim.run()
        if not records:
            sim.advance(timedelta(seconds=5))
        before = effects(sim, to)
        other = "there" if to == "here" else "here"
        told = len(said(sim, other))
        value = records[0].value or b""
        start = tail_start(value)
        wrong = list(each_byte_wrong(records[0]))
        # Behind the prefix, the checksum and the header are made to fit.
        at = range(len(records[0].key or b"") + start, len(records[0].key or b"") + len(value))
        wrong += [made_good(flip(records[0], it, 0x04)) for it in at]
        for out in wrong:
            put(sim, out)
        sim.run()
        after = effects(sim, to)
        aside = after["set_aside"] - before["set_aside"]
        assert events(sim, MessageCorrupt) + events(sim, MessageNotAuthentic) + aside == len(wrong)
        assert (after["handled"], after["accepted"], after["duplicates"]) == (
            before["handled"],
            before["accepted"],
            before["duplicates"],
        )
        assert len(said(sim, other)) == told, "nothing is acknowledged"
        arrives_in_the_end(sim, both)


def _unsealed(out: Out) -> Out:
    return forged(out, extras=None, body=b'{"text":"a"}')


def _unknown_key(out: Out) -> Out:
    envelope = decode(out.value or b"")
    assert envelope.extras is not None
    assert envelope.extras.seal is not None
    return forged(out, extras=Extras(seal=replace(envelope.extras.seal, key_id="stolen")))


def _short_tag(out: Out) -> Out:
    envelope = decode(out.value or b"")
    assert envelope.extras is not None
    assert envelope.extras.seal is not None
    return forged(out, extras=Extras(seal=replace(envelope.extras.seal, tag=b"")))


def _short_nonce(out: Out) -> Out:
    return forged(out, extras=Extras(seal=Seal("new", b"", bytes(16))))


def _other_key(out: Out) -> Out:
    """Choose another group for the dialog."""
    return (
        made_good(out._replace(key=out.key))._replace()
        if out.key is None
        else made_good(out._replace(key=out.key[:-1] + b"x"))
    )


def _acknowledges(out: Out) -> Out:
    return forged(out, ack=5)


def _says_more(out: Out) -> Out:
    return forged(out, kind=Kind.ERROR, code=9, seq=-1, description="broken by a stranger")


FORGERIES: list[Callable[[Out], Out]] = [
    _unsealed, _unknown_key, _short_tag, _short_nonce, _acknowledges, _says_more,
]  # fmt: skip


@pytest.mark.parametrize("forge", [*FORGERIES, _other_key], ids=lambda it: it.__name__.strip("_"))
def test_a_forgery_begins_no_dialog(forge: Callable[[Out], Out]) -> None:
    both = Both()
    with world(both, partitions=1) as sim:
        records = taken(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        before = effects(sim, "there")
        put(sim, forge(records[0]))
        sim.run()
        assert events(sim, MessageNotAuthentic) == sim.worker("there").counts.traffic.not_authentic == 1
        assert effects(sim, "there") == before
        arrives_in_the_end(sim, both)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda it: it.__name__.strip("_"))
def test_a_forgery_has_no_effect_on_an_open_dialog(forge: Callable[[Out], Out]) -> None:
    both = Both()
    with world(both, partitions=1) as sim:
        begin(sim, "a", "last")
        records = taken(sim, "there", lambda envelope: envelope.seq == 1)
        sim.run()
        before = effects(sim, "there")
        put(sim, forge(records[0]))
        sim.run()
        assert events(sim, MessageNotAuthentic) == 1
        assert effects(sim, "there") == before
        arrives_in_the_end(sim, both)


def _as_of(envelope: Envelope, other: Envelope) -> Envelope:
    """Return an envelope of the dialog and direction of another one, with its own seal."""
    return replace(envelope, prefix=other.prefix)


def test_a_seal_belongs_to_its_dialog_its_direction_and_its_number() -> None:
    both = Both()
    with world(both, partitions=1) as sim:
        begin(sim, "a", "last")
        begin(sim, "a", "last")
        there = taken(sim, "there", lambda envelope: envelope.kind is Kind.MESSAGE)
        sim.run()
        pass_all(sim)
        here = taken(sim, "here", lambda envelope: envelope.kind is Kind.MESSAGE)
        sim.advance(timedelta(seconds=5))
        first, second = sorted({decode(it.value or b"").prefix.conversation_id for it in there})
        mine = [it for it in there if decode(it.value or b"").prefix.conversation_id == first]
        other = [it for it in there if decode(it.value or b"").prefix.conversation_id == second]
        back = [it for it in here if decode(it.value or b"").prefix.conversation_id == first]
        swapped = [
            mine[0]._replace(value=encode(_as_of(decode(other[0].value or b""), decode(mine[0].value or b"")))),
            mine[0]._replace(value=encode(_as_of(decode(back[0].value or b""), decode(mine[0].value or b"")))),
            mine[0]._replace(value=encode(replace(decode(mine[1].value or b""), seq=0))),
            mine[0]._replace(value=encode(replace(decode(mine[0].value or b""), seq=7))),
        ]
        before = effects(sim, "there")
        for out in swapped:
            put(sim, made_good(out))
        sim.run()
        assert events(sim, MessageNotAuthentic) == len(swapped)
        assert effects(sim, "there") == before
        arrives_in_the_end(sim, both, dialogs=2)


def test_a_record_that_is_replayed_is_a_duplicate_and_is_acknowledged_again() -> None:
    both = Both()
    with world(both) as sim:
        records = taken(sim, "there", lambda envelope: envelope.seq == 0)
        begin(sim, "a")
        sim.run()
        pass_all(sim)
        sim.advance(timedelta(seconds=30))
        before, told = effects(sim, "there"), said(sim, "here").count(Kind.ACK)
        sim.there.append(records[0])
        sim.advance(timedelta(seconds=3))
        after = effects(sim, "there")
        assert after["duplicates"] == before["duplicates"] + 1
        assert after["handled"] == before["handled"] == 1
        assert said(sim, "here").count(Kind.ACK) == told + 1
        assert list(both.heard.values()) == [["a"]]
        assert events(sim, MessageNotAuthentic) == 0


def test_a_service_without_keys_accepts_nothing_that_is_sealed_until_it_has_them() -> None:
    """The sender keeps the plain bytes, and seals them anew. So nothing is lost when the keys of one side come late."""

    class Late:
        known = False

        def keys_for(self, peer: str) -> Keys | None:
            return SHARED if peer == "there" or (self.known and peer == "here") else None

    both, late = Both(), Late()
    with world(both, late) as sim:
        begin(sim, "a", "last")
        sim.run()
        assert events(sim, MessageNotAuthentic) == 2
        assert both.heard == {}
        assert sim.worker("there").counts.set_aside == 0
        late.known = True
        sim.crash("there")
        arrives_in_the_end(sim, both)


def test_a_lost_key_is_replaced_and_the_dialog_goes_on() -> None:
    class Replaced:
        keys = Keys((OLD,))
        theirs = Keys((OLD,))

        def keys_for(self, peer: str) -> Keys | None:
            return {"there": self.keys, "here": self.theirs, "web": Keys((NEW,))}.get(peer)

    both, held = Both(), Replaced()
    with world(both, held) as sim:
        held.theirs = Keys((NEW,))
        begin(sim, "a", "last")
        sim.run()
        assert events(sim, MessageNotAuthentic) == 2, "the other side has lost the old key"
        held.keys = Keys((NEW,))
        sim.crash("here")
        arrives_in_the_end(sim, both)


def test_peers_on_one_cluster_may_seal_too() -> None:
    both = Both()
    with world(both, far=[]) as sim:
        records = taken(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        assert records == [], "nothing goes to another cluster"
        found = [it for part in sim.broker.queue("there") for it in part if it.value()]
        assert all(CRC not in dict(it.headers() or ()) for it in found)
        (first, *_) = (it for it in found if decode(it.value() or b"").seq == 0)
        before = effects(sim, "there")
        plain = encode(replace(decode(first.value() or b""), extras=None, body=b'{"text":"z"}'))
        put(
            sim,
            Out(
                first.topic(),
                first.partition(),
                first.key(),
                plain,
            ),
        )
        sim.run()
        assert events(sim, MessageNotAuthentic) == 1
        assert effects(sim, "there") == before
        arrives_in_the_end(sim, both)


def test_what_a_refusing_topic_gives_back_is_kept_plain_and_sealed_anew() -> None:
    both = Both()
    with world(both, far=[]) as sim:
        sim.broker.forbidden.add(service_topic(sim.broker.namespace, "there", "queue"))
        begin(sim, "a", "last")
        sim.run()
        assert both.heard == {}
        sim.broker.forbidden.clear()
        sim.advance(timedelta(seconds=10))
        arrives_in_the_end(sim, both)
