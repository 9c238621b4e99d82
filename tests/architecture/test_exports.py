"""The public surface is what ``conversations`` says it is."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import conversations


def test_names_are_sorted_and_load() -> None:
    """Every public name loads, and the list is sorted so that a change shows."""
    assert sorted(conversations.__all__) == list(conversations.__all__)
    for name in conversations.__all__:
        assert getattr(conversations, name) is not None


def test_homes_agree_with_the_list() -> None:
    """The lazy names are exactly the public ones."""
    homes = importlib.import_module("conversations")._HOME_OF
    assert sorted(homes) == sorted(conversations.__all__)


def test_unknown_names_are_refused() -> None:
    """A name that is not public is an AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        conversations.nothing_of_this_name  # noqa: B018 - the access is the test


def test_importing_does_no_input_or_output() -> None:
    """Importing the package loads neither librdkafka nor RocksDB nor an event loop."""
    code = "import conversations, sys; print(sorted({'confluent_kafka', 'rocksdict', 'asyncio'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"
