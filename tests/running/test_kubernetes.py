"""The example for Kubernetes: it follows the schemas of Kubernetes, and says nothing that the product does not have.

No test of this file needs a cluster, and none was there when the example was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.running.support import kubernetes_checks as checks
from tests.running.support.planting import GONE, planted
from tests.support.documents import ROOT

EXAMPLE = checks.example()
SET, JOB = "StatefulSet aircraft-log", "Job aircraft-log-apply"
POD = f"{SET}/spec/template/spec"
WORKER = f"{POD}/containers/0"
SETTINGS = "Secret kafka-settings/stringData"
SCALED = "ScaledObject aircraft-log/spec"
KEYS = "TriggerAuthentication aircraft-log-kafka/spec/secretTargetRef"


@pytest.mark.parametrize("check", checks.CHECKS)
def test_the_example_is_right(check: Callable[[checks.Found], Iterator[str]]) -> None:
    assert list(check(EXAMPLE)) == []


@pytest.mark.parametrize(
    ("check", "path", "value", "said"),
    [
        (checks.follows_the_schemas, f"{SET}/spec/replica", 3, "replica"),
        (checks.follows_the_schemas, f"{WORKER}/livenessProbe/httpGet/url", "/live", "url"),
        (checks.follows_the_schemas, f"{SCALED}/triggers/0/metadata/lagThreshold", 1000, "lagThreshold"),
        (checks.follows_the_schemas, f"{KEYS}/0/parameter", "saslType", "parameter"),
        (checks.runs_the_image, f"{WORKER}/image", "kafka-dialogs:latest", "no image kafka-dialogs:latest"),
        (checks.runs_the_image, f"{WORKER}/args/3", "--worker=1", "No such option"),
        (checks.runs_the_image, f"{WORKER}/args/1", "conversations_ops.demo.aircraft_log:aircraft", "aircraft"),
        (checks.names_variables_that_exist, f"{WORKER}/env/1/name", "CONVERSATIONS_KAFKA", "no variable CONVERSATIONS_KAFKA"),
        (checks.names_variables_that_exist, f"{WORKER}/env/1/valueFrom/secretKeyRef/key", "address", "has a address"),
        (checks.names_variables_that_exist, f"{WORKER}/env/0/name", "POD", "names no variable"),
        (checks.has_settings_that_exist, f"{WORKER}/env/2/value", "/etc/conversations/x.settings", "the file x.settings"),
        (checks.has_settings_that_exist, f"{WORKER}/volumeMounts/1/mountPath", "/etc/kafka", "nothing puts the file"),
        (checks.has_settings_that_exist, f"{SETTINGS}/kafka.settings", "worker.stp=2s", "worker.step"),
        (checks.has_settings_that_exist, f"{SETTINGS}/kafka.settings", "security.protocl=SSL", "security.protocl"),
        (checks.has_settings_that_exist, f"{SETTINGS}/ca.crt", GONE, "no Secret has"),
        (checks.probes_what_is_there, f"{WORKER}/args/4", "--health=8081", "asks port health"),
        (checks.probes_what_is_there, f"{WORKER}/args/5", "--health-host=127.0.0.1", "its own pod only"),
        (checks.probes_what_is_there, f"{WORKER}/livenessProbe/httpGet/path", "/health", "503 while a worker is down"),
        (checks.probes_what_is_there, f"{WORKER}/readinessProbe/httpGet/path", "/readyz", "gets 404"),
        (checks.is_confined, f"{POD}/securityContext/runAsUser", 0, "does not run as the user"),
        (checks.is_confined, f"{POD}/securityContext/fsGroup", GONE, "cannot write the volume"),
        (checks.is_confined, f"{WORKER}/securityContext/allowPrivilegeEscalation", True, "more rights"),
        (checks.is_confined, f"{WORKER}/securityContext/readOnlyRootFilesystem", False, "can be written"),
        (checks.is_confined, f"{POD}/automountServiceAccountToken", GONE, "does not need"),
        (checks.is_confined, f"{WORKER}/resources/limits", {}, "are open"),
        (checks.keeps_its_copies, f"{WORKER}/volumeMounts/0/mountPath", "/data", "on no volume of its own"),
        (checks.keeps_its_copies, f"{WORKER}/volumeMounts/2/name", "temp", "no volume temp"),
        (checks.belongs_together, "PodDisruptionBudget aircraft-log/spec/selector/matchLabels/app.kubernetes.io~name", "x", "chooses no pod"),
        (checks.belongs_together, f"{SET}/spec/serviceName", "x", "no Service x"),
        (checks.belongs_together, f"{POD}/terminationGracePeriodSeconds", 10, "s to stop"),
        (checks.belongs_together, f"{WORKER}/args/2", "--slot=worker", "not the name of its pod"),
        (checks.scales_by_the_lag, f"{SCALED}/maxReplicaCount", 24, "24 pods for 12 partitions"),
        (checks.scales_by_the_lag, f"{SCALED}/triggers/0/metadata/topic", "conv.aircraft-log.state", "not of the service"),
        (checks.scales_by_the_lag, f"{SCALED}/scaleTargetRef/name", "x", "no StatefulSet x"),
        (checks.scales_by_the_lag, f"{SCALED}/triggers/0/authenticationRef/name", "x", "no TriggerAuthentication x"),
        (checks.scales_by_the_lag, f"{KEYS}/1/key", "user", "has a user"),
    ],
)  # fmt: skip
def test_a_fault_in_the_example_is_found(
    check: Callable[[checks.Found], Iterator[str]], path: str, value: Any, said: str
) -> None:
    assert said in "\n".join(check(planted(EXAMPLE, path, value)))


def test_every_check_is_seen_to_find_a_fault() -> None:
    (mark,) = test_a_fault_in_the_example_is_found.pytestmark
    assert {case[0] for case in mark.args[1]} == set(checks.CHECKS)


def test_the_readme_of_the_example_is_short() -> None:
    text = (ROOT / "ops" / "kubernetes" / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30
