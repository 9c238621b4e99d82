"""A namespace of its own for every test, and the compiled programs."""

from uuid import uuid4

import pytest

from conversations.config import Kafka
from tests.other_languages.java_programs import Programs, find_compiler


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Kafka:
    return Kafka(kafka_bootstrap, namespace=f"j{uuid4().hex[:10]}")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no Java compiler: install a JDK of version 17 or newer")
    return Programs.compile(compiler, tmp_path_factory.mktemp("classes"))
