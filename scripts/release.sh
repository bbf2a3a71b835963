#!/usr/bin/env bash
# Makes the commits and tags of a release, of the root and of each module in it, and proves that users get them: a module
# elsewhere requires all of them by the go command, as it will. docs/releasing.md says when, and what versions promise.
#
#   scripts/release.sh [--dry-run] [--keep DIR] [--quick] vX.Y.Z
#
#   --dry-run   change nothing in this repository
#   --keep DIR  leave the clone with the commits and tags in DIR, to be looked at
#   --quick     a user's module requires everything and finds every package, but compiles nothing
#
# All work is done in a clone of what is committed here. Only when it has passed do the commits and tags come into this
# repository, and only people push them: the last line says how, in one step, so that nobody sees half a release.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD

dry=0 quick=0 keep='' version=''
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=1 ;;
    --quick) quick=1 ;;
    --keep) keep=$(realpath -m "${2:?--keep needs a directory}"); shift ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "unknown option $1; see --help" >&2; exit 2 ;;
    *) version=$1 ;;
  esac
  shift
done

say() { printf 'release.sh: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

[[ $version =~ ^v([01])\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]] ||
  die "${version:-no version}: give one as v1.2.3 or v1.2.3-rc.1; from v2 on, module paths end in /v2, which this script does not do"
[ -z "$(git status --porcelain)" ] || die "there are changes that are not committed; commit or stash them, since only commits are released"
branch=$(git symbolic-ref --short HEAD) || die "no branch is checked out; check out the one to release from"

tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp" && rm -rf "$tmp"' EXIT
clone=$tmp/clone
git clone -q "$here" "$clone"
cd "$clone"
git config user.name "$(git -C "$here" config user.name || echo holdfast)"
git config user.email "$(git -C "$here" config user.email || echo holdfast@localhost)"
# From here on all is as it is for users: by the clone's own scripts, without go.work.
. scripts/modules.sh
root=$(path_of .)

# The go command fetches versions of these modules as ever, with git from the forge, but git takes the clone for the forge. All
# other modules come from those that were downloaded here before, or from where they always come from. The cache is one of its
# own: versions that never become public must not stay in the one that everybody uses.
export GOWORK=off GOFLAGS="-mod=mod -trimpath" GOPRIVATE="$root,$root/*" GOMODCACHE=$tmp/mod
GOPROXY="file://$(cd "$here" && env -u GOMODCACHE go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
export GOPROXY GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$clone.insteadOf" GIT_CONFIG_VALUE_0="https://$root"

# last DIR prints the last version of the module in DIR that was released, nothing if there is none. Pre-releases count only before
# a first release: they promise nothing to the versions after them.
last() {
  local prefix all
  prefix=$(tag_of "$1" '')
  all=$(git tag --list "${prefix}v[0-9]*" | sed "s#^$prefix##" | sed 's/-/~/' | sort -V)
  { grep -v '~' <<<"$all" || true; } | tail -n 1
}

apidiff_version=v0.0.0-20261113113407-e3970619a1a4
apidiff() {
  if [ ! -x "$here/bin/apidiff" ]; then
    say "building apidiff into bin/ (once)"
    env -u GOMODCACHE -u GOPROXY -u GOPRIVATE -u GIT_CONFIG_COUNT GOFLAGS= GOBIN="$here/bin" go install golang.org/x/exp/cmd/apidiff@$apidiff_version
  fi
  "$here/bin/apidiff" "$@"
}

# compatible DIR refuses a version of the module in DIR whose number promises more than its API keeps.
compatible() {
  local dir=$1 old lost
  old=$(last "$dir")
  if [ -z "$old" ]; then
    say "$(path_of "$dir"): the first release; there is no API to compare with"
    return
  fi
  git worktree add -q --force --detach "$tmp/old" "$(tag_of "$dir" "$old")"
  (cd "$tmp/old/$dir" && apidiff -m -w "$tmp/old.api" "$(path_of .)") || die "apidiff cannot read $dir at $old"
  lost=$(cd "$dir" && apidiff -m -incompatible "$tmp/old.api" "$(path_of .)") || die "apidiff cannot compare $dir with $old"
  git worktree remove --force "$tmp/old"
  [ -n "$lost" ] || { say "$(path_of "$dir"): all of $old's API is there"; return; }
  printf '%s\n' "$lost"
  # Before v1 the second number is for this; from v1 on nothing is.
  [[ $version == v0.* && ${version%.*} != "${old%.*}" ]] ||
    die "$(path_of "$dir"): the API above was in $old, so this cannot be $version: put it back$([[ $version == v1* ]] || echo ", or raise the second number")"
}

# require_released DIR has the module in DIR require the released versions of its siblings, with their checksums.
require_released() {
  local dir=$1 need known
  for need in $(siblings "$dir"); do
    (
      cd "$dir"
      go mod edit -require="$need@$version"
      known=$(grep -v "^$need v" go.sum || true)
      if released "."; then
        go mod edit -dropreplace="$need"
        { echo "$known"; go mod download -json "$need@$version" | awk -F'"' -v m="$need $version" '
          $2 == "Sum" { print m, $4 } $2 == "GoModSum" { print m "/go.mod", $4 }'; } | LC_ALL=C sort -u | sed '/^$/d' >go.sum.new
        mv go.sum.new go.sum
      fi
    )
  done
}

# changelog gives the heading of what is unreleased the version and the day.
changelog() {
  grep -q '^## Unreleased$' CHANGELOG.md || die "CHANGELOG.md has no heading '## Unreleased'"
  sed -n '/^## Unreleased$/,/^## [^U]/p' CHANGELOG.md | grep '^\* ' >/dev/null || die "CHANGELOG.md: nothing is said under '## Unreleased'; say what users get"
  sed -i "s/^## Unreleased\$/## Unreleased\n\n## ${version#v} - $(date -u +%F)/" CHANGELOG.md
}

# packages DIR prints the packages of the module in DIR that users import.
packages() { (cd "$1" && go list -mod=readonly -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./... | grep -v '/internal/' | xargs -r go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}'); }
commands() { (cd "$1" && go list -mod=readonly -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./... | { grep -v '/internal/' || true; }); }

# seen_by_user DIR...: a module elsewhere requires all of these modules and imports their packages.
seen_by_user() {
  local dir got path imports=()
  mkdir "$tmp/user" && cd "$tmp/user"
  go mod init example.com/user 2>/dev/null
  local wanted=()
  for dir; do wanted+=("$(cd "$clone" && path_of "$dir")@$version"); done
  # The checksum database knows nothing yet of what is released; of others, each module's go.sum was checked above.
  export GONOSUMDB='*'
  go get "${wanted[@]}" || die "a user's go get fails: ${wanted[*]}"
  for path in "${wanted[@]}"; do
    got=$(go list -m -f '{{.Version}}{{with .Replace}} replaced{{end}}' "${path%@*}")
    [ "$got" = "$version" ] || die "a user who requires $path gets $got"
  done
  for dir; do
    for path in $(cd "$clone" && packages "$dir"); do imports+=("$path"); done
  done
  { echo 'package main'; printf 'import _ "%s"\n' "${imports[@]}"; echo 'func main() {}'; } >main.go
  go list -deps . >/dev/null || die "a user's program with ${imports[*]} lacks something"
  say "a user's module requires ${wanted[*]}, without a replace, and imports ${#imports[@]} packages of theirs"
  [ $quick = 1 ] || { go build -o user . && ./user && say "a program of all of them builds and runs"; } || die "a user's program with ${imports[*]} does not build"
  cd "$clone"
  [ $quick = 0 ] || return 0
  for dir; do
    for path in $(commands "$dir"); do
      GOBIN=$tmp/bin go install "$path@$version" || die "go install $path@$version fails"
      say "go install $path@$version works"
    done
  done
}

to_release=() for_us=()
while read -r dir; do
  if released "$dir"; then to_release+=("$dir"); else for_us+=("$dir"); fi
done < <(modules)
plan=$(layers "${to_release[@]}")
tags=()
for dir in "${to_release[@]}"; do
  tag=$(tag_of "$dir" "$version")
  tags+=("$tag")
  ! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || die "the tag $tag is there already; versions are never changed, take the next number"
  old=$(last "$dir")
  [ -z "$old" ] || [ "$(printf '%s\n' "$old" "${version%%-*}" | sort -V | tail -n 1)" != "$old" ] || die "$version is not above $old, which is released"
done

# A layer is tagged before the next one is changed, since that requires it. So each layer has a commit, and nobody fetches the last
# one before the first: they are pushed together.
say "$version of ${#to_release[@]} modules, from $(git rev-parse --short HEAD) on $branch"
changelog
while read -ra layer; do
  for dir in "${layer[@]}"; do
    require_released "$dir"
    (cd "$dir" && go list -mod=readonly -deps ./... >/dev/null) || die "$(path_of "$dir"): go.mod or go.sum lacks something; see above"
    compatible "$dir"
  done
  git add -A
  names=$(for dir in "${layer[@]}"; do tag_of "$dir" "$version"; done)
  git diff --cached --quiet || git commit -q -m "release $version: ${layer[*]/#./the root}"
  for tag in $names; do git tag -a -m "$tag" "$tag"; done
  say "tagged at $(git rev-parse --short HEAD): ${names//$'\n'/ }"
done <<<"$plan"

# What is not released requires the versions, too, or the go command would want to change its go.mod. Its replaces stay.
for dir in "${for_us[@]}"; do require_released "$dir"; done
git add -A
git diff --cached --quiet || git commit -q -m "release $version: what is not released requires it"

seen_by_user "${to_release[@]}"

if [ -n "$keep" ]; then
  git clone -q --bare "$clone" "$keep"
  say "the commits and tags are in $keep"
fi
if [ $dry = 1 ]; then
  say "dry run of $version: this repository is as it was; the tags would be ${tags[*]}"
  exit 0
fi
cd "$here"
git fetch -q "$clone" "HEAD" "refs/tags/*:refs/tags/*"
git merge -q --ff-only FETCH_HEAD
say "$version is here. To publish it: git push --atomic origin $branch ${tags[*]}"
