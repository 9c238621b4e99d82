"""One round: the same messages to a service on the same cluster, to a service on another cluster, and through MirrorMaker 2."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import topics
from bench.children import Child, RunFailed
from bench.latencies import curve, summary
from bench.remote.ground import (
    AWAY,
    HOME,
    LOOK,
    TEXT,
    Brokers,
    Sizes,
    appended,
    commands,
    envelopes,
    ids,
    pace,
    per_second,
    plain,
)
from bench.remote.mirror import mirroring
from bench.remote.services import ITEMS, SEALED, SINK, SOURCE, Arrivals, Item, sink, source
from bench.topics import Filling
from bench.workload import PARTITIONS
from conversations import Client, Kafka
from conversations.kafka.admin import add_route, apply
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import QUEUE, service_topic

Found = dict[str, Any]
Records = Callable[[range], Iterator[Filling]]


def services(brokers: Brokers, sizes: Sizes, space: str, *, remote: bool, sealed: bool = False) -> Found:
    """Send items to the sink, on the same cluster or on the other one, perhaps with seals.

    Raises:
        RunFailed: a process failed, or an item was lost, repeated or out of order.
    """
    here, there = brokers.here, brokers.there if remote else brokers.here
    _declare(here, there, space)
    with _working(brokers, space, there, [SEALED] if sealed else []) as children:
        names = _begun(here, space, sizes.dialogs)
        return _measured(brokers, sizes, here, lambda numbers: commands(space, names, numbers), children)


def large(brokers: Brokers, sizes: Sizes, space: str) -> Found:
    """Send small items at a rate between two clusters, first alone, and then beside messages of many megabytes, one after the other.

    Raises:
        RunFailed: a process failed, or an item was lost, repeated or out of order.
    """
    _declare(brokers.here, brokers.there, space)
    with _working(brokers, space, brokers.there, []) as children:
        names = _begun(brokers.here, space, sizes.small_dialogs)
        count, found = sizes.small_dialogs, Found()
        _arrived(brokers, children[SINK], count)
        for beside in (False, True):
            for name in (SOURCE, SINK):
                children[name].ask("memory")  # the most memory is measured from here on
            others = _large_ones(brokers.here, space, sizes.large, children[SINK]) if beside else nullcontext()
            with others:
                pace(brokers.here, commands(space, names, range(count, count + sizes.timed)), sizes.rate)
            count += sizes.timed
            _arrived(brokers, children[SINK], count)
            memory = {f"{name}_mb": children[name].ask("memory")["peak_mb"] for name in (SOURCE, SINK)}
            took = children[SINK].ask("took", count=sizes.timed)["took"]
            found["beside" if beside else "alone"] = {
                **summary(took), "large": children[SINK].ask("figures")["large"], **memory
            }  # fmt: skip
        brokers.until(lambda: children[SINK].ask("figures")["large"], "no large message has arrived")
        return found


@contextmanager
def _large_ones(bootstrap: str, space: str, size: int, reader: Child) -> Iterator[None]:
    """Send messages of ``size`` bytes during the block. Nobody else may ask the reader meanwhile."""
    stop = threading.Event()
    sender = threading.Thread(target=_send_large, args=(bootstrap, space, size, reader, stop))
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


def _send_large(bootstrap: str, space: str, size: int, reader: Child, stop: threading.Event) -> None:
    """Send messages of ``size`` bytes, each on a dialog of its own and as soon as the one before was handled."""
    text, sent = "x" * (size - 1_000), 0
    with Client(source(), Kafka(bootstrap, namespace=space), timeout=timedelta(minutes=2)) as client:
        while not stop.is_set():
            with client.begin_dialog(SINK, ITEMS) as dialog:
                dialog.send(Item(n=0, sent=time.time(), text=text))
            sent += 1
            while len(reader.ask("figures")["large"]) < sent and not stop.wait(LOOK):
                pass


@contextmanager
def _working(brokers: Brokers, space: str, there: str, arguments: list[str]) -> Iterator[dict[str, Child]]:
    """Run both services, and forwarders between them if they are on two clusters."""
    here = brokers.here
    with ExitStack() as stack:
        children = {
            SOURCE: stack.enter_context(brokers.child("services", SOURCE, space, here, *arguments)),
            SINK: stack.enter_context(brokers.child("services", SINK, space, there, *arguments)),
        }
        if there != here:
            children[AWAY] = stack.enter_context(brokers.child("forwarding", AWAY, space, here, there))
            children[HOME] = stack.enter_context(brokers.child("forwarding", HOME, space, there, here))
        for child in children.values():
            child.await_start()
        yield children


def _begun(here: str, space: str, count: int) -> list[str]:
    """Begin dialogs with an item each; return their names."""
    names = [Client.new_id() for _ in range(count)]
    with Client(source(), Kafka(here, namespace=space)) as client:
        openings = [(name, Item(n=0, sent=time.time(), text=TEXT)) for name in names]
        failed = [it for it in client.begin_dialogs(SINK, ITEMS, openings) if it.error is not None]
    if failed:
        raise RunFailed(f"{len(failed)} dialogs did not begin: {failed[0].error}")
    return names


def mirror(brokers: Brokers, sizes: Sizes, topic: str) -> Found:
    """Send the same items through a mirrored topic: from a plain producer to a plain consumer.

    Raises:
        Unavailable: there is no MirrorMaker.
        RunFailed: a process failed, or an item was lost or out of order.
    """
    for bootstrap in (brokers.here, brokers.there):
        _create(bootstrap, topic)
    names = ids(sizes.dialogs)
    waiting = f"{topic}-waiting"
    for bootstrap in (brokers.here, brokers.there):
        _create(bootstrap, waiting)
    topics.fill(brokers.here, plain(waiting, names, range(sizes.waiting)))
    with ExitStack() as stack:
        process = stack.enter_context(mirroring(brokers.here, brokers.there, f"{topic}.*", brokers.directory))
        _await_records(brokers, brokers.there, waiting, sizes.waiting)
        caught_up = per_second(brokers.there, waiting, sizes.waiting)
        reader = stack.enter_context(brokers.child("reading", SINK, topic, brokers.there, topic))
        reader.await_start()
        topics.fill(brokers.here, plain(topic, names, range(sizes.dialogs)))
        used = _cpu_of_group(process.pid)
        found = _measured(brokers, sizes, brokers.here, lambda numbers: plain(topic, names, numbers), {SINK: reader})
        found["forwarder_cpu_us"] = round(1e6 * (_cpu_of_group(process.pid) - used) / (sizes.messages + sizes.timed))
    return {**found, "caught_up_per_second": round(caught_up)}


def catching_up(brokers: Brokers, count: int, space: str, profile: str = "") -> Found:
    """Let envelopes wait in the transmission topic, and then start a forwarder. ``profile`` is a file for its profile.

    Raises:
        RunFailed: the forwarder failed, or an envelope was lost or repeated.
    """
    _declare(brokers.here, brokers.there, space)
    topics.fill(brokers.here, envelopes(space, ids(1_000), range(count)))
    arguments = [profile] if profile else []
    with brokers.child("forwarding", AWAY, space, brokers.here, brokers.there, *arguments) as forwarder:
        forwarder.await_start()
        brokers.until(lambda: forwarder.ask("figures")["envelopes"] >= count, "not every envelope was carried")
        told = forwarder.ask("figures")
    rate = per_second(brokers.there, service_topic(space, SINK, QUEUE), count)
    return {
        "caught_up_per_second": round(rate),
        "caught_up_cpu_us": round(1e6 * told["cpu_seconds"] / count, 1),
        "transactions": told["transactions"],
    }


def _declare(here: str, there: str, space: str) -> None:
    home, away = Kafka(here, namespace=space), Kafka(there, namespace=space)
    apply(home, [source().declaration()], PARTITIONS, 1)
    apply(away, [sink(Arrivals()).declaration()], PARTITIONS, 1)
    if here != there:
        add_route(home, SINK, Cluster(AWAY, there, space, PARTITIONS), 1)
        add_route(away, SOURCE, Cluster(HOME, here, space, PARTITIONS), 1)


def _measured(brokers: Brokers, sizes: Sizes, bootstrap: str, records: Records, children: dict[str, Child]) -> Found:
    """Send as fast as possible, then at a rate. The first item of each dialog has been sent."""
    reader = children[SINK]
    arrive = partial(_arrived, brokers, reader)
    first, second = sizes.dialogs, sizes.dialogs + sizes.messages
    arrive(first)
    between = [children[name] for name in (AWAY, HOME) if name in children]
    used = sum(child.ask("figures")["cpu_seconds"] for child in between)
    begin = time.time()
    topics.fill(bootstrap, records(range(first, second)))
    seconds = arrive(second)["last"] - begin
    pace(bootstrap, records(range(second, second + sizes.timed)), sizes.rate)
    arrive(second + sizes.timed)
    took = reader.ask("took", count=sizes.timed)["took"]
    found = {"per_second": round(sizes.messages / seconds), "latency": summary(took), "curve_ms": curve(took)}
    if between:
        used = sum(child.ask("figures")["cpu_seconds"] for child in between) - used
        found["forwarder_cpu_us"] = round(1e6 * used / (sizes.messages + sizes.timed))
    return found


def _arrived(brokers: Brokers, reader: Child, count: int) -> Found:
    """Wait until ``count`` items have arrived; return what the reader says.

    Raises:
        RunFailed: an item was lost, repeated or out of order.
    """
    brokers.until(lambda: reader.ask("figures")["count"] >= count, f"fewer than {count} items have arrived")
    told = reader.ask("figures")
    if told["wrong"] or told["count"] != count:
        raise RunFailed(f"{told['count']} items instead of {count} have arrived, {told['wrong']} not in order")
    return told


def _create(bootstrap: str, topic: str) -> None:
    """Create a topic in which the broker notes the time of each append."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    new = NewTopic(topic, PARTITIONS, 1, config={"message.timestamp.type": "LogAppendTime"})
    for future in admin.create_topics([new]).values():
        future.result()


def _await_records(brokers: Brokers, bootstrap: str, topic: str, count: int) -> None:
    brokers.until(lambda: appended(bootstrap, topic) >= count, f"{topic} has fewer than {count} records")


def _cpu_of_group(group: int) -> float:
    """Return the processor seconds of the processes of a group."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[2]) == group:
            found += int(fields[11]) + int(fields[12])
    return found / os.sysconf("SC_CLK_TCK")
