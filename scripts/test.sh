#!/usr/bin/env bash
# Runs the tests of all modules, with the race detector, against a real server. On a Debian or Ubuntu machine with Go and
# git it installs what else it needs; it says what it chose and why.
#
#   scripts/test.sh [--long] [--lint] [--all-servers DIR] | --floor [--long]
#
#   --long             models, simulation, storms and controls in full, as .ci/run has them. Without it they are short
#                      (go test -short): fewer simulated hours, smaller models, and only some runs without a defence
#   --lint             also check the formatting and run golangci-lint, which is built into bin/ the first time
#   --floor            test the library alone, with the oldest versions of go-redis and x/sync that its go.mod allows: those
#                      packages that talk to servers most, or with --long all. Without it go.work gives everything the newest
#   --all-servers DIR  test with all the servers in DIR/bin/*-server, of every version that is supported, instead of with one
#
# Exit code 0 only if everything passed. Skipped tests are listed; with CI=true they are failures.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

short=(-short) lint=0 servers='' floor=0
while [ $# -gt 0 ]; do
  case $1 in
    --long) short=() ;;
    --lint) lint=1 ;;
    --floor) floor=1 ;;
    --all-servers) servers=$(realpath -m "${2:?--all-servers needs a directory}"); shift ;;
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown option $1; see --help" >&2; exit 2 ;;
  esac
  shift
done

say() { printf 'test.sh: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

# install PACKAGE... with apt, as root or by sudo.
updated=0
install() {
  command -v apt-get >/dev/null || die "no apt-get here; install $* (or what your system calls it) and start again"
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo; as root: apt-get install $*"
    sudo=(sudo)
  fi
  if [ $updated = 0 ]; then "${sudo[@]}" apt-get -qq update; updated=1; fi
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# The race detector needs cgo, and cgo a compiler.
compiler() {
  local cc
  cc=$(go env CC)
  if command -v "$cc" >/dev/null; then
    say "C compiler for the race detector: $cc"
  else
    say "C compiler for the race detector: none ($cc); installing gcc and libc6-dev"
    install gcc libc6-dev
  fi
  export CGO_ENABLED=1
}

# The tests start and kill servers of their own from this binary; one that runs already is not touched.
server() {
  if [ -n "${HOLDFAST_REDIS_SERVER:-}" ]; then
    say "server: $HOLDFAST_REDIS_SERVER, because HOLDFAST_REDIS_SERVER says so"
  elif command -v redis-server >/dev/null; then
    say "server: $(command -v redis-server), found on the PATH"
  elif command -v valkey-server >/dev/null; then
    say "server: $(command -v valkey-server), found on the PATH"
  else
    say "server: none on the PATH; installing redis-server"
    install redis-server
    stop_service server redis-server
  fi
  "${HOLDFAST_REDIS_SERVER:-$(command -v redis-server || command -v valkey-server)}" --version
}

# stop_service LABEL SERVICE: Debian starts what it installs. Nobody asked for that.
stop_service() {
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  if [ -d /run/systemd/system ]; then
    "${sudo[@]}" systemctl disable --quiet --now "$2" && say "$1: stopped the service that came with it"
  elif "${sudo[@]}" service "$2" stop >/dev/null 2>&1; then
    say "$1: stopped the service that came with it"
  fi
}

# The guard for databases is tested on a PostgreSQL that the tests start. It is no part of what most people change, so a machine that
# cannot have one is no reason to stop: those tests say that they were skipped, and fail in CI.
database() {
  local programs=(/usr/lib/postgresql/*/bin/initdb)
  if command -v initdb >/dev/null; then
    say "database: $(command -v initdb), found on the PATH"
  elif [ -x "${programs[-1]}" ]; then
    say "database: ${programs[-1]}"
  elif command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }; then
    say "database: no PostgreSQL here; installing postgresql"
    if install postgresql; then
      stop_service database postgresql
    else
      say "database: PostgreSQL cannot be installed; its tests will say so"
    fi
  else
    say "database: no PostgreSQL here, and no way to install one; its tests will say so"
  fi
}

# The tests of fleets of Go and Java build a worker with Maven, which downloads Redisson the first time. As with the database, a
# machine that cannot have them is no reason to stop.
jdk() {
  if command -v javac >/dev/null && command -v mvn >/dev/null; then
    say "Java: $(javac -version 2>&1), $(mvn --version 2>/dev/null | sed -n '1s/\x1b\[[0-9;]*m//gp')"
  elif command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }; then
    say "Java: no JDK or no Maven here; installing openjdk-17-jdk-headless and maven"
    install openjdk-17-jdk-headless maven || say "Java: they cannot be installed; the tests with Redisson will say so"
  else
    say "Java: no JDK or no Maven here, and no way to install them; the tests with Redisson will say so"
  fi
}

# The page of locks is looked at in a real browser. As with the database, a machine that cannot have one is no reason to stop.
browser() {
  local program
  if program=$(command -v chromium-headless-shell || command -v chromium); then
    say "browser: $program, found on the PATH"
  elif command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }; then
    say "browser: none on the PATH; installing chromium-headless-shell"
    install chromium-headless-shell || install chromium || say "browser: it cannot be installed; the tests of the page will say so"
  else
    say "browser: none on the PATH, and no way to install one; the tests of the page will say so"
  fi
}

# Containers come on top: faults such as a stopped or killed process are tested on plain processes in any case.
containers() {
  unset HOLDFAST_DOCKER
  if ! command -v docker >/dev/null || ! docker info >/dev/null 2>&1; then
    say "containers: no Docker engine answers; plain processes only"
  elif docker image inspect redis:8 >/dev/null 2>&1 || timeout 120 docker pull --quiet redis:8 >/dev/null 2>&1; then
    say "containers: a Docker engine with the image redis:8; integration_test may use it (HOLDFAST_DOCKER=1)"
    export HOLDFAST_DOCKER=1
  else
    say "containers: a Docker engine, but no image redis:8 and no way to pull it; plain processes only"
  fi
}

# Controls show that a fault does harm where the library has no defence. The library itself cannot do without: the tests are
# built of copies of its files that can.
overlay() {
  overlay=$(go run ./internal/testkit/overlay) || die "a defence has changed, and its row in internal/testkit/overlay has not"
  say "switches for controls: $overlay"
}

results=$(mktemp)
trap 'rm -f "$results"' EXIT
failed=0
fail() { say "FAILED: $*"; failed=1; }

# took SECONDS, in minutes.
took() { printf '%d:%02d min' $(($1 / 60)) $(($1 % 60)); }

# tests runs all packages of all modules, those that take longest first, in one call: packages that wait for leases to end, and for
# servers, leave room for others. In the short run more packages than there are cores share the machine. (Rejected for the long run:
# its chaos and simulation fill the machine by themselves.)
tests() {
  local patterns=(./integration_test/... ./redlock ./rlock ./cmd/holdfast) together=() dir
  [ ${#short[@]} = 0 ] || together=(-p $((2 * $(nproc))))
  for dir in "${modules[@]}"; do
    [ "$(name "$dir")" = integration_test ] || patterns+=(".${dir#"$root"}/...")
  done
  say "go test -race, of all modules"
  # The race detector looks at all code but the models'. They are computations of one goroutine, as arch_test.go checks, on
  # millions of states, and take four times as long under it.
  go test -race -gcflags='github.com/holdfast-go/holdfast/internal/testkit/model/...=-race=false' -count=1 -timeout 45m "${together[@]}" -overlay "$overlay" -json "${short[@]}" "${patterns[@]}" 2>&1 |
    go run scripts/testsum.go "$results" || fail "tests"
}

# on_floor tests what a user has whose other modules ask for nothing newer than the root's go.mod: without go.work the go command
# takes just these versions.
on_floor() {
  local packages=(. ./pubsub ./internal/remote ./internal/engine ./rlock)
  [ ${#short[@]} = 1 ] || mapfile -t packages < <(go list ./... | grep -v /internal/testkit/model)
  export GOWORK=off
  say "floor: $(go list -m github.com/redis/go-redis/v9), $(go list -m golang.org/x/sync), go $(go list -m -f '{{.GoVersion}}')"
  go test -count=1 -timeout 20m -overlay "$overlay" -json "${short[@]}" "${packages[@]}" 2>&1 |
    go run scripts/testsum.go "$results" || fail "tests on the floor"
}

linter=golangci-lint linter_version=2.15.0
lints() {
  local unformatted
  unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0r gofmt -l)
  [ -z "$unformatted" ] || fail "gofmt would change: $unformatted"
  if [ "$(bin/$linter version --short 2>/dev/null)" != $linter_version ]; then
    say "building $linter $linter_version into bin/ (about a minute, once)"
    GOBIN=$root/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$linter_version
  fi
  scripts/workflows.sh || fail "workflows"
  local dir
  for dir in "${modules[@]}"; do
    say "$(name "$dir"): $linter"
    (cd "$dir" && "$root/bin/$linter" run ./...) || fail "$(name "$dir"): $linter"
  done
}

name() { [ "$1" = "$root" ] && echo holdfast || echo "${1#"$root"/}"; }

command -v go >/dev/null || die "no go on the PATH; install Go 1.26"
say "go: $(go version)"
overlay
[ $floor = 1 ] || compiler
server
if [ $floor = 0 ]; then
  database
  jdk
  browser
  containers
fi
if [ -n "$servers" ]; then
  export HOLDFAST_SERVERS=$servers
  for bin in "$servers"/bin/*-server; do
    [ -x "$bin" ] || die "no servers in $servers/bin"
    say "server: $("$bin" --version | cut -d' ' -f1-3), one of all"
  done
fi
mapfile -t modules < <(go list -m -f '{{.Dir}}')

if [ $floor = 0 ]; then
  for dir in "${modules[@]}"; do
    cd "$dir"
    say "$(name "$dir"): go vet"
    go vet ./... || fail "$(name "$dir"): go vet"
  done
  cd "$root"
fi
from=$SECONDS
if [ $floor = 1 ]; then on_floor; else tests; fi
tested=$((SECONDS - from))
[ $lint = 0 ] || lints

say "what took longest, of packages and tests:"
sed -n 's/^took /  /p' "$results" | sort -rn | head -n 40
if grep '^skip ' "$results" >/dev/null; then
  say "skipped tests:"
  sed -n 's/^skip /  /p' "$results"
  [ "${CI:-}" != true ] || fail "tests were skipped, and CI=true"
fi
if grep '^fail ' "$results" >/dev/null; then
  say "failed tests:"
  sed -n -e 's/^fail /  /p' -e 's/^why /      /p' "$results"
  failed=1
fi
[ $failed = 0 ] && say "all is well" || say "there were failures"
say "the tests took $(took $tested), all of it $(took $SECONDS)"
count() { grep -c "^$1\b" "$results" || true; }
echo "$(count pass) passed, $(count fail) failed, $(count skip) skipped"
exit $failed
