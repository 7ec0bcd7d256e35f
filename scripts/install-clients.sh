#!/usr/bin/env bash
# Installs the load clients of `make clients` (2 GiB) into the cache, once, and prints the folder: AIPerf, inference-perf (which
# needs Python 3.12 or newer), and a tokenizer that both count with, trained here on a little text, since no hub is asked.
set -euo pipefail
dir="${FAIRLEAD_CACHE:-$HOME/.cache/fairlead}/clients-aiperf-0.13.0-inference-perf-0.7.0"
mkdir -p "$dir"
new=""
for python in python3.12 python3.13 "$HOME"/.pyenv/versions/3.1[2-9].*/bin/python3 python3; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
        new=$python
        break
    fi
done
install() { # install NAME PYTHON PACKAGE
    [[ -e "$dir/$1/complete" ]] && return
    rm -rf "${dir:?}/$1"
    "$2" -m venv "$dir/$1" >&2
    "$dir/$1/bin/pip" install --quiet --disable-pip-version-check "$3" >&2
    touch "$dir/$1/complete"
}
install aiperf python3 aiperf==0.13.0
if [[ -n "$new" ]]; then
    install inference-perf "$new" inference-perf==0.7.0
else
    echo "clients: no Python of 3.12 or newer; inference-perf is left out" >&2
fi
[[ -e "$dir/tokenizer/complete" ]] || "$dir/aiperf/bin/python" "$(dirname "$0")/tokenizer.py" "$dir/tokenizer" >&2
echo "$dir"
