#!/usr/bin/env bash
# Runs AIPerf and inference-perf, unmodified, against the embedded gateway in front of four simulated engines, and prints what they
# report. Each must send all its requests and see none fail. About two minutes; not part of the gate.
set -euo pipefail
cd "$(dirname "$0")/.."
fairlead=${1:-bin/fairlead}
clients=$(scripts/install-clients.sh)
out=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$out"' EXIT
port=21800 model=llama-3.1-8b
"$fairlead" sim --engines 4 --port $((port + 1)) --speed 10 >"$out/sim.log" 2>&1 &
"$fairlead" gateway --listen 127.0.0.1:$port --metrics-port $((port + 8)) --grpc-health-port 0 \
    $(for i in 1 2 3 4; do echo --endpoint "http://127.0.0.1:$((port + i))"; done) >"$out/gateway.log" 2>&1 &
for _ in $(seq 100); do
    curl -sf "http://127.0.0.1:$((port + 8))/readyz" >/dev/null && break
    sleep 0.2
done

failed=0
for kind in chat completions; do
    echo "== AIPerf, $kind, streamed"
    "$clients/aiperf/bin/aiperf" profile -m $model -u "http://127.0.0.1:$port" --endpoint-type $kind --streaming --tokenizer "$clients/tokenizer" \
        --concurrency 8 --request-count 200 --synthetic-input-tokens-mean 400 --output-tokens-mean 32 --ui none --artifact-dir "$out/aiperf-$kind" >"$out/aiperf.log" 2>&1 ||
        { tail -20 "$out/aiperf.log"; failed=1; continue; }
    python3 - "$out/aiperf-$kind/profile_export_aiperf.json" <<'P' || failed=1
import json, sys
d = json.load(open(sys.argv[1]))
show = lambda k: {n: round(d[k][n], 1) for n in ("avg", "p50", "p99") if n in d[k]} if d.get(k) else None
errors = sum(e.get("count", 1) for e in d.get("error_summary") or [])
print(f"requests {d['request_count']['avg']:.0f}, errors {errors}, TTFT ms {show('time_to_first_token')}, ITL ms {show('inter_token_latency')}")
sys.exit(errors > 0 or d["request_count"]["avg"] != 200)
P
done

if [[ -e $clients/inference-perf/complete ]]; then
    echo "== inference-perf, completions, streamed"
    cat >"$out/ip.yaml" <<Y
load: {type: poisson, stages: [{rate: 20, duration: 10}], num_workers: 1, worker_max_concurrency: 64}
api: {type: completion, streaming: true}
server: {type: vllm, model_name: $model, base_url: "http://127.0.0.1:$port", ignore_eos: true}
tokenizer: {pretrained_model_name_or_path: $clients/tokenizer}
data: {type: shared_prefix, shared_prefix: {num_groups: 8, num_prompts_per_group: 8, system_prompt_len: 400, question_len: 100, output_len: 32}}
report: {request_lifecycle: {summary: true, per_stage: true, per_request: false}}
storage: {local_storage: {path: $out/ip}}
Y
    if "$clients/inference-perf/bin/inference-perf" -c "$out/ip.yaml" >"$out/ip.log" 2>&1; then
        python3 - "$(find "$out/ip" -name summary_lifecycle_metrics.json | head -1)" <<'P' || failed=1
import json, sys
d = json.load(open(sys.argv[1]))
s, f = d["successes"], d["failures"]
t = s["latency"]["time_to_first_token"]
print(f"successes {s['count']}, failures {f['count']}, TTFT s p50 {t['median']:.3f} p99 {t['p99']:.3f}")
sys.exit(f["count"] > 0 or s["count"] == 0)
P
    else
        tail -20 "$out/ip.log"
        failed=1
    fi
fi
echo "decisions: $(curl -s "http://127.0.0.1:$((port + 8))/metrics" | grep -E '^fairlead_requests_total|^fairlead_decisions_total' | head -5)"
exit $failed
