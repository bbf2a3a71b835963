// Package hostile is one set of texts that somebody may write where others read it, as the name of a lock, an
// owner, a label, a value or a server's answer, and the check that nothing of them does anything there.
//
// Not promised: that the set is complete. What is printable is decided by package printable, and checked here by other means.
package hostile

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Texts end a line and begin one of their own, move the cursor, change a terminal, turn the direction of text, are no
// UTF-8, pile marks on a letter, look like flags, commands and tags, or are long. All may be names of locks.
var Texts = []string{
	"a\nforged line", "b\r\nforged: line", "\x1b[2J\x1b]0;title\adone", "c1\u009b31m\u0085forged line", "\u202egnp.exe", "\u2066x\u2069\u200b\ufeff",
	"\xff\xfe\xc3", "e" + strings.Repeat("\u0301", 3000), "-x", "--force", `it's "quoted" \back\ $(touch x) ` + "`y`", "two  spaces ", "<script>x</script>",
	"nul\x00byte", "\u2028forged line", "private\ue000\U000e0041", strings.Repeat("long\x1b", 4_000), "設定:更新",
}

// Longest is how long a line may be, whatever was written: room for a document of JSON, whose texts are whole.
const Longest = 256 << 10

// Check fails the test if there is a fault in what was printed.
func Check(tb testing.TB, what, printed string) {
	tb.Helper()
	for _, fault := range Faults(printed) {
		tb.Errorf("%s: %s", what, fault)
	}
}

// Faults are the first printed character that needs spelling out, and the lines that foreign text has made or made long.
func Faults(printed string) (all []string) {
	if !utf8.ValidString(printed) {
		all = append(all, fmt.Sprintf("no UTF-8: %.300q", printed))
	}
	marks := 0
	for at, r := range printed {
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) {
			marks = 0
		}
		if r != '\n' && !unicode.IsPrint(r) || marks > 20 {
			all = append(all, fmt.Sprintf("%q in %.300q", r, printed[max(at-100, 0):]))
			break
		}
	}
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(strings.TrimSpace(line), "forged") {
			all = append(all, fmt.Sprintf("a line of somebody's own: %.300q", line))
		}
		if len(line) > Longest {
			all = append(all, fmt.Sprintf("a line of %d bytes: %.300q…", len(line), line))
		}
	}
	return all
}
