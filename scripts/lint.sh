#!/usr/bin/env bash
# Checks the formatting of all Go files, lints all modules with golangci-lint, which is built into bin/ the first time, and
# looks at the workflows of the forge.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD linter=golangci-lint version=2.15.0 failed=0
say() { printf 'lint.sh: %s\n' "$*"; }

unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0r gofmt -l)
[ -z "$unformatted" ] || { say "gofmt would change: $unformatted"; failed=1; }
if [ "$(bin/$linter version --short 2>/dev/null)" != $version ]; then
  say "building $linter $version into bin/ (about a minute, once)"
  for try in 1 2 3; do # a download that fails for a moment is no finding
    GOBIN=$root/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version && break
    [ $try -lt 3 ] || exit 1
    say "trying again"
  done
fi
scripts/workflows.sh || failed=1
mapfile -t modules < <(go list -m -f '{{.Dir}}')
bin/$linter run "${modules[@]/%//...}" || failed=1 # in one call: they share what they import
[ $failed = 0 ] && say "nothing to mend"
exit $failed
