#!/usr/bin/env bash
# Builds, vets and type-checks the tests of all released modules, and of the examples, which people copy, for each platform that is
# promised: linux, darwin and windows, on amd64 and arm64. Nothing runs: that is scripts/test.sh's, on the platform it stands on.
#
#   scripts/platforms.sh [--all] [OS/ARCH...]
#
#   --all  also the modules for those who work on the library, which bring a database, a browser's protocol and Prometheus with
#          them, and take several times as long
#
# go vet compiles what the packages need and type-checks all files of theirs, tests included. So go build is left with what vet has
# not compiled: it links the programs. Both keep what they have done, so the second run takes seconds for each platform.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/modules.sh

every=0
if [ "${1:-}" = --all ]; then every=1; shift; fi
all=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
[ $# -gt 0 ] || set -- "${all[@]}"
for platform; do
  [[ " ${all[*]} " == *" $platform "* ]] || { echo "platforms.sh: $platform is none of ${all[*]}" >&2; exit 2; }
done

patterns=()
while read -r dir; do
  if [ $every = 1 ] || [ "$dir" = examples ] || released "$dir"; then patterns+=("./$dir/..."); fi
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
