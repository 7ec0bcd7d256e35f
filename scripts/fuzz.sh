#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, and fails at the first finding. The four that read what
# strangers send (request bodies, event streams, configurations, metrics pages) run for the given time (default 20s), the
# others for a quarter of it.
#
# A target is ended by an interrupt and not by -fuzztime: when that time is over, Go up to 1.26 may report its own "context
# deadline exceeded" as the target's failure on a busy machine (go.dev/issue/75804). An interrupt ends a target well, and a
# finding before it fails as ever.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
long="pkg/openai:FuzzScan pkg/openai:FuzzSSE pkg/config:FuzzConfig pkg/pool/telemetry:FuzzPage"
seconds=${time%s}
count=0
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
cache=$(go env GOCACHE)/fuzz/$(go list -m)
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
  binary=$binaries/${package//\//-}
  [ -x "$binary" ] || go test -c -fuzz . -o "$binary" "./$package"
  # Minimising an interesting input may take most of the time otherwise.
  (cd "$package" && timeout --foreground --preserve-status -s INT "$span" "$binary" \
    -test.run '^$' -test.fuzz "^$target\$" -test.fuzzcachedir "$cache/$package" -test.fuzzminimizetime 1s)
  count=$((count + 1))
done < <(grep -rEo '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' pkg simulator benchmarks | sed -E 's/func //' | sort)
echo "edit 1,000,000 bodies and read them back"
FAIRLEAD_LONG=1000000 go test -count=1 -run '^TestEditedBodies$' ./pkg/openai
[ "$count" -gt 0 ] || { echo "no fuzz target found"; exit 1; }
echo "$count fuzz targets, no finding"
