#!/usr/bin/env bash
# Runs the tests of all modules against real servers, with the race detector. On a Debian or Ubuntu machine
# with Go and git it installs what else it needs; it says what it chose and why.
#
#   scripts/test.sh                   quick: what every change runs first. One local server; no database,
#                                     browser or JVM; the models in small bounds, twenty simulated worlds
#   scripts/test.sh --changed [BASE]  the same, of the packages that differ from BASE (default: HEAD, so
#                                     what is not committed), those that import them, and the rules of
#                                     the tree
#   scripts/test.sh --all             everything whose verdict does not depend on chance: also all servers
#                                     and topologies, Redisson, the browser, PostgreSQL, the earlier version,
#                                     the oldest dependencies, the platforms and the linters
#   scripts/test.sh --soak TIME       exploration for as long as that, such as 30m: random seeds, chaos, wide
#                                     models. A line for each finding, with the command that replays it
#
#   --servers DIR   with --all and --soak: also the servers in DIR/bin/*-server, of every supported version
#
# Exit code 0 only if everything passed. Skipped tests are listed; with CI=true they are failures.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. scripts/needs.sh

level=quick base='' duration='' servers=${HOLDFAST_SERVERS:-}
while [ $# -gt 0 ]; do
  case $1 in
    --all) level=all ;;
    --soak) level=soak duration=${2:-} ; [[ $duration == [0-9]* ]] || die "--soak needs a time, such as --soak 30m"; shift ;;
    --changed)
      level=changed base=HEAD
      if [ $# -gt 1 ] && [[ $2 != -* ]]; then base=$2; shift; fi
      ;;
    --servers) [ -n "${2:-}" ] || die "--servers needs a directory"; servers=$(realpath -m "$2"); shift ;;
    -h | --help) sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown option $1; see --help" >&2; exit 2 ;;
  esac
  shift
done

# not_quick are the packages that only --all and --soak build: what they import takes minutes to compile, or they
# need what a newcomer does not have. (In others, single tests belong to --all: they call level.ForAll.)
not_quick='^github.com/holdfast-go/holdfast/('
not_quick+='bench|deploy'                                     # other locks; Prometheus's engine
not_quick+='|integration_test/(chaos|redisson|web|peers|versions)' # storms; a JVM; a browser; other locks; the history of git
not_quick+='|adapters/(river)'                                # PostgreSQL
not_quick+=')(/|$)'

results=$(mktemp)
trap 'rm -f "$results"' EXIT
failed=0
fail() { say "FAILED: $*"; failed=1; }

# Controls show that a fault does harm where the library has no defence. The library itself cannot do without: the
# tests are built of copies of its files that can.
overlay() {
  overlay=$(go run ./internal/testkit/overlay) || die "the switches for controls could not be made; see above"
  say "switches for controls: $overlay"
}

# longest are the packages whose tests take longest. They begin first.
longest='integration_test redlock rlock integration_test/(simulation|redisson|versions|controls) holdfasttest fairlock'

# packages FLAGS... lists the packages of all modules.
packages() {
  local list each
  list=$(go list "$@" "${patterns[@]}") || return 1
  for each in $longest; do
    grep -E "^github.com/holdfast-go/holdfast/$each( |$)" <<<"$list" || true
  done
  grep -vE "^github.com/holdfast-go/holdfast/(${longest// /|})( |$)" <<<"$list"
}

# changed lists the packages in which a file differs from the base, those that import one whose code does, and those that check
# rules of the whole tree. The package of a file is that of the nearest folder above which has one: the root's, for documents, which
# its tests read. What all are built of changes all. What imports a package inside the library that changes counts as changed if it is
# inside too: the tests of such code are mostly those of the kinds, and of the controls.
inside='^github.com/holdfast-go/holdfast/(internal/[a-z]+|lua|pubsub|watchdog)$'
changed() {
  local files
  files=$(git -c core.quotePath=false diff --name-only --no-renames "$base" &&
    git -c core.quotePath=false ls-files --others --exclude-standard) || return 1
  if [ -z "$files" ]; then return; fi
  if grep -qE '^(go\.(mod|sum|work|work\.sum)|internal/testkit/overlay/.*|internal/testkit/level/.*)$' <<<"$files"; then
    packages
    return
  fi
  files+=$(printf '\n%s' arch_test.go internal/testkit/overlay/rows.go internal/testkit/appendix/page_test.go)
  packages -f '{{.ImportPath}} {{.Dir}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' |
    awk -v root="$root" -v files="$files" -v inside="$inside" '
      { path[NR] = $1; at[$2] = $1; line[NR] = $0 }
      END {
        n = split(files, list, "\n")
        for (i = 1; i <= n; i++) {
          dir = root "/" list[i]
          do sub("/[^/]*$", "", dir); while (!(dir in at) && length(dir) > length(root))
          touched[at[dir]] = 1
          if (i <= n - 3 && list[i] !~ /(_test\.go|\.md)$/) code[at[dir]] = 1
        }
        do {
          more = 0
          for (i = 1; i <= NR; i++) {
            k = split(line[i], word, " ")
            for (j = 3; j <= k; j++) if (word[j] in code) {
              touched[path[i]] = 1
              if (path[i] ~ inside && !(path[i] in code)) more = code[path[i]] = 1
            }
          }
        } while (more)
        for (path_of in code) if (path_of ~ inside) touched["github.com/holdfast-go/holdfast/integration_test/controls"] = 1
        for (i = 1; i <= NR; i++) if (path[i] in touched) print path[i]
      }'
}

# choose LIST LEFT_OUT sets chosen to the packages that a function lists, without those of an expression. A tree whose packages
# cannot be listed is not tested as if it had none.
choose() {
  local list
  list=$("$1") || die "the packages could not be listed; see above"
  mapfile -t chosen < <(grep -vE "$2" <<<"$list" | grep .)
}

# tests FLAGS... runs all tests of the chosen packages in one call. Three packages share a core, and in each of them four
# tests that may run beside others, since most tests wait for servers.
tests() {
  # The race detector looks at all code but the models'. They are computations of one goroutine, as arch_test.go
  # checks, on millions of states, and take four times as long under it. Each run links a hundred programs: without
  # what only debuggers read, that takes a fifth less.
  go test -race -ldflags=-w -gcflags='github.com/holdfast-go/holdfast/internal/testkit/model/...=-race=false' -count=1 -timeout 30m \
    -p $((3 * $(nproc))) -parallel $((4 * $(nproc))) -overlay "$overlay" -json "$@" 2>&1 |
    go run scripts/testsum.go "$results" || fail "tests"
}

# beside NAME COMMAND... runs something beside the tests, with what they leave of the machine; joined waits for it.
beside() {
  local name=$1
  shift
  nice -n 19 "$@" >"$results.$name" 2>&1 &
  besides+=("$name:$!")
}
joined() {
  local each
  for each; do
    wait "${each#*:}" || fail "${each%%:*}"
    cat "$results.${each%%:*}"
  done
}
besides=()

# took SECONDS, in minutes.
took() { printf '%d:%02d min' $(($1 / 60)) $(($1 % 60)); }

summary() {
  local name
  count() { grep -c "^$1\b" "$results" || true; }
  say "what took longest, of packages and tests, in seconds:"
  sed -n 's/^took /  /p' "$results" | sort -rn | sed -n '1,25p' # which reads all: sort must not write to nobody
  say "$(count level) tests belong to other levels: --all, --soak"
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
  echo "$(count pass) passed, $(count fail) failed, $(count skip) skipped"
}

command -v go >/dev/null || die "no go on the PATH; install Go 1.26"
say "go: $(go version)"
overlay
compiler
server
mapfile -t modules < <(go list -m -f '{{.Dir}}')
patterns=("${modules[@]/%//...}")

case $level in
  all | soak)
    database
    jdk
    browser
    containers
    if [ -n "$servers" ]; then
      all_servers "$servers"
    else
      say "server: ONLY the local one, since there is no --servers DIR"
    fi
    ;;
esac

case $level in
  soak)
    say "building the tests that explore; the time begins when they are built"
    go build -o bin/soak/soak ./internal/testkit/soak
    rm -f "$results"
    exec bin/soak/soak -overlay "$overlay" "$duration" # so that signals reach it
    ;;
  quick) choose packages "$not_quick" ;;
  changed)
    git rev-parse -q --verify "$base^{commit}" >/dev/null || die "$base is no commit; give a branch or a revision"
    choose changed '^$'
    [ ${#chosen[@]} -gt 0 ] || { say "no file differs from $base"; exit 0; }
    mapfile -t only_all < <(printf '%s\n' "${chosen[@]}" | grep -E "$not_quick")
    [ ${#only_all[@]} = 0 ] || say "NOT tested, since only --all does: ${only_all[*]#github.com/holdfast-go/holdfast/}"
    choose changed "$not_quick"
    say "${#chosen[@]} packages differ from $base, import one that does, or check rules of the tree"
    ;;
  all) choose packages '^$' ;;
esac
[ ${#chosen[@]} -gt 0 ] || die "no package was found"

from=$SECONDS
if [ $level = all ]; then
  say "go test -race of all packages; the linters, the platforms and the oldest dependencies with what that leaves of the machine"
  beside lint scripts/lint.sh
  beside platforms scripts/platforms.sh
  tests "${chosen[@]}"
  tested=$((SECONDS - from))
  joined "${besides[@]}"
  floor=$(scripts/floor.sh) || fail "the oldest dependencies"
  echo "$floor"
else
  say "go test -race -short of ${#chosen[@]} packages"
  tests -short "${chosen[@]}"
  tested=$((SECONDS - from))
fi
summary
exit $failed
