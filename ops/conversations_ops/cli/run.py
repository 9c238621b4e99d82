"""``conversations run``: services in supervised processes."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from conversations.config import JSON, WorkerSettings
from conversations.protocol.topics import check_name
from conversations_ops.cache import FIX, NoDirectory, cache_directory, made, writable
from conversations_ops.cli.kafka_options import Command, kafka_of, settings_of
from conversations_ops.cli.output import Json, failures, show, show_error
from conversations_ops.console import log_lines
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.host.child import Ended, Spec, grace
from conversations_ops.host.health import TIMEOUT, served
from conversations_ops.host.slots import host_name
from conversations_ops.host.supervisor import RunEnd, Supervisor
from conversations_ops.metrics.exposition import page_of, where
from conversations_ops.metrics.workers import of_workers
from conversations_ops.settings.file import Line
from conversations_ops.settings.given import Given

CODES = {Ended.STOPPED: Exit.FINE, Ended.DECLARATION: Exit.USAGE, Ended.UNREACHABLE: Exit.UNREACHABLE}
KINDS = {
    Ended.DECLARATION: "DeclarationError",
    Ended.UNREACHABLE: "KafkaUnreachable",
    Ended.REFUSED: "LogError",
}
"""Kind of the error in JSON, as all commands name it."""
SLOTS = ".slots"
"""Directory of the slots, next to the directories of services with local copies. No service name begins with a dot."""
START_ONE = " To start one on this machine: conversations broker start"

app = typer.Typer()
log = logging.getLogger("conversations.run")


@app.command(epilog=EXIT_CODES, cls=Command)
def run(
    context: typer.Context,
    targets: Annotated[
        list[str],
        typer.Argument(metavar="TARGET...", help="Services to run, as module:attribute, e.g. shop.orders:service."),
    ],
    workers: Annotated[int, typer.Option(min=1, help="Processes per service.")] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of handlers at the same time in a process (worker.concurrency)."),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Directory of local copies: DIR/SERVICE/SLOT. Default: a cache directory."),
    ] = None,
    memory_state: Annotated[
        bool,
        typer.Option("--memory-state", help="Keep local copies in memory. Each start restores them from Kafka."),
    ] = False,
    slot: Annotated[
        str, typer.Option(help="Name for the workers of this machine, the same at every start. Default: the host name.")
    ] = "",
    health: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port for GET /health, /ready, /live and /metrics; 0 picks a free port."),
    ] = None,
    health_host: Annotated[str, typer.Option(help="Address on which the health page listens.")] = "127.0.0.1",
    health_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds after which a connection to the health page is closed.")
    ] = TIMEOUT,
    log_level: Annotated[str, typer.Option(help=f"Lowest level to log: {', '.join(log_lines.LEVELS)}.")] = "info",
    log_json: Annotated[bool, typer.Option("--log-json", help="Log JSON objects (worker.log_format=json).")] = False,
    as_json: Json = False,
) -> None:
    """Run services until Ctrl-C or SIGTERM, or until the terminal closes.

    TARGET is the name of a Service or of a function that returns a Service. It may also be the name of a context manager
    or a generator function, sync or async, that yields a Service. Each process enters the context manager, so it can open
    resources for the handlers. Modules are looked for in Python's own library, then in the current directory, then in
    installed packages. Before the first run, `conversations apply TARGET` must create the topics.

    Settings are NAME=VALUE, after --setting or in the file of --settings. TARGET can also be (service, WorkerSettings).
    Options override the file, and the file overrides the code. The start prints settings that differ from the defaults.
    `conversations settings` explains all settings. Periods must be the same for all services of a namespace.

    Each service runs in its own processes. A process that dies is started again, in the same slot, after 0.2 s to 10 s.
    On the first signal, running handlers have 5 s to finish (worker.revocation). The workers then commit and leave their
    groups. A process that has not ended after 10 more seconds is killed. A second signal kills all processes at once.

    \b
    Examples:
      conversations run hello:greeter --bootstrap localhost:9092
      conversations run shop.orders:service shop.billing:service --workers 4 --concurrency 32
      conversations run shop.orders:service --health 8080    # curl localhost:8080/health; Prometheus reads /metrics there
      conversations run shop.orders:service --settings shop.settings --setting worker.step=2s
      CONVERSATIONS_BOOTSTRAP=kafka:9092 conversations run shop.orders:service --slot "$HOSTNAME" --log-json

    Exit codes: 0 stopped by a signal, 1 failed, or Kafka refused (login, rights, topics), 2 wrong usage or an incomplete
    service, 3 Kafka unreachable at the start.
    """
    given = settings_of(context)
    kafka = kafka_of(context, given)
    if log_level.lower() not in log_lines.LEVELS:
        raise typer.BadParameter(f"--log-level {log_level}: one of {', '.join(log_lines.LEVELS)}")
    if memory_state and state_dir is not None:
        raise typer.BadParameter("--memory-state and --state-dir exclude each other")
    log_json = log_json or given.value_of("worker.log_format") == JSON
    log_lines.configure("run", level=log_level, as_json=log_json)
    with failures(as_json=as_json):
        check_name("slot", slot or host_name())
        check_name("namespace", kafka.namespace)
        state, slots = _directories(kafka.namespace, state_dir, in_memory=memory_state)
    specs = [
        Spec(
            target=target, bootstrap=kafka.bootstrap, namespace=kafka.namespace, settings=dict(kafka.settings), log_level=log_level, log_json=log_json,
            product=_product(given, concurrency), state=None if state is None else str(state), slots=str(slots), base=slot or host_name(),
        )
        for target in targets
    ]  # fmt: skip
    _end(_supervise(specs, workers, (health_host, health, health_timeout), as_json=as_json), as_json=as_json)


def _directories(namespace: str, state_dir: Path | None, *, in_memory: bool) -> tuple[Path | None, Path]:
    """Return the directory of the local copies (None if they are in memory) and the directory of the slots.

    Slots are in the cache, because all runs of a machine must see them. If the cache cannot be written, for example in a container
    without a writable home, the slots are in the directory of ``state_dir``, and a warning says so. An existing directory of
    ``state_dir`` keeps its mode (design decision 0022).

    Raises:
        NoDirectory: a directory cannot be made or written.
    """
    fix, another = (
        FIX if in_memory else f"give --state-dir a directory on a writable volume, or {FIX}",
        "give --state-dir another one",
    )
    state = state_dir and state_dir.resolve()
    if state is not None and not os.path.exists(state):  # noqa: PTH110 - Path.exists raises an error if a parent cannot be entered
        made(state, another)
    elif state is not None and not os.access(state, os.W_OK | os.X_OK):
        raise NoDirectory(f"directory {state} is read-only for this user; {another}")
    try:
        cache = cache_directory(fix)
        slots = writable(cache / "slots" / namespace, fix)
        return None if in_memory else state or writable(cache / "state" / namespace, fix), slots
    except NoDirectory as error:
        if state is None:
            raise
        slots = writable(state / SLOTS / namespace, another)
        log.warning(
            "%s. So the slots are in %s. Other runs of these services on this machine need the same --state-dir, or another --slot",
            error, slots,
        )  # fmt: skip
        return state, slots


def _end(end: RunEnd, *, as_json: bool) -> None:
    if end.kind != Ended.STOPPED:
        text = end.text + (START_ONE if end.kind == Ended.UNREACHABLE else "")
        show_error(text, KINDS.get(end.kind, "RunFailed"), as_json=as_json)
        raise typer.Exit(CODES.get(end.kind, Exit.HUMAN))


def _supervise(specs: list[Spec], workers: int, health: tuple[str, int | None, float], *, as_json: bool) -> RunEnd:
    host, port, timeout = health
    page: list[str] = []
    supervisor = Supervisor(
        specs, workers, grace(WorkerSettings().revocation), lambda: _tell(supervisor, specs[0], page, as_json=as_json)
    )
    with contextlib.ExitStack() as stack:
        if port is not None:
            try:
                pages = served(
                    host, port, supervisor.services, timeout, lambda: page_of(of_workers(supervisor.services()))
                )
                page.append(stack.enter_context(pages))
            except OSError as error:
                raise typer.BadParameter(f"--health {port}: {error.strerror}") from error
        return supervisor.run()


def _tell(supervisor: Supervisor, spec: Spec, page: list[str], *, as_json: bool) -> None:
    services = supervisor.services()
    lines = [
        f"starting {found['service']}: {', '.join(worker['slot'] for worker in found['workers'])}" for found in services
    ]
    lines.append(f"  Kafka   {spec.bootstrap}, namespace {spec.namespace}")
    lines.append(f"  state   {spec.state or 'in memory'}")
    lines += [f"  health  {address}\n  metrics {where(address)}" for address in page]
    changed = supervisor.settings()
    lines += [line for service in changed for line in _changed(service, changed[service])]
    if spec.settings:
        lines.append(f"  settings of Kafka's client, values not shown: {', '.join(sorted(spec.settings))}")
    named = [
        {
            "service": found["service"],
            "settings": {name: value for name, (value, _) in changed[found["service"]].items()},
            "workers": [{"slot": w["slot"], "pid": w["pid"]} for w in found["workers"]],
        }
        for found in services
    ]
    data = {
        "services": named,
        "bootstrap": spec.bootstrap,
        "namespace": spec.namespace,
        "state": spec.state,
        "client_settings": sorted(spec.settings),
        "health": page[0] if page else None,
    }
    show(data, "\n".join(lines), as_json=as_json)


def _product(given: Given, concurrency: int | None) -> list[Line]:
    """Return the given settings of the product. ``--concurrency`` comes last, because the last value of a setting takes effect."""
    own = [] if concurrency is None else [Line("--concurrency", "worker.concurrency", str(concurrency))]
    return [*given.product, *own]


def _changed(service: str, settings: dict[str, list[str]]) -> list[str]:
    if not settings:
        return [f"  settings of {service}: the defaults"]
    width = max(map(len, settings))
    rows = [f"    {name:{width}}  {value}  (default {default})" for name, (value, default) in settings.items()]
    return [f"  settings of {service} that differ from the defaults:", *rows]
