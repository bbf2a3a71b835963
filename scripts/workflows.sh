#!/usr/bin/env bash
# Checks the workflow files of the forge, which runs them, with actionlint. It is built into bin/ the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD version=1.7.12

if [ "$(bin/actionlint -version 2>/dev/null | head -n 1 | sed 's/^v//')" != $version ]; then
  echo "workflows.sh: building actionlint $version into bin/ (once)"
  GOBIN=$root/bin go install github.com/rhysd/actionlint/cmd/actionlint@v$version
fi
bin/actionlint .github/workflows/*.yml

# actionlint does not look at what is run: each script must be there.
grep -ohE '\./scripts/[a-z]+\.sh' .github/workflows/*.yml | sort -u | while read -r script; do
  [ -x "$script" ] || { echo "workflows.sh: a workflow runs $script, which is not there" >&2; exit 1; }
done

# The control: a workflow that waits for a job that does not exist is refused.
if sed 's/needs: quick/needs: qiuck/' .github/workflows/test.yml | bin/actionlint - >/dev/null; then
  echo "workflows.sh: actionlint says nothing of a job that does not exist" >&2
  exit 1
fi
echo "workflows.sh: the workflows are well-formed"
