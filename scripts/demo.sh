#!/usr/bin/env bash
# Repairs two bugs without a model: the bundled example, then a real bug of a released version of boltons,
# fetched from the package index and checked by hash. Nothing outside .demo/ is touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=${VENV:-.venv}
WORK=${DEMO_DIR:-$PWD/.demo}
export AGENTFORGE_DATA_HOME=$WORK/data
unset OPENAI_API_KEY OPENAI_BASE_URL AGENTFORGE_MODEL__BASE_URL AGENTFORGE_MODEL__API_KEY

BOLTONS_FILE=boltons-25.0.0.tar.gz
BOLTONS_SHA256=e110fbdc30b7b9868cb604e3f71d4722dd8f4dcb4a5ddd06028ba8f1ab0b5ace

say() { printf '\n== %s\n' "$*" >&2; }

as_repository() { # FOLDER: one commit of what is in it
  git -C "$1" init -q
  git -C "$1" add -A
  git -C "$1" -c user.name=demo -c user.email=demo@example.org -c commit.gpgsign=false commit -q -m "As released"
}

repair() { # REPOSITORY ISSUE: time it, and fail with its exit code
  local started=$SECONDS
  "$VENV/bin/agentforge" fix --repo "$1" --issue "@$2" --workflow search --output "$1.diff"
  say "repaired in $((SECONDS - started)) s; this is the patch, also in $1.diff"
  cat "$1.diff"
}

rm -rf "$WORK/intervals" "$WORK/boltons"
mkdir -p "$WORK"

say "1 of 2: the bundled example, examples/intervals"
cp -r examples/intervals "$WORK/intervals"
as_repository "$WORK/intervals"
repair "$WORK/intervals" examples/intervals/ISSUE.md

say "2 of 2: boltons 25.0.0, a real bug that 26.0.0 fixed"
archive=$("$VENV/bin/python" scripts/fetch_sdist.py boltons "$BOLTONS_FILE" "$BOLTONS_SHA256" "$WORK/sdist")
mkdir "$WORK/boltons"
tar -xzf "$archive" -C "$WORK/boltons" --strip-components 1
as_repository "$WORK/boltons"
repair "$WORK/boltons" examples/boltons/ISSUE.md

say "the demo keeps its records apart; to look at them:"
say "  AGENTFORGE_DATA_HOME=$WORK/data $VENV/bin/agentforge runs show last"
