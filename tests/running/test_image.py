"""The Dockerfile: it builds from the locks, runs as a user without rights, and says nothing that the product does not have.

No Docker engine is needed. So no test of this file builds the image.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator

import pytest

from conversations_ops.broker.java import OLDEST
from tests.running.support import product
from tests.running.support.dockerfile import Stage, ignored, last, line_of, parsed, variables, words_of
from tests.support.documents import ROOT, block

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORE = (ROOT / ".dockerignore").read_text(encoding="utf-8")
LOCKS = runpy.run_path(str(ROOT / ".ci" / "lock.py"))["LOCKS"]


def problems(text: str, ignore: str = IGNORE) -> list[str]:
    """Return what is wrong with a Dockerfile."""
    stages = parsed(text)
    found = [it for stage in stages.values() for it in _of_stage(stages, stage, ignore)]
    for image, name in product.IMAGES.items():
        found += _of_image(stages, name) if name in stages else [f"there is no stage {name} for the image {image}"]
    return found


def _of_stage(stages: dict[str, Stage], stage: Stage, ignore: str) -> Iterator[str]:
    if stage.parent not in stages and (wrong := product.untagged(stage.parent)):
        yield wrong
    for rest in stage.all("COPY"):
        *sources, _ = [word for word in rest.split() if not word.startswith("--")]
        origin = re.match(r"--from=(\S+)", rest)
        if origin and origin[1] not in stages:
            yield f"COPY {rest}: there is no such stage"
        if not origin:
            yield from (f"COPY {it}: there is no such file" for it in sources if not (ROOT / it).exists())
            yield from (f"COPY {it}: .dockerignore leaves it out" for it in sources if _empty(it, ignore))
    for rest in stage.all("RUN"):
        for command in rest.split("&&"):
            if re.search(r"\bpip\b.*\binstall\b", command) and not re.search("--require-hashes|--no-index", command):
                yield f"RUN {command.strip()}: it installs what no lock has"
        for lock in re.findall(r"requirements/([\w-]+)\.txt", rest):
            if lock not in LOCKS or ignored(ignore, f"requirements/{lock}.txt"):
                yield f"RUN {rest}: there is no lock {lock}"
        if "apt-get install" in rest and not (
            "--no-install-recommends" in rest and "rm -rf /var/lib/apt/lists" in rest
        ):
            yield f"RUN {rest}: it leaves more in the image than it needs"
    if stage.all("ADD"):
        yield "ADD unpacks and downloads: use COPY"


def _empty(source: str, ignore: str) -> bool:
    path = ROOT / source
    files = [path] if path.is_file() else [it for it in path.rglob("*") if it.is_file()]
    return all(ignored(ignore, it.relative_to(ROOT).as_posix()) for it in files)


def _of_image(stages: dict[str, Stage], name: str) -> Iterator[str]:
    user = last(stages, name, "USER").partition(":")[0]
    if not user.isdigit() or int(user) == 0:  # Kubernetes checks runAsNonRoot only for a number
        yield f"{name}: the user {user or 'root'} is not the number of a user without rights"
    if user not in re.findall(
        r"useradd --uid (\d+)", " ".join(rest for it in line_of(stages, name) for rest in it.all("RUN"))
    ):
        yield f"{name}: there is no user {user}"
    for instruction in ("ENTRYPOINT", "CMD"):
        if words_of(last(stages, name, instruction)) is None:
            yield f"{name}: {instruction} is no list of words, so a shell would get the signals"
    entry = words_of(last(stages, name, "ENTRYPOINT")) or [""]
    if entry[0] not in product.PROJECT["scripts"]:
        yield f"{name}: the package has no command {entry[0]}"
    if wrong := product.refused(words_of(last(stages, name, "CMD")) or []):
        yield f"{name}: {wrong}"
    if last(stages, name, "STOPSIGNAL") != "SIGTERM":
        yield f"{name}: the command stops cleanly on SIGTERM only"
    for variable in variables(stages, name):
        if variable.startswith("CONVERSATIONS_") and variable not in product.VARIABLES:
            yield f"{name}: the product has no variable {variable}"
    cache = variables(stages, name).get("CONVERSATIONS_CACHE")
    if last(stages, name, "VOLUME") != cache:
        yield f"{name}: the local copies in {cache} are on no volume"
    page = re.search(r"http://127\.0\.0\.1:(\d+)(/\w*)", last(stages, name, "HEALTHCHECK"))
    if page is None or page[1] not in last(stages, name, "EXPOSE").split():
        yield f"{name}: the health check asks another port than the image has"
    elif (product.status(page[2], healthy=True), product.status(page[2], healthy=False)) != (200, 503):
        yield f"{name}: the supervisor has no page {page[2]} that tells healthy workers from others"


def test_the_dockerfile_is_right() -> None:
    assert problems(TEXT) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("FROM python:3.13-slim-bookworm AS base", "FROM python:latest AS base", "needs the tag of a version"),
        ("COPY --from=build /opt", "COPY --from=biuld /opt", "no such stage"),
        ("COPY spark_jobs/ spark_jobs/", "COPY jobs/ spark_jobs/", "COPY jobs/: there is no such file"),
        ("COPY spark_jobs/ spark_jobs/", "COPY tests/ tests/", ".dockerignore leaves it out"),
        ("install --require-hashes -r requirements/ops.txt", "install fastapi", "no lock has"),
        ("requirements/ops.txt", "requirements/opps.txt", "no lock opps"),
        ("--no-install-recommends ", "", "more in the image"),
        ("USER 10001:10001", "USER root", "user root is not the number"),
        ("USER 10001:10001", "USER 10002", "there is no user 10002"),
        ('ENTRYPOINT ["conversations"]', "ENTRYPOINT conversations", "a shell would get the signals"),
        ('ENTRYPOINT ["conversations"]', 'ENTRYPOINT ["conversation"]', "no command conversation"),
        ('CMD ["--help"]', 'CMD ["rnu"]', "No such command"),
        ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "SIGTERM only"),
        ("CONVERSATIONS_CACHE=", "CONVERSATIONS_CACHES=", "no variable CONVERSATIONS_CACHES"),
        ("VOLUME /var/lib/conversations", "VOLUME /data", "on no volume"),
        ("8080/health", "8081/health", "another port"),
        ("8080/health", "8080/live", "no page /live"),
        ("COPY LICENSE", "ADD LICENSE", "use COPY"),
        ("AS runtime", "AS rutnime", "no stage runtime"),
    ],
)
def test_a_fault_in_the_dockerfile_is_found(before: str, after: str, said: str) -> None:
    assert before in TEXT
    assert said in "\n".join(problems(TEXT.replace(before, after)))


@pytest.mark.parametrize(
    "path", [".venv/bin/python", ".git/config", "tests/conftest.py", "conversations/__pycache__/a.pyc"]
)
def test_what_is_not_needed_is_left_out(path: str) -> None:
    assert ignored(IGNORE, path)


@pytest.mark.parametrize(
    "path", ["conversations/worker/worker.py", "ops/conversations_ops/py.typed", "requirements/ops.txt"]
)
def test_what_is_needed_is_there(path: str) -> None:
    assert (ROOT / "conversations" / "worker").exists()
    assert not ignored(IGNORE, path)


def test_what_the_wheel_is_made_from_is_in_the_image() -> None:
    """The build stage has the packages, and the files that pyproject.toml names."""
    copied = {word.strip("/") for rest in parsed(TEXT)["build"].all("COPY") for word in rest.split()[:-1]}
    named = {product.PROJECT["readme"], *product.PROJECT["license-files"], "pyproject.toml"}
    assert named | {"conversations", "spark_jobs", "ops/conversations_ops"} <= copied


def test_python_and_java_are_new_enough() -> None:
    least = tuple(map(int, product.PROJECT["requires-python"].removeprefix(">=").split(".")))
    images = re.findall(r"FROM python:(\d+)\.(\d+)", TEXT)
    assert len(set(images)) == 1  # the stage that runs has the Python for which the stage that builds has installed
    assert tuple(map(int, images[0])) >= least
    assert int(re.findall(r"openjdk-(\d+)-", TEXT)[0]) >= OLDEST


def test_the_example_of_an_image_is_right() -> None:
    """It is made from our image, and its command is one. Its services are the reader's own."""
    (stage,) = parsed(block("docs/deployment.md 2")).values()
    assert stage.parent in product.IMAGES
    assert product.refused(words_of(stage.all("CMD")[-1]) or []) == ""
    assert [
        rest.split()[-1].startswith(f"{last(parsed(TEXT), 'runtime', 'WORKDIR')}/") for rest in stage.all("COPY")
    ] == [True]


def test_the_page_about_deployment_builds_what_is_there() -> None:
    page = block("docs/deployment.md 1")
    assert set(re.findall(r"-t (\S+)", page)) == set(product.IMAGES)
    assert set(re.findall(r"--target (\S+)", page)) <= set(parsed(TEXT))
