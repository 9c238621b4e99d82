"""Puts the compiled modules into a wheel, if ``CONVERSATIONS_COMPILED=1`` asks for it (docs/decisions/0064-compiled-by-mypyc.md)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledBuildHook(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]  # hatchling tells mypy no types
    """Compiles the modules on the hot path, and makes the wheel one for this Python and this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the wheel is an editable one: a checkout has its compiled modules elsewhere."""
        if os.environ.get("CONVERSATIONS_COMPILED") != "1" or version == "editable":
            return
        made = self._made
        subprocess.run([sys.executable, str(Path(self.root) / "wheels" / "build.py"), "--into", str(made)], check=True)
        build_data["force_include"].update(
            {str(file): file.relative_to(made).as_posix() for file in made.rglob("*") if file.is_file()}
        )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's interface
        """Remove the compiled modules: they are in the wheel, and what is beside it would be uploaded with it."""
        shutil.rmtree(self._made, ignore_errors=True)

    @property
    def _made(self) -> Path:
        return Path(self.directory) / "compiled"
