"""How Spark is told to reach a secured Kafka."""

import pytest

from spark_jobs.errors import SourceError
from spark_jobs.reading.wire import java_settings
from spark_jobs.running.make_lock import JARS
from spark_jobs.running.session import spark_jars


def test_settings_are_said_as_java_clients_want_them() -> None:
    found = java_settings({
        "security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "spark",
        "sasl.password": 'a"b\\c', "ssl.ca.location": "/etc/ca.pem",
    })  # fmt: skip
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="spark" password="a\\"b\\\\c";'
        ),
        "ssl.truststore.location": "/etc/ca.pem",
        "ssl.truststore.type": "PEM",
    }


def test_a_setting_without_a_translation_is_refused_with_the_way_out() -> None:
    with pytest.raises(SourceError, match=r"'enable.ssl.certificate.verification' has no translation.*kafka\.<name>"):
        java_settings({"enable.ssl.certificate.verification": False})


def test_the_lock_names_the_jars_that_are_asked_for() -> None:
    assert sorted(jar.coordinate for jar in spark_jars()) == sorted(JARS)
