package waitwatch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// TestProcessLabel: the default label is a label whatever the names of the host and of the program are, and keeps the
// process's number.
func TestProcessLabel(t *testing.T) {
	long := strings.Repeat("ü", 300)
	for _, c := range []struct{ host, program, label string }{
		{"host-7", "/usr/bin/billing", "host-7/billing[12]"},
		{"host-7.example.com", "billing", "host-7/billing[12]"},
		{"", "billing", "billing[12]"},
		{"host-7", "", "host-7[12]"},
		{"", "", ""},
		{"\x1b[31m", "\xff", "[31m[12]"},
		{"a\u202eb\n", "c\x00d", "ab/cd[12]"},
		{".", "-", "-[12]"},
		{long, long, strings.Repeat("ü", 40) + "/" + strings.Repeat("ü", 40) + "[12]"},
	} {
		label := processLabel(c.host, c.program, 12)
		require.Equal(t, c.label, label)
		require.True(t, keys.IsLabel(label), label)
	}
	require.True(t, keys.IsLabel(DefaultLabel()))
	require.Regexp(t, `waitwatch\.test(\.exe)?\[\d+\]$`, DefaultLabel())
}
