#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time (default 20s), one after the other; fails at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
count=0
while IFS=: read -r file target; do
  package=./$(dirname "$file")
  echo "fuzz $target in $package for $time"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
  count=$((count + 1))
done < <(grep -rEo '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' pkg simulator benchmarks | sed -E 's/func //' | sort)
[ "$count" -gt 0 ] || { echo "no fuzz target found"; exit 1; }
echo "$count fuzz targets, no finding"
