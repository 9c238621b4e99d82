"""Checks of a Compose file against the schema of Compose and against the product. Each check yields lines that say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import jsonschema
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from conversations_ops.broker.server import SETTINGS
from tests.integration.support.docker_kafka import IMAGE, variable
from tests.running.support import product
from tests.running.support.dockerfile import parsed
from tests.support.documents import ROOT

Found = dict[str, Any]
HERE = "127.0.0.1"
OTHER_LISTENERS = {"inter.broker.listener.name", "listener.security.protocol.map"}
"""Settings in which the container differs from the embedded broker: other containers have a listener of their own."""
PORTS = {"prometheus": "9090", "grafana": "3000"}
"""Ports of programs that are not ours, by service."""


def kafkas(compose: Found) -> dict[str, Found]:
    """Return the services that are a Kafka."""
    return {name: it for name, it in compose["services"].items() if it["image"].startswith("apache/kafka:")}


def listeners(service: Found) -> dict[str, str]:
    """Return the address that a Kafka advertises for each of its listeners."""
    found = str(service["environment"]["KAFKA_ADVERTISED_LISTENERS"]).split(",")
    return {it.partition("://")[0]: it.partition("://")[2] for it in found}


def ours(compose: Found) -> dict[str, Found]:
    """Return the services that run an image of the product."""
    return {name: it for name, it in compose["services"].items() if it["image"] in product.IMAGES}


def follows_the_schema(compose: Found) -> Iterator[str]:
    schema = get_builtin_schema("vendor.compose-spec")
    checked = jsonschema.validators.validator_for(schema)(schema)
    yield from (f"{'.'.join(map(str, it.path))}: {it.message}" for it in checked.iter_errors(compose))


def starts_kafka_alone(compose: Found) -> Iterator[str]:
    plain = [name for name, it in compose["services"].items() if not it.get("profiles")]
    if plain != ["kafka"]:
        yield f"without a profile, {', '.join(plain)} would start"


def has_images(compose: Found) -> Iterator[str]:
    stages = parsed((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    for name, it in compose["services"].items():
        if wrong := product.untagged(it["image"]):
            yield f"{name}: {wrong}"
        if "build" in it and (
            it["build"]["target"] not in stages or product.IMAGES.get(it["image"]) != it["build"]["target"]
        ):
            yield f"{name}: the Dockerfile has no stage {it['build']['target']} for {it['image']}"
        if it["image"].startswith("kafka-dialogs") and it["image"] not in product.IMAGES:
            yield f"{name}: the version of {it['image']} is not that of the package"
    for name, it in kafkas(compose).items():
        if it["image"] != IMAGE:
            yield f"{name}: the version is not that of the embedded broker, {IMAGE}"


def has_the_settings_of_the_embedded_broker(compose: Found) -> Iterator[str]:
    for kafka, it in kafkas(compose).items():
        given = {name: str(value) for name, value in it["environment"].items()}
        for setting, value in SETTINGS.items():
            if setting not in OTHER_LISTENERS and given.get(variable(setting)) != value:
                yield f"{kafka}: {variable(setting)} is {given.get(variable(setting))}, and {value} in the embedded broker"


def runs_commands_that_exist(compose: Found) -> Iterator[str]:
    for name, it in ours(compose).items():
        entry = it.get("entrypoint")
        if entry is None and (wrong := product.refused(it["command"])):
            yield f"{name}: {wrong}"
        elif entry is not None and (entry[:2] != ["python", "-m"] or find_spec(entry[2]) is None):
            yield f"{name}: there is no module {entry[-1]}"


def names_variables_that_exist(compose: Found) -> Iterator[str]:
    for name, it in ours(compose).items():
        for unknown in set(it["environment"]) - product.VARIABLES:
            yield f"{name}: the product has no variable {unknown}"
        address = it["environment"].get("CONVERSATIONS_BOOTSTRAP", "")
        if address not in _inside(compose):
            yield f"{name}: Kafka has no listener {address}"


def _inside(compose: Found) -> set[str]:
    """Return the addresses at which containers reach the Kafkas: the host of an address is the name of its service."""
    return {
        address
        for name, it in kafkas(compose).items()
        for address in listeners(it).values()
        if address.partition(":")[0] == name
    }


def has_kafkas_of_their_own(compose: Found) -> Iterator[str]:
    """Two Kafkas share neither an id nor an address nor data, and clients on the host get back to the port that they asked."""
    used: dict[str, str] = {}
    for name, it in kafkas(compose).items():
        outer = it["ports"][0].split(":")[1]
        if listeners(it)["PLAINTEXT"] != f"localhost:{outer}":
            yield f"{name}: it sends clients of port {outer} to {listeners(it)['PLAINTEXT']}"
        if listeners(it)["INSIDE"].partition(":")[0] != name:
            yield f"{name}: it sends other containers to {listeners(it)['INSIDE']}"
        for own in (str(it["environment"]["CLUSTER_ID"]), it["container_name"], it["volumes"][0].split(":")[0]):
            if used.setdefault(own, name) != name:
                yield f"{name}: {own} belongs to {used[own]}"


def has_a_forwarder_on_each_way(compose: Found) -> Iterator[str]:
    """Each route leads to another Kafka of the file, has a forwarder, and has a way back."""
    ways: dict[tuple[str, str], str] = {}
    forwarders: set[tuple[str, str]] = set()
    for name, it in ours(compose).items():
        words = [str(word) for word in it.get("command", [])]
        here = it["environment"].get("CONVERSATIONS_BOOTSTRAP", "")
        if words[:2] == ["route", "add"]:
            there = product.option(words, "--at")
            if there not in _inside(compose) - {here}:
                yield f"{name}: no other Kafka is at {there}"
            ways[here, product.option(words, "--cluster")] = there
        elif words[:1] == ["forward"]:
            forwarders.add((here, words[1]))
    for (here, cluster), there in ways.items():
        if (here, cluster) not in forwarders:
            yield f"no forwarder carries from {here} to {cluster}"
        if not any((it, back) == (there, here) for (it, _), back in ways.items()):
            yield f"no way leads back from {there} to {here}"
    yield from (f"no route of {here} leads to {cluster}" for here, cluster in forwarders - ways.keys())


def _listens(name: str, service: Found) -> set[str]:
    """Return the ports on which a service listens for others."""
    words = [str(it) for it in service.get("command", [])]
    if "KAFKA_LISTENERS" in service.get("environment", {}):
        found = str(service["environment"]["KAFKA_LISTENERS"]).split(",")
        return {it.rpartition(":")[2] for it in found if "://0.0.0.0:" in it}
    if product.option(words, "--listen"):
        host, _, port = product.option(words, "--listen").rpartition(":")
        return {port} if host == "0.0.0.0" else set()
    if product.option(words, "--health-host") == "0.0.0.0":
        return {product.option(words, "--health")}
    return {PORTS[name]} if name in PORTS else set()


def publishes_ports_that_are_open(compose: Found) -> Iterator[str]:
    used: dict[str, str] = {}
    for name, it in compose["services"].items():
        for port in it.get("ports", []):
            host, outer, inner = port.split(":")
            if host != HERE:
                yield f"{name}: port {port} is open to the network of this machine"
            if used.setdefault(outer, name) != name:
                yield f"{name}: port {outer} belongs to {used[outer]}"
            if inner not in _listens(name, it):
                yield f"{name}: it does not listen on port {inner}"
        for port in re.findall(r"127\.0\.0\.1', (\d+)|localhost:(\d+)", str(it.get("healthcheck"))):
            if "".join(port) not in _listens(name, it):
                yield f"{name}: the health check asks port {''.join(port)}"


def _without_targets(config: Found) -> Found:
    return config | {"scrape_configs": [job | {"static_configs": None} for job in config["scrape_configs"]]}


def scrapes_what_is_there(compose: Found) -> Iterator[str]:
    mounts = {it.split(":")[1]: it.split(":")[0] for it in compose["services"]["prometheus"]["volumes"]}
    options = compose["services"]["prometheus"]["command"]
    folder, _, file = product.option(options, "--config.file").rpartition("/")
    path = ROOT / mounts.get(folder, "nowhere") / file
    if not path.exists():
        yield f"prometheus: there is no file {file} in {mounts.get(folder)}"
        return
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    other = path.with_name("prometheus.yml")
    if other.exists() and _without_targets(config) != _without_targets(
        yaml.safe_load(other.read_text(encoding="utf-8"))
    ):
        yield f"prometheus: {file} differs from {other.name} in more than its targets"
    for job in config["scrape_configs"]:
        for target in (it for static in job["static_configs"] for it in static["targets"]):
            name, _, port = target.partition(":")
            if port not in _listens(name, compose["services"].get(name, {})):
                yield f"prometheus: nothing listens on {target}"


def mounts_what_is_there(compose: Found) -> Iterator[str]:
    mounted = set()
    for name, it in compose["services"].items():
        for volume in it.get("volumes", []):
            source = volume.split(":")[0]
            mounted.add(source)
            if source.startswith("."):
                if not (ROOT / source).exists():
                    yield f"{name}: there is no file {source}"
                if not volume.endswith(":ro"):
                    yield f"{name}: {source} can be written"
            elif source not in compose["volumes"]:
                yield f"{name}: there is no volume {source}"
    yield from (f"nobody uses the volume {it}" for it in set(compose["volumes"]) - mounted)


def waits_for_what_starts(compose: Found) -> Iterator[str]:
    services = compose["services"]
    for name, it in services.items():
        after = it.get("depends_on", {})
        for other in after:
            if other not in services:
                yield f"{name}: there is no service {other}"
            elif not set(services[other].get("profiles", it.get("profiles", []))) >= set(it.get("profiles", [])):
                yield f"{name}: {other} does not start with it"
            elif (
                isinstance(after, dict)
                and after[other]["condition"] == "service_healthy"
                and services[other].get("healthcheck", {}).get("disable")
            ):
                yield f"{name}: {other} has no health check"


def is_confined(compose: Found) -> Iterator[str]:
    for name, it in ours(compose).items():
        if not (
            it.get("read_only")
            and it.get("cap_drop") == ["ALL"]
            and "no-new-privileges:true" in it.get("security_opt", [])
        ):
            yield f"{name}: it has rights that it does not need"
        if (
            it.get("command", [""])[0] == "run"
            and int(it.get("stop_grace_period", "10s").removesuffix("s")) <= product.STOPPING
        ):
            yield f"{name}: its workers may need {product.STOPPING:g} s to stop"


CHECKS: list[Callable[[Found], Iterator[str]]] = [
    follows_the_schema,
    starts_kafka_alone,
    has_images,
    has_the_settings_of_the_embedded_broker,
    runs_commands_that_exist,
    names_variables_that_exist,
    has_kafkas_of_their_own,
    has_a_forwarder_on_each_way,
    publishes_ports_that_are_open,
    scrapes_what_is_there,
    mounts_what_is_there,
    waits_for_what_starts,
    is_confined,
]
