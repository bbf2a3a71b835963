# Sourced by test.sh: what the tests need from the machine. Each function says what it found, and installs
# what is missing, where there is apt-get and a way to be root.

say() { printf '%s: %s\n' "$(basename "$0")" "$*"; }
die() { say "$*" >&2; exit 1; }

can_install() { command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }; }

# install PACKAGE...
updated=0
install() {
  can_install || die "cannot install packages here; install $* (or what your system calls it) and start again"
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  if [ $updated = 0 ]; then "${sudo[@]}" apt-get -qq update; updated=1; fi
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# try_install LABEL PACKAGE... is for what only a part of the tests needs. If it cannot be had, those tests
# say so when they are skipped, and with CI=true they fail.
try_install() {
  local label=$1
  shift
  if can_install; then
    say "$label: not found; installing $*"
    install "$@" || say "$label: cannot be installed; its tests will say so"
  else
    say "$label: not found, and no way to install it; its tests will say so"
  fi
}

# stop_service LABEL SERVICE: Debian starts what it installs.
stop_service() {
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  if [ -d /run/systemd/system ]; then
    "${sudo[@]}" systemctl disable --quiet --now "$2" && say "$1: stopped the service that came with it"
  elif "${sudo[@]}" service "$2" stop >/dev/null 2>&1; then
    say "$1: stopped the service that came with it"
  fi
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

# The tests start and kill servers of their own from this binary. They do not touch one that runs already.
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
  local program=${HOLDFAST_REDIS_SERVER:-$(command -v redis-server || command -v valkey-server)} version
  version=$("$program" --version 2>&1) && [[ $version == *server*v=* ]] ||
    die "$program is no redis-server or valkey-server: to --version it says '${version%%$'\n'*}'"
  echo "$version"
}

# For the guard of databases.
database() {
  local programs=(/usr/lib/postgresql/*/bin/initdb)
  if command -v initdb >/dev/null || [ -x "${programs[-1]}" ]; then
    say "database: $(command -v initdb || echo "${programs[-1]}")"
  else
    try_install database postgresql
    stop_service database postgresql
  fi
}

# For fleets of Go and Java. Maven downloads Redisson the first time.
jdk() {
  if command -v javac >/dev/null && command -v mvn >/dev/null; then
    say "Java: $(javac -version 2>&1), $(mvn --version 2>/dev/null | sed -n '1s/\x1b\[[0-9;]*m//gp')"
  else
    try_install Java openjdk-17-jdk-headless maven
  fi
}

# For the page of locks.
browser() {
  local program
  if program=$(command -v chromium-headless-shell || command -v chromium); then
    say "browser: $program, found on the PATH"
  else
    try_install browser chromium-headless-shell || try_install browser chromium
  fi
}

# Containers come on top: faults such as a stopped or killed process are tested on plain processes in any case.
containers() {
  unset HOLDFAST_DOCKER
  if ! command -v docker >/dev/null || ! docker info >/dev/null 2>&1; then
    say "containers: no Docker engine answers; plain processes only"
  elif docker image inspect redis:8 >/dev/null 2>&1 || timeout 120 docker pull --quiet redis:8 >/dev/null 2>&1; then
    say "containers: a Docker engine with the image redis:8; the tests of single servers use it, too"
    export HOLDFAST_DOCKER=1
  else
    say "containers: a Docker engine, but no image redis:8 and no way to pull it; plain processes only"
  fi
}

# all_servers DIR has the tests run on each DIR/bin/*-server, too.
all_servers() {
  local bin
  for bin in "$1"/bin/*-server; do
    [ -x "$bin" ] || die "no servers in $1/bin"
    say "server: $("$bin" --version | cut -d' ' -f1-3), one of all"
  done
  export HOLDFAST_SERVERS=$1
}
