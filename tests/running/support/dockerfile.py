"""Reads a Dockerfile and a .dockerignore, as far as ours use their syntax."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any


@dataclass
class Stage:
    """One stage of a Dockerfile."""

    name: str
    parent: str
    """An image, or the name of an earlier stage."""
    steps: list[tuple[str, str]] = field(default_factory=list)
    """Instructions in capitals, with their arguments, in order."""

    def all(self, instruction: str) -> list[str]:
        """Return the arguments of each instruction of this kind."""
        return [rest for name, rest in self.steps if name == instruction]


def parsed(text: str) -> dict[str, Stage]:
    """Return the stages of a Dockerfile by name.

    Raises:
        ValueError: an instruction comes before the first FROM, or a stage has no name or the name of another one.
    """
    stages: dict[str, Stage] = {}
    current: Stage | None = None
    uncommented = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n\s*", " ", uncommented).splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        if name.upper() == "FROM":
            found = re.fullmatch(r"(\S+) AS (\S+)", rest)
            if found is None or found[2] in stages:
                raise ValueError(f"FROM {rest}: each stage has a name of its own")
            current = stages[found[2]] = Stage(found[2], found[1])
        elif current is None:
            raise ValueError(f"{name} comes before the first FROM")
        else:
            current.steps.append((name.upper(), rest.strip()))
    return stages


def line_of(stages: dict[str, Stage], name: str) -> list[Stage]:
    """Return a stage and the stages that it is made from, the oldest first."""
    stage = stages[name]
    return [*(line_of(stages, stage.parent) if stage.parent in stages else []), stage]


def last(stages: dict[str, Stage], name: str, instruction: str) -> str:
    """Return what an instruction says for the image of a stage; empty if it says nothing."""
    found = [rest for stage in line_of(stages, name) for rest in stage.all(instruction)]
    return found[-1] if found else ""


def words_of(rest: str) -> list[str] | None:
    """Return the words of a command in exec form; None if the command is in shell form."""
    try:
        found: Any = json.loads(rest)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def variables(stages: dict[str, Stage], name: str) -> dict[str, str]:
    """Return the variables that an image sets."""
    found = [rest for stage in line_of(stages, name) for rest in stage.all("ENV")]
    return dict(pair.split("=", 1) for rest in found for pair in rest.split())


def ignored(rules: str, path: str) -> bool:
    """Return True if a .dockerignore leaves a path out. The last rule that fits decides."""
    decided = False
    parts = path.strip("/").split("/")
    parents = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    for line in rules.splitlines():
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        pattern = rule.removeprefix("!")
        if any(fnmatch(it, pattern) or (pattern.startswith("**/") and fnmatch(it, pattern[3:])) for it in parents):
            decided = not rule.startswith("!")
    return decided
