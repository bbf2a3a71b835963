package words

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestWords: what is pasted is the text itself, whatever it has in it, and nothing of it does anything on the way.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"orders:42":               "orders:42",
		"":                        "''",
		"-x":                      "'-x'",
		"=x":                      "'=x'", // zsh puts the path of x in its place
		"x=":                      "x=",
		"two  spaces":             "'two  spaces'",
		"it's":                    `'it'\''s'`,
		"$(touch x)":              "'$(touch x)'",
		"日本":                      "'日本'",
		"\x1b[2J":                 `$'\033[2J'`,
		"a\u202eb":                `$'a\342\200\256b'`,
		"\xff'\\1":                `$'\377\047\1341'`,
		"a\nb\n":                  `$'a\012b\012'`,
		strings.Repeat("x", 1024): strings.Repeat("x", 1024),
		strings.Repeat("x", 1025): "NAME",
		"a\x00b":                  "NAME",
	} {
		word := Shell(text)
		require.Equal(t, want, word)
		if bash, err := exec.LookPath("bash"); err == nil && want != "NAME" {
			out, err := exec.Command(bash, "-c", "printf %s "+word).Output()
			require.NoError(t, err)
			require.Equal(t, text, string(out))
		}
	}
	require.Equal(t, "holdfast inspect --redis u n", Command("inspect", " --redis u", "n"))
	require.Equal(t, "holdfast inspect --redis u -- '-n'", Command("inspect", " --redis u", "-n"))
}
