"""Public names that are also modules."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["local", "run"])
def test_a_name_is_the_function_even_when_its_module_was_imported_first(name: str) -> None:
    program = f"import conversations.{name}; from conversations import {name}; assert callable({name}), {name}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
