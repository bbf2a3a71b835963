package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// screen is where a command prints text for people.
type screen struct {
	out    io.Writer
	colour bool
}

// newScreen uses colours on a terminal only, and not against the user's wish
// (https://no-color.org).
func newScreen(out io.Writer) *screen {
	f, ok := out.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor fits
	return &screen{out: out, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// columns is how wide a terminal is at least.
const columns = 80

// widest is how long a line of text may get on a wide terminal: longer ones are hard to read.
const widest = 120

// width is how wide the screen is: of a terminal as far as it can be read, else as a terminal is at
// least.
func (s *screen) width() int {
	if f, ok := s.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 { //nolint:gosec // a file descriptor fits
			return min(max(w, columns/2), widest)
		}
	}
	return columns
}

const (
	bold   = "1"
	dim    = "2"
	red    = "1;31"
	green  = "32"
	yellow = "33"
)

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) title(text string) { fmt.Fprintln(s.out, s.paint(bold, text)) }

// wrapped is a text in lines for a terminal of this width, or on one line if there is none.
func wrapped(text string, width int) string {
	if width == 0 {
		return text
	}
	return strings.Join(wrap(text, min(width, widest)), "\n")
}

// wrap breaks a text between words. Each line is indented as the first one is; a word that is longer
// than a line, such as an address, is left whole, and so are two spaces, which a name may have in it.
func wrap(text string, width int) (lines []string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := indent
	for n, word := range strings.Split(text[len(indent):], " ") {
		switch {
		case n == 0:
			line += word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) > width:
			lines, line = append(lines, line), indent+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
