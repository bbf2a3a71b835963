// Package words writes commands that people paste into a shell.
//
// Not promised: that they work in a shell that knows neither 'single quotes' nor, for names with control
// characters, $'these'. bash, zsh, ksh and busybox know both.
package words

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// longest is up to how many bytes a word is written out: what people paste has to fit a line of a terminal.
const longest = 1024

// Command is a command of holdfast about the lock of that name. flags begin with a space each. A name that
// begins as a flag does stands behind "--".
func Command(command, flags, name string) string {
	if strings.HasPrefix(name, "-") {
		flags += " --"
	}
	return "holdfast " + command + flags + " " + Shell(name)
}

// Shell quotes what a shell would take for something else. What no command line can carry, or is too long to
// be pasted, is NAME.
func Shell(text string) string {
	switch {
	case strings.Contains(text, "\x00"), len(text) > longest:
		return "NAME"
	case printable.Text(text, longest) != text:
		return "$'" + bytes(text) + "'"
	case text != "" && !strings.ContainsRune("-=", rune(text[0])) && strings.IndexFunc(text, special) < 0: // zsh expands =word
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_:./,@%+=-", r))
}

// bytes spells out all but the letters of ASCII, in octal numbers: those of three digits end by themselves.
func bytes(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c >= 0x7f || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
