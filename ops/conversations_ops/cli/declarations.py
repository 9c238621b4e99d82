"""``conversations check`` checks the declarations of services. ``conversations apply`` creates their topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from conversations.config import Kafka, Periods
from conversations.errors import DeclarationError, UnknownNamespace
from conversations.handlers import Handler, Side
from conversations.service import Service
from conversations_ops.cli.kafka_options import Command, kafka_of, settings_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.console.search_path import search_here
from conversations_ops.host.targets import Found, HandlerLoop, entered
from conversations_ops.printable import one_line
from conversations_ops.settings.given import Given, shortened

app = typer.Typer()
Targets = Annotated[
    list[str], typer.Argument(metavar="TARGET...", help="Services as module:attribute, e.g. shop.orders:service.")
]


@app.command(epilog=EXIT_CODES, cls=Command)
def check(
    context: typer.Context,
    targets: Targets,
    catalog: Annotated[
        bool, typer.Option("--catalog", help="Compare with the services in the catalog. This needs Kafka.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --catalog: exit code 1 if the release has any effect.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check that services have a handler for every message that they may receive. Print their declarations. Needs no Kafka.

    TARGET is written as for `conversations run`. If it is a context manager, the command enters and leaves it.

    With --catalog, the command also prints which effects this release has on messages in flight, on stored state, and on peers with
    another release. A release that `conversations apply` refuses is refused here, too.

    \b
    Examples:
      conversations check shop.orders:service
      conversations check shop.orders:service --json | jq '.services[].accepts'
      conversations check shop.orders:service --catalog --strict --bootstrap localhost:9092

    Exit codes: 0 complete, 1 with --strict if the release has effects, 2 a handler is missing, the release is refused, or the target
    cannot be found.
    """
    with failures(as_json=as_json), entered_all(targets) as given:
        found = [_summary(it.service) for it in given]
        lines = [_text(summary) for summary in found]
        answer: dict[str, Any] = {"services": found}
        if catalog:
            answer["effects"] = _effects(kafka_of(context), [it.service for it in given])
            lines += [one_line(line) for line in answer["effects"]] or [
                "This release has no effect on messages in flight and on stored state"
            ]
        show(answer, "\n".join(lines), as_json=as_json)
    if strict and answer.get("effects"):
        raise typer.Exit(Exit.HUMAN)


@app.command(epilog=EXIT_CODES, cls=Command)
def apply(
    context: typer.Context,
    targets: Targets,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Partitions of each topic of a service. Cannot change after the first `apply`. By default a new service gets 12.",
            show_default=False,
        ),
    ] = None,
    replication: Annotated[
        int, typer.Option(min=-1, help="Replication factor of new topics; -1 is the broker's default.")
    ] = -1,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Apply a release that is refused: another program of that name, or state without a field that it had.",
        ),
    ] = False,
    despite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Go on although `conversations doctor` has a fatal finding of this name about the cluster. May be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create the topics of services, correct the settings of existing topics, and write the services to the catalog.

    If a topic has a safer setting, for example a longer retention, this setting is kept. No record is deleted. Each change
    is printed as a line, and so is each effect that the new release has on messages in flight. The plain topics to which services publish,
    and from which they read, belong to others: the command names the missing ones, and neither creates nor changes any.

    The command changes nothing if `conversations doctor` has a fatal finding about the cluster, for example that no transaction can work.
    --despite NAME goes on all the same, and the output says so.

    \b
    Examples:
      conversations apply shop.orders:service --bootstrap localhost:9092
      conversations apply shop.orders:service shop.billing:service --partitions 24 --replication 3

    Exit codes: 0 done, 1 Kafka refused, or the cluster has a fatal finding, 2 a service is incomplete or exists with another partition count, 3 Kafka unreachable.
    """
    given = settings_of(context)
    kafka = kafka_of(context, given)
    with failures(as_json=as_json), entered_all(targets) as found:
        from conversations.kafka import admin
        from conversations_ops.doctor.fitness import check_names, look

        check_names(despite or [])
        services = [it.service for it in found]
        for service in services:
            service.check()
        periods = _periods(given, found)
        fitness = look(kafka, periods, targets)
        gone_on = fitness.refuse(despite or [])
        changes = gone_on + admin.apply(
            kafka, [service.declaration() for service in services], partitions, fitness.replication(replication), periods=periods,
            replace=replace,
        )  # fmt: skip
        names = ", ".join(service.name for service in services)
        show(
            {"services": [service.name for service in services], "changes": changes},
            "\n".join(map(one_line, changes)) or f"Nothing to do: {names} is as declared",
            as_json=as_json,
        )


def _effects(kafka: Kafka, services: list[Service[Any]]) -> list[str]:
    from conversations.kafka import admin
    from conversations.kafka.catalog import read_catalog
    from conversations.protocol.release_changes import check_release

    declarations = [it.declaration() for it in services]
    try:
        catalog = read_catalog(kafka)
    except UnknownNamespace:  # the first release of the first service of a namespace
        return admin.missing_plain_topics(kafka, declarations)
    for it in declarations:
        check_release(catalog.services.get(it.name, {}), it)
    lines = [f"{it.name}: {line}" for it in declarations for line in admin.effects(catalog, it)]
    return lines + admin.missing_plain_topics(kafka, declarations)


@contextlib.contextmanager
def entered_all(targets: list[str]) -> Iterator[list[Found]]:
    """Enter all targets of a command, and leave them at the end of the block."""
    search_here()
    with HandlerLoop() as loop, contextlib.ExitStack() as stack:
        yield [stack.enter_context(entered(target, loop)) for target in targets]


def _periods(given: Given, found: list[Found]) -> Periods:
    of_all = {shortened(given.worker_settings(it.settings)).periods for it in found}
    if len(of_all) > 1:
        raise DeclarationError(
            "these targets have different periods, but a namespace has one set of periods: apply the targets separately"
        )
    return of_all.pop()


# -- what a service declares ---------------------------------------------------------------------------------


def _summary(service: Service[Any]) -> dict[str, Any]:
    sides = service.check().values()
    return {
        "service": service.name,
        "state_version": service.state.version,
        "accepts": [_contract(side) for side in sides if not side.initiator],
        "initiates": [_contract(side) for side in sides if side.initiator],
        "accepts_from": None if service.accepts_from is None else sorted(service.accepts_from),
        "publishes": sorted(service.publishes),
        "reads": [
            {"topic": it.topic, "to": it.to, "contract": it.contract.name, "start": it.start, "function": it.name}
            for _, it in sorted(service.feeds.items())
        ],
    }


def _contract(side: Side) -> dict[str, Any]:
    events = {"on_end": side.on_end, "on_error": side.on_error, "on_timer": side.on_timer}
    return {
        "contract": side.contract.name,
        "sends": sorted(side.contract.sendable(side.initiator)),
        "receives": {name: _handler(handler) for name, (_, handler) in sorted(side.receivers.items())},
        "events": {name: _handler(handler) for name, handler in events.items() if handler is not None},
    }


def _handler(handler: Handler | None) -> dict[str, Any] | None:
    """Return a handler as plain data; None if the service declares that it ignores the message type."""
    if handler is None:
        return None
    return {"handler": handler.name, "async": handler.is_async, "time_limit_seconds": handler.time_limit}


def _text(summary: dict[str, Any]) -> str:
    version = summary["state_version"]
    lines = [f"{summary['service']}: complete" + (f", state version {version}" if version > 1 else "")]
    for verb in ("accepts", "initiates"):
        for contract in summary[verb]:
            lines.append(f"  {verb} {contract['contract']}")
            lines += [f"    sends     {name}" for name in contract["sends"]]
            lines += [f"    receives  {name:24} {_named(handler)}" for name, handler in contract["receives"].items()]
            lines += [f"    {name:33} {_named(handler)}" for name, handler in contract["events"].items()]
    if summary["accepts_from"] is not None:
        lines.append(f"  accepts dialogs only from {', '.join(summary['accepts_from'])}")
    lines += [f"  publishes to topic {topic}" for topic in summary["publishes"]]
    for it in summary["reads"]:
        lines.append(f"  reads from topic {it['topic']} ({it['start']})")
        lines.append(
            f"    begins    {it['contract']} with {it['to']:{max(1, 19 - len(it['contract']))}} def {it['function']}"
        )
    return "\n".join(lines)


def _named(handler: dict[str, Any] | None) -> str:
    if handler is None:
        return "ignored"
    kind = "async def" if handler["async"] else "def"
    return f"{kind} {handler['handler']}, at most {handler['time_limit_seconds']:g} s"
