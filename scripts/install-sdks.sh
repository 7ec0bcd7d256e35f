#!/usr/bin/env bash
# Installs the official OpenAI SDKs for Python and Node into the cache, once, and prints two paths: the Python that has the
# one, and the folder whose node_modules has the other.
set -euo pipefail
python_version=3.51.0
node_version=7.55.0
dir="${FAIRLEAD_CACHE:-$HOME/.cache/fairlead}/openai-python-$python_version-node-$node_version"
if [[ ! -e "$dir/complete" ]]; then
    rm -rf "$dir"
    mkdir -p "$dir"
    python3 -m venv "$dir/venv" >&2
    "$dir/venv/bin/pip" install --quiet --disable-pip-version-check "openai==$python_version" >&2
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir" "openai@$node_version" >&2
    touch "$dir/complete"
fi
echo "$dir/venv/bin/python"
echo "$dir"
