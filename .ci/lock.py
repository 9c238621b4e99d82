"""Make or check the dependency locks in requirements/ (pinned versions with hashes, no index address).

``python .ci/lock.py`` resolves again with uv, keeping the versions already locked; ``--upgrade`` takes the newest.
``python .ci/lock.py --check`` works offline: each lock carries a fingerprint of the pyproject sections it came from.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
MARK = "# pyproject fingerprint: "
LOCKS = {  # in this order: each lock constrains the next ones, so a package has one version in all of them
    "dev": [
        "--group",
        "dev",
        "--extra",
        "broker",
        "--extra",
        "ops",
        "--extra",
        "otel",
        "--extra",
        "seal",
        "--extra",
        "spark",
        "--extra",
        "examples",
    ],
    "bench": ["--group", "bench"],
    "runtime": [],
    # the container image: what builds the wheel, what the command line and the console need, and what the demo and Spark need beyond that
    "build": ["--group", "build"],
    "ops": ["--extra", "ops", "--extra", "seal"],
    "image-spark": ["--extra", "ops", "--extra", "seal", "--extra", "spark", "--extra", "examples"],
}


def fingerprint() -> str:
    """Digest of everything in pyproject.toml that decides what is locked."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = document["project"]
    keys = ("requires-python", "dependencies", "optional-dependencies")
    relevant = {key: project[key] for key in keys} | {"groups": document["dependency-groups"]}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()[:16]


def make(name: str, selection: list[str], extra: list[str]) -> None:
    """Resolve one lock with uv and put the fingerprint on its first line."""
    path = REQUIREMENTS / f"{name}.txt"
    uv = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--universal", "--generate-hashes"]
    uv += ["--quiet", "--no-header", "--no-emit-index-url", "--no-emit-find-links", *selection, *extra]
    if name != "dev":
        uv += ["--constraint", "requirements/dev.txt"]
    subprocess.run([*uv, "--output-file", str(path)], cwd=ROOT, check=True)
    text = path.read_text(encoding="utf-8")
    addresses = [line for line in text.splitlines() if "://" in line]
    if addresses:
        sys.exit(f"{path.name}: an address got into the lock: {addresses[0]}")
    path.write_text(f"{MARK}{fingerprint()}\n# made by `make lock`; do not edit\n{text}", encoding="utf-8")


def stale() -> list[str]:
    """Names of the locks that were not made from the present pyproject.toml."""
    wanted = MARK + fingerprint()
    paths = {name: REQUIREMENTS / f"{name}.txt" for name in LOCKS}
    return [name for name, path in paths.items() if not path.exists() or path.read_text().split("\n", 1)[0] != wanted]


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        names = stale()
        if names:
            print(f"stale locks: {', '.join(names)}; run `make lock` and commit requirements/", file=sys.stderr)
        return 1 if names else 0
    REQUIREMENTS.mkdir(exist_ok=True)
    for name, selection in LOCKS.items():
        print(f"locking requirements/{name}.txt")
        make(name, selection, [argument for argument in arguments if argument == "--upgrade"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
