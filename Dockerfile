# The command line of kafka-dialogs as a container: `docker build -t kafka-dialogs:0.1.0 .`, then `docker run --rm kafka-dialogs:0.1.0 --help`.
# Your services: an image FROM this one, with your modules in /app. docs/deployment.md has an example.
# The stage `spark` also has Java, Spark and the data of the demo: `docker build --target spark -t kafka-dialogs-spark:0.1.0 .`

FROM python:3.13-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv --without-pip /opt/conversations
COPY requirements/ requirements/
RUN python -m pip install --require-hashes -r requirements/build.txt
RUN python -m pip --python /opt/conversations/bin/python install --require-hashes -r requirements/ops.txt
COPY LICENSE README.md pyproject.toml ./
COPY conversations/ conversations/
COPY ops/conversations_ops/ ops/conversations_ops/
COPY spark_jobs/ spark_jobs/
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/conversations/bin/python install --no-deps --no-index /wheels/kafka_dialogs-*.whl

FROM build AS build-spark
RUN python -m pip --python /opt/conversations/bin/python install --require-hashes -r requirements/image-spark.txt

FROM python:3.13-slim-bookworm AS base
# The numbers are in ops/kubernetes, too: a volume must belong to this user.
RUN groupadd --gid 10001 conversations \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/conversations --shell /usr/sbin/nologin conversations \
 && install --directory --owner conversations --group conversations --mode 0700 /var/lib/conversations
# Local copies and slots are in the cache. No other folder is written.
ENV PATH=/opt/conversations/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 CONVERSATIONS_CACHE=/var/lib/conversations
WORKDIR /app
VOLUME /var/lib/conversations
EXPOSE 8080
STOPSIGNAL SIGTERM
# The page of `conversations run --health 8080`. Other commands have no such page: turn the check off for them.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=4)"]
ENTRYPOINT ["conversations"]
CMD ["--help"]

FROM base AS spark
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build-spark /opt/conversations /opt/conversations
USER 10001:10001

FROM base AS runtime
COPY --from=build /opt/conversations /opt/conversations
USER 10001:10001
