package holdfastweb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// visible is a text of somebody else's as people may see it: what is no character, or turns the direction
// of others, is spelled out.
func visible(text string) string { return printable.Text(text, inFull) }

// said is an error in a page.
func said(err error, width int) string { return cut(printable.Line(err.Error()), width) }

// cut takes the middle out of what is too long: names differ at their ends.
func cut(text string, width int) string {
	if len(text) <= width {
		return text
	}
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	front := (width - 1) / 2
	return string(runes[:front]) + "…" + string(runes[len(runes)-(width-1-front):])
}

// shown is what there is of a text in a list, and all of it, within reason, where it stands alone.
func shown(text string, width int) string { return cut(visible(text), width) }

// The most that is shown of a text, in characters.
const (
	inRow, inFull = 72, printable.Long
)

// owner is "<uuid>:h<number>" shortened to the beginning of the client's id.
func owner(text string) string {
	if id, number, ok := strings.Cut(text, ":"); ok && len(id) == 36 {
		text = id[:8] + ":" + number
	}
	return shown(text, 36)
}

// short is a length of time. page.js has the same rules.
func short(d time.Duration) string {
	s := max(int(d.Round(time.Second).Seconds()), 0)
	switch {
	case s < 120:
		return fmt.Sprintf("%ds", s)
	case s < 2*3600:
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh %02dm", s/3600, s/60%60)
	case s > 99*365*24*3600:
		return "no end"
	}
	return fmt.Sprintf("%dd %dh", s/86400, s/3600%24)
}

func plural(n int, one, many string) string { return grouped(n) + " " + either(n, one, many) }

// either is the word that goes with a number.
func either(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// kindName is what people read in place of a kind. Addresses have the kind itself.
func kindName(k inspect.Kind) string {
	if k == inspect.Foreign {
		return "not a lock"
	}
	return string(k)
}

// grouped is a number with spaces between its thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "\u202f" + text[at:]
	}
	return text
}
