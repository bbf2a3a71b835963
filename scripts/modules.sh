# Sourced by the other scripts, in the root of the repository: what modules there are. Nobody keeps a list of them by hand.

# modules prints the directory of each module, one a line: the root's is ".".
modules() {
  git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' | while read -r mod; do
    [ ! -f "$mod" ] || dirname "$mod"
  done
}

# path_of DIR prints the path of the module in DIR.
path_of() { sed -n 's/^module  *//p' "$1/go.mod"; }

# released DIR: users can require the module in DIR. A module that is only for those who work on the library says so in its go.mod.
released() { ! grep -q '^// Not released' "$1/go.mod"; }

# siblings DIR prints the paths of the modules of this repository that the one in DIR requires.
siblings() {
  local root
  root=$(path_of .)
  sed 's/^require//' "$1/go.mod" | awk -v root="$root" 'NF >= 2 && $2 ~ /^v/ && ($1 == root || index($1, root "/") == 1) { print $1 }'
}

# tag_of DIR VERSION prints the tag of a version of the module in DIR, as the go command wants it.
tag_of() { [ "$1" = . ] && echo "$2" || echo "$1/$2"; }

# layers DIR... prints the modules in these directories, a line for each layer: those of a line require only modules of
# lines before it.
layers() {
  local left=("$@") done=' ' layer later dir need ready
  while [ ${#left[@]} -gt 0 ]; do
    layer=() later=()
    for dir in "${left[@]}"; do
      ready=1
      for need in $(siblings "$dir"); do
        [[ $done == *" $need "* ]] || ready=0
      done
      if [ $ready = 1 ]; then layer+=("$dir"); else later+=("$dir"); fi
    done
    if [ ${#layer[@]} = 0 ]; then
      echo "these modules require each other, or one that is not released: ${left[*]}" >&2
      return 1
    fi
    echo "${layer[*]}"
    for dir in "${layer[@]}"; do done+="$(path_of "$dir") "; done
    left=(${later[@]+"${later[@]}"})
  done
}
