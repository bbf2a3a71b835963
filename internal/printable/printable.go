// Package printable makes text that others wrote fit to be shown: the names of locks, labels, what a
// server replied, the errors of callers. It decides for the whole project, for errors, logs, spans,
// labels of metrics, JSON, the command line and the page, which characters are spelled out and how much is shown.
//
// In what it returns nothing ends a line, moves a cursor, changes a terminal or turns the direction of
// the rest, all is UTF-8, and no text is longer than its kind may be. Letters of all scripts stay as they
// are. What is quoted is spelled as redis-cli reads it.
//
// What a server repeats of a command that it does not know is left out: of AUTH and HELLO that is a password. Only
// [Key] has it, which is of names. Messages do not have the hashes of scripts either, which a server adds to its errors.
//
// Not promised: that two texts that differ look different, or that a text can be read back.
package printable

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much is shown, in bytes before anything is spelled out.
const (
	Short = 256  // of a name, an owner or a value within a message
	Long  = 4096 // of a message, and of a text that stands alone
)

// maxMarks is how many marks in a row stay marks. Accents, points and emoji need no more than a few;
// thousands are drawn over the lines above and below.
const maxMarks = 8

// Text is a text as it is, or quoted if it is not harmless. It has at most so many bytes, but for the quotes: the
// middle of a longer one is left out, as names differ at their ends.
func Text(text string, most int) string {
	text = withoutArguments(text)
	if short := cut(text, most); escaped(short, false) == short {
		return short
	}
	return `"` + spelled(text, most, true) + `"`
}

// Name is a [Text] of at most [Short] bytes.
func Name(text string) string { return Text(text, Short) }

// Quote is a text in quotes, for a message. It has at most [Short] bytes.
func Quote(text string) string { return `"` + spelled(withoutArguments(text), Short, true) + `"` }

// Key is a whole key in quotes, for a command of redis-cli that is to be pasted, wherever its line is broken. One that
// is too long for that is cut as in [Quote].
func Key(text string) string {
	if len(text) > Long/4 {
		return `"` + spelled(text, Short, true) + `"`
	}
	return `"` + strings.ReplaceAll(escaped(text, true), " ", `\x20`) + `"`
}

// Line is a message on one line of at most [Long] bytes: what is not harmless in it is spelled out, and line ends are
// semicolons. Names within it are quoted by [Quote]; a Line of a Line is the same.
func Line(text string) string {
	text = withoutScript(withoutArguments(text))
	text = lineEnds.ReplaceAllString(strings.Trim(cut(text, Long), " \r\n\t"), "; ")
	return spelled(strings.ReplaceAll(text, "\t", " "), Long, false)
}

var lineEnds = regexp.MustCompile(`\s*\n\s*`)

// Error is an error whose text is a [Line]. errors.Is and errors.As find in it what they found before.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return lined{err}
}

type lined struct{ error }

func (l lined) Error() string { return Line(l.error.Error()) }
func (l lined) Unwrap() error { return l.error }

// spelled is what is escaped of a text, cut to so many bytes.
func spelled(text string, most int, quotes bool) string {
	for n := most; ; n /= 2 {
		if all := escaped(cut(text, n), quotes); len(all) <= most || n <= most/4 { // no byte becomes more than four
			return all
		}
	}
}

// cut leaves out the middle of what is longer than so many bytes, between characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const gap = "…"
	half := (most - len(gap)) / 2
	front, back := half, len(text)-half
	for front > 0 && half-front < utf8.UTFMax && !utf8.RuneStart(text[front]) {
		front--
	}
	for back < len(text) && back-len(text)+half < utf8.UTFMax && !utf8.RuneStart(text[back]) {
		back++
	}
	return text[:front] + gap + text[back:]
}

// escaped spells out what is not harmless: byte by byte, as \xHH, but for the ends of lines and tabs in quotes. In
// quotes also the quotes and backslashes are that are its own.
func escaped(text string, quotes bool) string {
	var b strings.Builder
	pieces(text, func(piece string, r rune, harmless bool) {
		switch {
		case quotes && (r == '"' || r == '\\'):
			b.WriteString(`\` + piece)
		case quotes && strings.ContainsRune("\n\r\t", r):
			b.WriteString(strings.Trim(strconv.Quote(piece), `"`))
		case harmless:
			b.WriteString(piece)
		default:
			for _, c := range []byte(piece) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
	})
	return b.String()
}

// pieces calls a function for each character of a text, and for each byte that is none.
func pieces(text string, f func(piece string, r rune, harmless bool)) {
	marks := 0
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		f(text[i:i+size], r, unicode.IsPrint(r) && marks <= maxMarks && (r != utf8.RuneError || size > 1))
	}
}
