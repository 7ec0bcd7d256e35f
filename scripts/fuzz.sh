#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, and fails at the first finding. The four that read what
# strangers send (request bodies, event streams, configurations, metrics pages) run for the given time (default 20s), the
# others for a quarter of it.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
long="pkg/openai:FuzzScan pkg/openai:FuzzSSE pkg/config:FuzzConfig pkg/pool/telemetry:FuzzPage"
seconds=${time%s}
count=0
for target in $long; do
  grep -rq "^func ${target#*:}(" --include='*_test.go' "${target%:*}" || { echo "fuzz target $target is gone"; exit 1; }
done
while IFS=: read -r file target; do
  package=$(dirname "$file")
  span=$time
  case " $long " in
    *" $package:$target "*) ;;
    *) span=$(((seconds + 3) / 4))s ;;
  esac
  echo "fuzz $target in $package for $span"
  # Minimising an interesting input may take most of the time otherwise.
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$span" -fuzzminimizetime 1s "./$package"
  count=$((count + 1))
done < <(grep -rEo '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' pkg simulator benchmarks | sed -E 's/func //' | sort)
echo "edit 1,000,000 bodies and read them back"
FAIRLEAD_LONG=1000000 go test -count=1 -run '^TestEditedBodies$' ./pkg/openai
[ "$count" -gt 0 ] || { echo "no fuzz target found"; exit 1; }
echo "$count fuzz targets, no finding"
