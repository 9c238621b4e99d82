"""Checks of the Kubernetes example against the schemas of Kubernetes and against the product. Each check yields lines that say what is wrong."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import certifi
import kubernetes_validate
from pydantic import BaseModel, ConfigDict, ValidationError

from conversations.errors import DeclarationError
from conversations.protocol.topics import DEFAULT_NAMESPACE, QUEUE, service_topic
from conversations.service import Service
from conversations_ops.host.targets import HandlerLoop, entered
from conversations_ops.settings.file import VARIABLE
from conversations_ops.settings.given import given
from tests.running.support import product
from tests.running.support.dockerfile import last, parsed, variables
from tests.support.documents import ROOT

Found = dict[str, dict[str, Any]]
"""The documents, by kind and name."""
KUBERNETES = "1.37.0"
"""Version of the schemas."""
STAGES = parsed((ROOT / "Dockerfile").read_text(encoding="utf-8"))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Target(_Strict):
    apiVersion: Literal["apps/v1"]  # noqa: N815 - the name in Kubernetes
    kind: Literal["StatefulSet"]
    name: str


class _Reference(_Strict):
    name: str


class _KafkaTrigger(_Strict):
    """The parameters of KEDA's scaler for Kafka that the example uses. Each of them is a text."""

    bootstrapServersFromEnv: str  # noqa: N815
    consumerGroup: str  # noqa: N815
    topic: str
    lagThreshold: str  # noqa: N815
    offsetResetPolicy: Literal["earliest", "latest"]  # noqa: N815


class _Trigger(_Strict):
    type: Literal["kafka"]
    metadata: _KafkaTrigger
    authenticationRef: _Reference  # noqa: N815


class _Scaled(_Strict):
    scaleTargetRef: _Target  # noqa: N815
    minReplicaCount: int  # noqa: N815
    maxReplicaCount: int  # noqa: N815
    pollingInterval: int  # noqa: N815
    cooldownPeriod: int  # noqa: N815
    advanced: dict[Literal["horizontalPodAutoscalerConfig"], dict[Literal["behavior"], dict[str, Any]]]
    triggers: list[_Trigger]


class _SecretKey(_Strict):
    parameter: Literal["sasl", "username", "password", "tls", "ca"]
    name: str
    key: str


class _Authentication(_Strict):
    secretTargetRef: list[_SecretKey]  # noqa: N815


KEDA: dict[str, type[BaseModel]] = {"ScaledObject": _Scaled, "TriggerAuthentication": _Authentication}


def example() -> Found:
    """Return all documents of the example, by kind and name."""
    files = sorted((ROOT / "ops" / "kubernetes").glob("*.yaml"))
    found = [it for file in files for it in product.documents(str(file.relative_to(ROOT)))]
    return {f"{it['kind']} {it['metadata']['name']}": it for it in found}


def of_kind(found: Found, kind: str) -> list[dict[str, Any]]:
    """Return the documents of a kind."""
    return [it for it in found.values() if it["kind"] == kind]


def pods(found: Found) -> dict[str, dict[str, Any]]:
    """Return the pods that documents make, by the name of the document."""
    return {name: it["spec"]["template"] for name, it in found.items() if it["kind"] in {"Job", "StatefulSet"}}


def _containers(found: Found) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, pod in pods(found).items():
        for container in pod["spec"]["containers"]:
            yield name, pod["spec"], container


def _variables(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {it["name"]: it for it in container["env"]}


def follows_the_schemas(found: Found) -> Iterator[str]:
    for name, it in found.items():
        try:
            if it["kind"] in KEDA:
                KEDA[it["kind"]].model_validate(it["spec"], strict=True)
            else:
                kubernetes_validate.validate(it, KUBERNETES, strict=True)
        except (kubernetes_validate.ValidationError, ValidationError) as error:
            yield f"{name}: {error}"


def runs_the_image(found: Found) -> Iterator[str]:
    for name, _, container in _containers(found):
        if container["image"] not in product.IMAGES:
            yield f"{name}: the product has no image {container['image']}"
        if wrong := product.refused(container["args"]):
            yield f"{name}: {wrong}"
        try:
            with HandlerLoop() as loop, entered(container["args"][1], loop) as (service, _):
                service.check()
        except DeclarationError as error:
            yield f"{name}: {error}"


def names_variables_that_exist(found: Found) -> Iterator[str]:
    for name, _, container in _containers(found):
        for variable, it in _variables(container).items():
            if variable.startswith("CONVERSATIONS_") and variable not in product.VARIABLES:
                yield f"{name}: the product has no variable {variable}"
            key = it.get("valueFrom", {}).get("secretKeyRef")
            if key and key["key"] not in found.get(f"Secret {key['name']}", {}).get("stringData", {}):
                yield f"{name}: no Secret {key['name']} has a {key['key']}"
        for word in container["args"]:
            if "$(" in word and word.partition("$(")[2].rstrip(")") not in _variables(container):
                yield f"{name}: {word} names no variable"


def has_settings_that_exist(found: Found) -> Iterator[str]:
    """The file that CONVERSATIONS_SETTINGS names is in the Secret that is mounted there, and the product reads it."""
    for name, pod, container in _containers(found):
        folder, _, file = _variables(container)[VARIABLE]["value"].rpartition("/")
        mounts = {it["mountPath"]: it["name"] for it in container["volumeMounts"]}
        secrets = {it["name"]: it["secret"]["secretName"] for it in pod["volumes"] if "secret" in it}
        secret = found.get(f"Secret {secrets.get(mounts.get(folder))}", {}).get("stringData", {})
        if file not in secret:
            yield f"{name}: nothing puts the file {file} into {folder}"
            continue
        with tempfile.TemporaryDirectory() as directory:
            # Kafka's client reads the certificates at once, and those of the example are no real ones.
            shutil.copy(certifi.where(), Path(directory) / "ca.crt")
            path = Path(directory) / file
            path.write_text(secret[file].replace(folder, directory), encoding="utf-8")
            path.chmod(0o600)
            before = os.environ.get(VARIABLE)
            os.environ[VARIABLE] = str(path)
            try:
                read = given()
                read.check_clients()
                places = [it for it in read.of_clients().values() if it.startswith(directory)]
                yield from (f"{name}: no Secret has {it}" for it in places if Path(it).name not in secret)
            except DeclarationError as error:
                yield f"{name}: {error}"
            finally:
                if before is None:
                    del os.environ[VARIABLE]
                else:
                    os.environ[VARIABLE] = before


def probes_what_is_there(found: Found) -> Iterator[str]:
    for name, _, container in _containers(found):
        if container["args"][0] != "run":
            continue
        ports = {it["name"]: str(it["containerPort"]) for it in container["ports"]}
        open_port = product.option(container["args"], "--health")
        if product.option(container["args"], "--health-host") != "0.0.0.0":
            yield f"{name}: the health page listens for its own pod only"
        for probe, when_down in (("startupProbe", 200), ("livenessProbe", 200), ("readinessProbe", 503)):
            page = container[probe]["httpGet"]
            if ports.get(page["port"]) != open_port:
                yield f"{name}: the {probe} asks port {page['port']}"
            seen = product.status(page["path"], healthy=True), product.status(page["path"], healthy=False)
            if seen != (200, when_down):
                yield f"{name}: the {probe} gets {seen[0]} from {page['path']}, and {seen[1]} while a worker is down"


def is_confined(found: Found) -> Iterator[str]:
    user = last(STAGES, "runtime", "USER").partition(":")[0]
    for name, pod, container in _containers(found):
        rights = pod["securityContext"]
        if not rights.get("runAsNonRoot") or str(rights.get("runAsUser")) != user:
            yield f"{name}: it does not run as the user {user} of the image"
        if "volumeClaimTemplates" in found[name]["spec"] and str(rights.get("fsGroup")) != user:
            yield f"{name}: its user cannot write the volume"
        own = container["securityContext"]
        if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{name}: it can get more rights"
        if not own.get("readOnlyRootFilesystem"):
            yield f"{name}: its root file system can be written"
        if (
            rights.get("seccompProfile") != {"type": "RuntimeDefault"}
            or pod.get("automountServiceAccountToken") is not False
        ):
            yield f"{name}: it has rights that it does not need"
        if (
            not {"cpu", "memory"} <= set(container["resources"]["requests"])
            or "memory" not in container["resources"]["limits"]
        ):
            yield f"{name}: its resources are open"


def keeps_its_copies(found: Found) -> Iterator[str]:
    cache = variables(STAGES, "runtime")["CONVERSATIONS_CACHE"]
    for name, pod, container in _containers(found):
        mounts = {it["mountPath"]: it["name"] for it in container["volumeMounts"]}
        templates = [it["metadata"]["name"] for it in found[name]["spec"].get("volumeClaimTemplates", [])]
        there = {it["name"] for it in pod["volumes"]} | set(templates)
        yield from (f"{name}: there is no volume {it}" for it in mounts.values() if it not in there)
        if cache not in mounts or (found[name]["kind"] == "StatefulSet" and mounts[cache] not in templates):
            yield f"{name}: the folder {cache} is on no volume of its own"


def belongs_together(found: Found) -> Iterator[str]:
    for it in of_kind(found, "StatefulSet"):
        labels = it["spec"]["template"]["metadata"]["labels"]
        others = [*of_kind(found, "Service"), *of_kind(found, "PodDisruptionBudget")]
        for other in [it, *others]:
            chosen = other["spec"]["selector"]
            if not (chosen.get("matchLabels") or chosen).items() <= labels.items():
                yield f"{other['kind']}: it chooses no pod of the StatefulSet"
        if f"Service {it['spec']['serviceName']}" not in found:
            yield f"StatefulSet: there is no Service {it['spec']['serviceName']}"
        pod = it["spec"]["template"]["spec"]
        if pod["terminationGracePeriodSeconds"] <= product.STOPPING:
            yield f"StatefulSet: its workers may need {product.STOPPING:g} s to stop"
        slot = product.option(pod["containers"][0]["args"], "--slot")
        field = _variables(pod["containers"][0])[slot.strip("$()")] if slot.startswith("$(") else {}
        if field.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") != "metadata.name":
            yield "StatefulSet: the slot of a worker is not the name of its pod"


def _service(found: Found) -> Service[Any]:
    (pod,) = (it["spec"]["template"]["spec"] for it in of_kind(found, "StatefulSet"))
    with HandlerLoop() as loop, entered(pod["containers"][0]["args"][1], loop) as (service, _):
        return service


def scales_by_the_lag(found: Found) -> Iterator[str]:
    name = _service(found).name
    (job,) = of_kind(found, "Job")
    partitions = product.option(job["spec"]["template"]["spec"]["containers"][0]["args"], "--partitions")
    for it in of_kind(found, "ScaledObject"):
        spec = it["spec"]
        if f"StatefulSet {spec['scaleTargetRef']['name']}" not in found:
            yield f"ScaledObject: there is no StatefulSet {spec['scaleTargetRef']['name']}"
        if str(spec["maxReplicaCount"]) != partitions:
            yield f"ScaledObject: {spec['maxReplicaCount']} pods for {partitions} partitions"
        for trigger in spec["triggers"]:
            asked = trigger["metadata"]
            if (asked["topic"], asked["consumerGroup"]) != (
                service_topic(DEFAULT_NAMESPACE, name, QUEUE),
                f"{DEFAULT_NAMESPACE}.{name}",
            ):
                yield f"ScaledObject: {asked['topic']} and {asked['consumerGroup']} are not of the service {name}"
            if f"TriggerAuthentication {trigger['authenticationRef']['name']}" not in found:
                yield f"ScaledObject: there is no TriggerAuthentication {trigger['authenticationRef']['name']}"
    for it in of_kind(found, "TriggerAuthentication"):
        for key in it["spec"]["secretTargetRef"]:
            if key["key"] not in found.get(f"Secret {key['name']}", {}).get("stringData", {}):
                yield f"TriggerAuthentication: no Secret {key['name']} has a {key['key']}"


CHECKS: list[Callable[[Found], Iterator[str]]] = [
    follows_the_schemas,
    runs_the_image,
    names_variables_that_exist,
    has_settings_that_exist,
    probes_what_is_there,
    is_confined,
    keeps_its_copies,
    belongs_together,
    scales_by_the_lag,
]
