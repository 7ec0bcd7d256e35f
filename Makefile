# Fairlead. `make` alone lists what there is.

GO         ?= go
BIN        := bin/fairlead
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS    := -s -w -X github.com/fairlead/fairlead/pkg/cli.version=$(VERSION)
CACHE      := $(or $(FAIRLEAD_CACHE),$(HOME)/.cache/fairlead)
LINT       := $(CACHE)/golangci-lint-v2.15.0/golangci-lint
FUZZ_TIME  ?= 20s
export CGO_ENABLED ?= 0

.PHONY: help build demo test race check lint generate bench budgets matrix gate acceptance tune tune-check peers clients e2e storm fuzz tools clean

help: ## list the targets
	@grep -E '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/fairlead
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/fairlead

demo: build ## four simulated pods, multi-turn traffic, round-robin against Fairlead; no root, about 90 s
	@$(BIN) demo

test: ## the tests of all packages; Go alone is needed
	$(GO) build ./...
	$(GO) vet ./...
	$(GO) test ./...

race: ## the same under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short ./...

check: lint generate test ## what a change must pass: lint, generated files up to date, tests
	@git diff --exit-code -- docs/reference docs/compatibility.md pkg/catalog/descriptions.go && test -z "$$(git status --porcelain -- docs/reference)" || { echo "what is generated is stale: commit what 'make generate' made"; exit 1; }

lint: $(LINT) ## golangci-lint and gofmt
	@test -z "$$(gofmt -l cmd pkg simulator benchmarks internal)" || { gofmt -l cmd pkg simulator benchmarks internal; echo "not gofmt'ed"; exit 1; }
	$(LINT) run ./...

generate: ## print docs/reference, docs/compatibility.md and the descriptions of plugins from the code
	$(GO) run ./internal/describe
	$(GO) run ./cmd/fairlead docs docs/reference
	$(GO) test -count=1 ./internal/compatibility -update >/dev/null

bench: ## the Go benchmarks, with allocations
	$(GO) test -run '^$$' -bench . -benchmem ./pkg/... ./simulator/...

budgets: build ## measure the budgets of docs/design and print name, figure, budget, verdict
	@$(GO) run ./benchmarks/budgets -binary $(BIN)

peers: build ## Fairlead beside other routers in one run: CPU, rate, memory, first byte (installs them; ten minutes; not in CI)
	@envoy=$$(scripts/install-envoy.sh) && peers=$$(scripts/install-peers.sh) && \
	$(GO) build -o bin/peers ./benchmarks/peers && bin/peers -binary $(BIN) -envoy "$$envoy" -peers "$$peers" $(PEERS)

clients: build ## AIPerf and inference-perf, unmodified, against the gateway (installs 2 GiB; two minutes; not in CI)
	@scripts/clients.sh $(BIN)

matrix: build ## the default beside the rules of other routers, recorded with its table (SEEDS=3; MATRIX='default --with FILE' keeps the others)
	$(BIN) bench matrix $(MATRIX) --seeds $(or $(SEEDS),3) -o benchmarks/results/matrix.json
	$(GO) test -count=1 -run TestTheRecordedMatrix ./benchmarks/report -update

gate: build ## comparisons of policies on simulated fleets that must come out as recorded
	@$(BIN) bench gate benchmarks/gate.yaml

acceptance: ## the claims of docs/scheduling.md in virtual time, a line each (RUN=TestX for one, UPDATE=1 records what comes out)
	@cd benchmarks/acceptance && $(GO) test -tags acceptance -count=1 -timeout 20m -run '$(or $(RUN),.)'

tune: build ## search the best of 210 configurations for each workload that ships, and record them (an hour on two cores; not in CI)
	nice $(BIN) bench tune --candidates 210 -s 's*,h*,c-*,mig-two-slots-unified,p-gke*,p-moon*' --record benchmarks/tuning/results --commit $(VERSION)

tune-check: ## the default against the recorded winners, with SEEDS=40, published traces too (not in CI; `make acceptance` does it with 8)
	@cd benchmarks/acceptance && FAIRLEAD_TRACES=$${FAIRLEAD_TRACES:-$(CURDIR)/../shared/traces} SEEDS=$(or $(SEEDS),40) $(GO) test -tags acceptance -count=1 -timeout 60m -run TestUntuned

e2e: build ## a real Envoy, the OpenAI SDKs, kills and storms (installs Envoy and SDKs into ~/.cache/fairlead)
	scripts/install-envoy.sh
	scripts/install-sdks.sh
	FAIRLEAD_BINARY=$(CURDIR)/$(BIN) $(GO) test -tags e2e -count=1 -v -timeout 15m ./internal/e2e/...

storm: build ## ten minutes (STORM_TIME) of aborts, resets, nonsense, reloads and churn, through Envoy and the proxy; nothing may be left
	scripts/install-envoy.sh
	FAIRLEAD_BINARY=$(CURDIR)/$(BIN) $(GO) test -tags 'e2e storm' -count=1 -v -timeout 60m -run TestLongStorm ./internal/e2e

fuzz: ## every fuzz target, each for FUZZ_TIME=20s
	scripts/fuzz.sh $(FUZZ_TIME)

tools: $(LINT) ## install the developer tools into ~/.cache/fairlead

$(LINT):
	@mkdir -p $(dir $@)
	GOBIN=$(dir $@) GOFLAGS=-buildvcs=false $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

clean: ## remove what was built
	rm -rf bin
