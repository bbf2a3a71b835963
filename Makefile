# Short names for what is done often. Everything here can be done without make; scripts/test.sh says more.

.PHONY: test lint chaos

# Every test of every module, with the race detector.
test:
	./scripts/test.sh

# The same, and formatting and linters. A change must also pass longer runs: ./scripts/test.sh --long --lint
lint:
	./scripts/test.sh --lint

# Random faults against many client processes; see integration_test/chaos.
#   make chaos                            a minute with a seed of its own, which is printed
#   make chaos SEED=7 DURATION=10m        as long as that; the same seed makes similar runs
#   make chaos HOLDFAST_SERVERS=dir       on each of dir/bin/*-server
SEED ?=
DURATION ?= 60s
chaos:
	cd integration_test && HOLDFAST_SEED=$(SEED) HOLDFAST_DURATION=$(DURATION) HOLDFAST_SERVERS=$(HOLDFAST_SERVERS) \
		go test -race -count=1 -timeout 0 -v -run 'TestChaos$$' ./chaos
