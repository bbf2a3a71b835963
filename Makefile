# Short names for what is done often. Everything here can be done without make; scripts/test.sh --help says more.

.PHONY: test all lint soak

# What every change runs first.
test:
	./scripts/test.sh

# What a change must pass.
all:
	./scripts/test.sh --all

# Formatting and linters alone.
lint:
	./scripts/lint.sh

# Random seeds, chaos and wide models, for as long as TIME: make soak TIME=1h
TIME ?= 30m
soak:
	./scripts/test.sh --soak $(TIME)
