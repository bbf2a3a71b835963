#!/usr/bin/env bash
# Tests the library with the oldest go-redis and x/sync that its go.mod allows, as a user has it whose other modules ask for
# nothing newer: those packages that talk to servers most. Everything else is tested with the newest, which go.work gives.
set -euo pipefail
cd "$(dirname "$0")/.."

export GOWORK=off # so that the go command takes just these versions
echo "floor.sh: $(go list -m github.com/redis/go-redis/v9), $(go list -m golang.org/x/sync), go $(go list -m -f '{{.GoVersion}}')"
go vet ./...
overlay=$(go run ./internal/testkit/overlay)
go test -short -count=1 -timeout 20m -overlay "$overlay" . ./pubsub ./internal/remote ./internal/engine ./rlock
