package words

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestWords: nothing of a text does anything, on a terminal or in a shell.
func TestWords(t *testing.T) {
	for text, want := range map[string][2]string{
		"orders:42":  {"orders:42", "orders:42"},
		"":           {"", "''"},
		"-x":         {"-x", "'-x'"},
		"it's":       {"it's", `'it'\''s'`},
		"$(touch x)": {"$(touch x)", "'$(touch x)'"},
		"\x1b[2J":    {`"\x1b[2J"`, "NAME"},
		"a\u202eb":   {`"a\u202eb"`, "NAME"},
		"\xff":       {`"\xff"`, "NAME"},
		"a\nb":       {`"a\nb"`, "NAME"},
		"日本":         {"日本", "'日本'"},
	} {
		require.Equal(t, want, [2]string{Visible(text), Shell(text)})
	}
}
