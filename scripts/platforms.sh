#!/usr/bin/env bash
# Builds, vets and type-checks the tests of all released modules, and of the examples, which people copy, for each system that is
# promised: Linux, macOS and Windows. Nothing runs: that is scripts/test.sh's, on the platform it stands on.
#
#   scripts/platforms.sh [--all] [OS/ARCH...]
#
#   --all  each system on both processors, amd64 and arm64. Without it the other systems than this one, on one processor each: no
#          file here is for one processor alone, so the other differs only in the modules that we import
#
# go vet compiles what the packages need and type-checks all files of theirs, tests included. So go build is left with what vet has
# not compiled: it links the programs. Both keep what they have done, so the second run takes seconds for each platform.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/modules.sh

all=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
if [ "${1:-}" = --all ]; then
  shift
  set -- "${all[@]}" "$@"
fi
if [ $# = 0 ]; then
  for platform in linux/arm64 darwin/arm64 windows/amd64; do
    [ "${platform%/*}" = "$(go env GOHOSTOS)" ] || set -- "$@" "$platform"
  done
fi
for platform; do
  [[ " ${all[*]} " == *" $platform "* ]] || { echo "platforms.sh: $platform is none of ${all[*]}" >&2; exit 2; }
done
only=$(git ls-files -- '*_amd64*.go' '*_arm64*.go'; git grep -lE '^//go:build.*(amd64|arm64)' -- '*.go' || true)
[ -z "$only" ] || { echo "platforms.sh: for one processor alone, so all six platforms must be looked at: $only" >&2; exit 1; }

patterns=()
while read -r dir; do
  if [ "$dir" = examples ] || released "$dir"; then patterns+=("./$dir/..."); fi
done < <(modules)

# Without cgo: a compiler for another system is not to be had. All modules in one call: they share what they need.
export CGO_ENABLED=0
failed=0
for platform; do
  from=$SECONDS verdict=passed
  export GOOS=${platform%/*} GOARCH=${platform#*/}
  go vet "${patterns[@]}" && go build "${patterns[@]}" || { verdict=FAILED; failed=1; }
  echo "platforms.sh: $platform $verdict in $((SECONDS - from)) s"
done
exit $failed
