#!/usr/bin/env bash
# Sets up everything `make demo` and `make test` need: the virtual environment with the package,
# a container engine that answers, and the sandbox base image. Safe to run again: what is there and
# unchanged is kept, so that a second run takes seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=${VENV:-.venv}
STAMP=$VENV/.agentforge-setup
ENGINE_LOG=${ENGINE_LOG:-/var/log/agentforge-dockerd.log}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 3; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "Python 3.11 or newer is needed and was not found; install it, or name it: PYTHON=/path/to/python make demo"
}

python_environment() {
  local python want
  if [ ! -x "$VENV/bin/python" ]; then
    python=$(find_python)
    say "creating $VENV with $("$python" --version)"
    "$python" -m venv "$VENV" || die "python -m venv failed; on Debian or Ubuntu: apt-get install python3-venv"
  fi
  want=$(cat pyproject.toml requirements.lock scripts/setup.sh 2>/dev/null | sha256sum | cut -d' ' -f1)
  if [ "$(cat "$STAMP" 2>/dev/null || true)" = "$want" ] && "$VENV/bin/python" -c 'import agentforge' 2>/dev/null; then
    return
  fi
  say "installing the package and its development tools (a few minutes the first time)"
  local constraints=()
  # The lock was made with Python 3.11; elsewhere the ranges of pyproject.toml decide.
  if [ -f requirements.lock ] && "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    constraints=(-c requirements.lock)
  fi
  "$VENV/bin/python" -m pip install --quiet "${constraints[@]}" -e '.[dev]' ||
    die "pip could not install the package; its message above says why (no network? a proxy?)"
  printf '%s' "$want" >"$STAMP"
}

engine_answers() {
  "$VENV/bin/python" -c 'import docker; docker.from_env(timeout=10).ping()' >/dev/null 2>&1
}

install_engine() {
  command -v apt-get >/dev/null 2>&1 ||
    die "no container engine answers, and this is not a Debian-like system: install Docker and start it"
  say "installing the distribution's container engine"
  apt-get update -qq >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io iptables debootstrap >/dev/null
}

wait_for_engine() {
  local attempt
  for attempt in $(seq 1 60); do
    if engine_answers; then return 0; fi
    sleep 0.5
  done
  return 1
}

container_engine() {
  if engine_answers; then return; fi
  if [ -n "${DOCKER_HOST:-}" ]; then
    die "the engine at DOCKER_HOST=$DOCKER_HOST does not answer; start it, or unset DOCKER_HOST"
  fi
  if [ "$(id -u)" != 0 ]; then
    die "no container engine answers. Start Docker (sudo systemctl start docker), add yourself to its group" \
      "(sudo usermod -aG docker $(id -un), then log in again), or run scripts/setup.sh once as root"
  fi
  command -v dockerd >/dev/null 2>&1 || install_engine
  if [ -d /run/systemd/system ]; then
    systemctl start docker || true
  else
    say "starting dockerd (log: $ENGINE_LOG)"
    # A session of its own: the engine outlives this script and the terminal it ran in.
    setsid -f dockerd >>"$ENGINE_LOG" 2>&1 </dev/null
  fi
  wait_for_engine || die "dockerd did not come up; the end of $ENGINE_LOG says why: $(tail -n 3 "$ENGINE_LOG" 2>/dev/null)"
}

install_debootstrap() {
  # Only used where no image registry answers; small, and installed before it is missed.
  if [ "$(id -u)" != 0 ] || command -v debootstrap >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    return 0
  fi
  say "installing debootstrap, in case no image registry answers"
  apt-get update -qq >/dev/null 2>&1 || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null 2>&1 || true
}

base_image() {
  if "$VENV/bin/python" -m agentforge.cli.main sandbox build --check >/dev/null 2>&1; then return; fi
  install_debootstrap
  "$VENV/bin/python" -m agentforge.cli.main sandbox build
}

web_client() {
  # Everything but the page itself works without it; the script says what to do.
  scripts/web.sh build || say "going on without the web client"
}

python_environment
container_engine
base_image
web_client
