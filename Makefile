# The tools are pinned here and installed into ./bin on first use; `make test` also
# installs the programs that .ci/prepare lists.

GOFUMPT_VERSION       := v0.12.0
GOLANGCI_LINT_VERSION := v2.15.0
GOTESTSUM_VERSION     := v1.13.0
GOVULNCHECK_VERSION   := v1.9.0

GO            ?= go
BIN           := $(CURDIR)/bin
GOFUMPT       := $(BIN)/gofumpt-$(GOFUMPT_VERSION)
GOLANGCI_LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
GOTESTSUM     := $(BIN)/gotestsum-$(GOTESTSUM_VERSION)
GOVULNCHECK   := $(BIN)/govulncheck-$(GOVULNCHECK_VERSION)
FUZZTIME      ?= 20s
SOAK          ?= 10m
VULNDB        ?= https://vuln.go.dev
ROUNDS        ?= 5

# The packages of all modules of go.work: the program, its benchmarks and its black-box
# tests.
ALL           := ./... ./bench/... ./conformance/...

# SQLite is C translated to Go and manages its own memory, where the race detector finds
# nothing but takes four fifths of the CPU time of a test with a store. The program and
# the driver stay instrumented. The flags are in GOFLAGS, so that programs built by tests
# get them, too.
NOT_RACED     := -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false

RACED         = GOFLAGS="$$($(GO) env GOFLAGS) $(NOT_RACED)"

# Tests of whole gateways, browsers and databases share a machine and its clock. Up to 8
# failed tests (subtests included) are run again, alone; those that pass only then are
# listed at the end. Nothing is run again after a data race.
RERUN         := --rerun-fails=1 --rerun-fails-max-failures=8 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race

.DEFAULT_GOAL := help

.PHONY: help
help: ## List these targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-15s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run a demo gateway with a built-in upstream
	$(GO) run ./cmd/sallyport demo

.PHONY: build
build: ## Build bin/sallyport
	GOWORK=off $(GO) build -trimpath -o $(BIN)/sallyport ./cmd/sallyport

.PHONY: test
test: prepare lint $(GOTESTSUM) ## Install what the tests need, lint, and run all tests with the race detector
	@rm -f $(BIN)/once-more.txt
	$(RACED) $(GO) build -race -o $(BIN)/sallyport-race ./cmd/sallyport
	$(RACED) SALLYPORT_BINARY=$(BIN)/sallyport-race .ci/own-tmp $(GOTESTSUM) --format pkgname-and-test-fails --format-hide-empty-pkg \
	  $(RERUN) --rerun-fails-report $(BIN)/once-more.txt --packages "$(ALL)" -- -race -timeout 40m
	@if [ -s $(BIN)/once-more.txt ]; then echo "passed only when run again; find out why:"; cat $(BIN)/once-more.txt; fi

.PHONY: quick
quick: ## Run only tests that need no other programs, without the race detector
	$(GO) test -short $(ALL)

.PHONY: prepare
prepare: ## Install what the tests need besides Go (a C compiler, Node.js, PostgreSQL, Redis, systemd-analyze, Chromium)
	@.ci/prepare

.PHONY: lint
lint: $(GOFUMPT) $(GOLANGCI_LINT) ## Check formatting, go vet, the import rule and the linters
	@bad=$$($(GOFUMPT) -l .); \
	if [ -n "$$bad" ]; then echo "not formatted; run make format:"; echo "$$bad"; exit 1; fi
	$(GO) vet $(ALL)
	$(GO) vet -tags soak ./conformance
	$(GO) test -count 1 -run '^TestImport' ./conformance
	$(GOLANGCI_LINT) run $(ALL)

.PHONY: format
format: $(GOFUMPT) ## Format the Go files
	$(GOFUMPT) -w .

.PHONY: tidy
tidy: ## Update go.mod and go.sum of the three modules
	@for dir in . bench conformance; do (cd $$dir && GOWORK=off $(GO) mod tidy) || exit 1; done

.PHONY: licences
licences: ## List the licence of each module; fail if one requires more than attribution (part of make test)
	$(GO) test -count 1 -v -run '^TestLicences' ./conformance

# Not part of make test: it takes a minute, and its result depends on the day.
.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Look for known vulnerabilities in called code; needs their database (VULNDB)
	@status=0; said=$$(GOWORK=off $(GOVULNCHECK) -db $(VULNDB) ./cmd/... 2>&1) || status=$$?; printf '%s\n' "$$said"; \
	case "$$status $$said" in 1*"fetching vulnerabilities"*) \
	  echo "vulncheck: nothing was checked: the vulnerability database cannot be reached: $(VULNDB)" >&2; exit 0;; esac; \
	exit $$status

.PHONY: bench
bench: ## Compare calls through the gateway with direct calls and a thin proxy (ROUNDS=5)
	$(GO) run ./bench -rounds $(ROUNDS) -json bench.json $(FLAGS)

.PHONY: bench-check
bench-check: bench ## Run the benchmark, and fail if a ratio is more than 15 % worse than bench/baseline.json, beyond its noise
	$(GO) run ./bench check -baseline bench/baseline.json -report bench.json

.PHONY: bench-webhooks
bench-webhooks: ## Send a thousand signed webhooks a second for 30 s (FLAGS="-rate 500 -setups sqlite")
	@mkdir -p $(BIN)
	$(GO) run ./bench webhooks -json $(BIN)/bench-webhooks.json $(FLAGS)

.PHONY: bench-instances
bench-instances: ## Time approvals across instances, with ten thousand pending calls (FLAGS="-held-sessions 100")
	@mkdir -p $(BIN)
	$(GO) run ./bench instances -json $(BIN)/bench-instances.json $(FLAGS)

.PHONY: bench-growth
bench-growth: ## Compare the store's hot queries at 2,000,000 and at 20,000 rows (FLAGS="-large 200000")
	@mkdir -p $(BIN)
	$(GO) run ./bench/growth -json $(BIN)/bench-growth.json $(FLAGS)

.PHONY: bench-rows
bench-rows: ## Compare what writing one ended call costs in several shapes of the row (FLAGS="-databases sqlite")
	$(GO) run ./bench/rows $(FLAGS)

.PHONY: count
count: ## Print lines, exported names and interfaces of each package of the program, without tests
	@$(GO) run ./bench/count

.PHONY: soak
soak: ## Run two gateways for SOAK (10m) with restarts around them: no leak, nothing lost, doubled or stuck
	SOAK=$(SOAK) $(GO) test -count 1 -v -tags soak -run '^TestSoak$$' -timeout 2h ./conformance

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (20s)
	@set -e; for dir in $$(grep -rl --exclude-dir=node_modules --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
	  for name in $$(grep -h -o '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -c6-); do \
	    echo "$$dir $$name"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$dir; \
	  done; done

.PHONY: clean
clean: ## Remove build results and installed tools
	rm -rf $(BIN) conformance/node_modules artifacts bench.json

$(GOFUMPT):
	@echo "installing gofumpt $(GOFUMPT_VERSION) into ./bin"
	@GOBIN=$(BIN) GOFLAGS= $(GO) install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)
	@mv $(BIN)/gofumpt $@

$(GOTESTSUM):
	@echo "installing gotestsum $(GOTESTSUM_VERSION) into ./bin"
	@GOBIN=$(BIN) GOFLAGS= $(GO) install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
	@mv $(BIN)/gotestsum $@

$(GOVULNCHECK):
	@echo "installing govulncheck $(GOVULNCHECK_VERSION) into ./bin"
	@GOBIN=$(BIN) GOFLAGS= $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv $(BIN)/govulncheck $@

$(GOLANGCI_LINT):
	@echo "installing golangci-lint $(GOLANGCI_LINT_VERSION) into ./bin (a minute or two, once)"
	@GOBIN=$(BIN) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(BIN)/golangci-lint $@
