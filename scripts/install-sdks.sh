#!/usr/bin/env bash
# Installs the official SDKs of OpenAI (Python, Node) and Anthropic (Python) into the cache, once, and prints two paths: the
# Python that has the ones, and the folder whose node_modules has the other.
set -euo pipefail
openai_python=3.51.0
anthropic_python=2.14.0
openai_node=7.55.0
dir="${FAIRLEAD_CACHE:-$HOME/.cache/fairlead}/sdks-openai-$openai_python-$openai_node-anthropic-$anthropic_python"
if [[ ! -e "$dir/complete" ]]; then
    rm -rf "$dir"
    mkdir -p "$dir"
    python3 -m venv "$dir/venv" >&2
    "$dir/venv/bin/pip" install --quiet --disable-pip-version-check "openai==$openai_python" "anthropic==$anthropic_python" >&2
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir" "openai@$openai_node" >&2
    touch "$dir/complete"
fi
echo "$dir/venv/bin/python"
echo "$dir"
