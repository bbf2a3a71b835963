//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script is what a user's shell is given.
func completionScript(t *testing.T, shell string) string {
	t.Helper()
	_, script, _ := says("completion", shell)
	require.Contains(t, script, "holdfast")
	path := filepath.Join(t.TempDir(), "completion."+shell)
	require.NoError(t, os.WriteFile(path, []byte(script), 0o600))
	return path
}

// TestCompletionIsAccepted: each shell that is installed reads its script. bash is there wherever the
// tests run; the others are not, and no test needs them installed.
func TestCompletionIsAccepted(t *testing.T) {
	t.Parallel()
	for _, shell := range completionShells {
		t.Run(shell, func(t *testing.T) {
			script := completionScript(t, shell)
			bin, err := exec.LookPath(shell)
			if err != nil {
				require.NotEqual(t, "bash", shell, "bash is needed")
				t.Logf("%s is not installed: the script was made, and not read", shell)
				return
			}
			out, err := exec.Command(bin, "-n", script).CombinedOutput()
			require.NoError(t, err, "%s", out)
			broken := filepath.Join(t.TempDir(), "broken")
			require.NoError(t, os.WriteFile(broken, []byte("if ((; then {\n"), 0o600))
			require.Error(t, exec.Command(bin, "-n", broken).Run(), "control: it refuses another")
		})
	}
}

// bashCompletes asks bash what a user would be offered who presses tab behind a line. What the
// package bash-completion brings is written here, as it may not be installed: the words of the line.
const bashCompletes = `
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }
source "$1"; shift
complete -p holdfast >/dev/null || exit 9
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_holdfast 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
`

// TestCompletionInBash: commands, flags and values of flags.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	script := completionScript(t, "bash")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(dir, "holdfast")))
	offers := func(words ...string) string {
		cmd := exec.Command("bash", append([]string{"-c", bashCompletes, "bash", script}, words...)...)
		cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE=atexit_sleep_ms=0", "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(out)), " ")
	}
	require.Equal(t, "doctor", offers("holdfast", "doc"))
	require.Contains(t, offers("holdfast", "run", "--tls"), "--tls-key")
	require.Contains(t, offers("holdfast", "ui", "--al"), "--allow-unlock")
	require.Contains(t, offers("holdfast", "run", "--kind", "rw"), "rw-write")
	require.NotContains(t, offers("holdfast", "run", "--kind", "rw"), "semaphore")
	require.Contains(t, offers("holdfast", "run", "--kind", "mul"), "multilock")
	require.Equal(t, "oldest", offers("holdfast", "top", "--sort", "o"))
	require.Contains(t, offers("holdfast", "completion", ""), "fish")
	require.Empty(t, offers("holdfast", "watch", ""), "no file is a lock")
	require.NotContains(t, offers("holdfast", ""), workerCommand)
}
