#!/usr/bin/env bash
# The web client: `scripts/web.sh` builds agentforge/api/web/dist from its sources when they have changed;
# `scripts/web.sh check` checks its types; `scripts/web.sh browser` installs the system's Chromium for the browser tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

WEB=agentforge/api/web

say() { printf 'web: %s\n' "$*" >&2; }
die() { printf 'web: %s\n' "$*" >&2; exit 3; }

sources_hash() {
  (cd "$WEB" && find src build.mjs package.json package-lock.json -type f -print0 | sort -z | xargs -0 sha256sum) |
    sha256sum | cut -d' ' -f1
}

build() {
  local want
  want=$(sources_hash)
  if [ "$(cat "$WEB/dist/.sources" 2>/dev/null || true)" = "$want" ]; then return; fi
  command -v npm >/dev/null 2>&1 ||
    die "the web client is not built: install Node.js 20 or newer with npm, then run scripts/web.sh"
  if [ ! -d "$WEB/node_modules" ] || [ "$WEB/package-lock.json" -nt "$WEB/node_modules/.package-lock.json" ]; then
    say "installing the packages of the web client"
    (cd "$WEB" && npm ci --ignore-scripts --no-audit --no-fund --silent) ||
      die "npm ci failed in $WEB (no network?); what it said stands above"
  fi
  (cd "$WEB" && npm run --silent build) || die "the web client could not be built; what was said stands above"
  printf '%s' "$want" >"$WEB/dist/.sources"
}

check() {
  command -v npm >/dev/null 2>&1 || die "the types of the web client were not checked: install Node.js 20 or newer"
  (cd "$WEB" && npm run --silent check)
}

browser() {
  if command -v chromium >/dev/null 2>&1; then return; fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    die "the browser tests need Chromium as \`chromium\`; on Debian: sudo apt-get install chromium"
  fi
  say "installing the distribution's Chromium"
  apt-get update -qq >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
}

case "${1:-build}" in
  build) build ;;
  check) check ;;
  browser) browser ;;
  *) die "unknown: $1 (build, check or browser)" ;;
esac
