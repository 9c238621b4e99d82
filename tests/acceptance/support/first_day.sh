# What a user does on the first day with the installed package, step by step. The first step that fails ends it.
# Variables: WORK, the user's folder (it may be read-only); VOLUME, a writable directory;
# JARS, a directory with the jars that were downloaded before.
set -euo pipefail
cd "$WORK"
export CONVERSATIONS_CACHE="$VOLUME/cache" TMPDIR="$VOLUME/tmp" PYTHONDONTWRITEBYTECODE=1
mkdir -p "$TMPDIR" "$CONVERSATIONS_CACHE"
cp -r "$JARS/jars" "$JARS/spark-jars" "$CONVERSATIONS_CACHE"

step() {
  printf '== %s\n' "$*"
  "$@"
}

step python -c 'import conversations, sys; print(conversations.__file__)'
step python hello.py
step python -m pytest -q -p no:cacheprovider test_hello.py
step conversations check hello:greeter
step conversations broker start
CONVERSATIONS_BOOTSTRAP="$(conversations broker status --json | python -c 'import json, sys; print(json.load(sys.stdin)["brokers"][0]["bootstrap"])')"
export CONVERSATIONS_BOOTSTRAP
step conversations apply hello:greeter
printf '== conversations run hello:greeter\n'
conversations run hello:greeter --state-dir "$VOLUME/state" &
service=$!
step python ask.py
step conversations dead-letters list
step conversations spark delivery-audit --cores 2
kill -TERM "$service"
wait "$service"
step conversations broker stop
