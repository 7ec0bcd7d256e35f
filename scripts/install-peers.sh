#!/usr/bin/env bash
# Installs the peers of `make peers` into the cache, each once, in a Python environment of its own, and prints the folder.
# A peer that the registry refuses is skipped with a line; the comparison says that it is missing.
set -euo pipefail
dir="${FAIRLEAD_CACHE:-$HOME/.cache/fairlead}/peers"
mkdir -p "$dir"
for package in smg==1.13.0 vllm-router==0.1.17 sglang-router==0.3.2; do
    name="${package/==/-}"
    [[ -e "$dir/$name/complete" ]] && continue
    rm -rf "${dir:?}/$name"
    python3 -m venv "$dir/$name" >&2
    if "$dir/$name/bin/pip" install --quiet --disable-pip-version-check "$package" >&2; then
        touch "$dir/$name/complete"
    else
        echo "peers: $package could not be installed" >&2
    fi
done
if ! command -v nginx >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq nginx-light; } >&2 || echo "peers: nginx could not be installed" >&2
fi
echo "$dir"
