package keys

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Label is the key of what a client says of itself.
func Label(client string) string { return labelPrefix + ":{" + client + "}" }

// MaxLabel is how many bytes a label may have: what a line of a terminal has room for.
const MaxLabel = 200

// IsLabel reports whether a client may say that of itself. Anybody may have written what stands at its
// key, and labels come to terminals.
func IsLabel(text string) bool {
	return len(text) <= MaxLabel && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CleanLabel is as much of a text as a label may be: without what cannot be printed, and cut to MaxLabel.
func CleanLabel(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	for len(text) > MaxLabel {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// Waits is the key of what a client says of its long waits. It is in the slot of the label.
func Waits(client string) string { return Label(client) + waitsSuffix }

// WaitsOf is the client whose key of [Waits] it is.
func WaitsOf(key string) (client string, ok bool) {
	rest, ok := strings.CutPrefix(key, labelPrefix+":{")
	client, ends := strings.CutSuffix(rest, "}"+waitsSuffix)
	return client, ok && ends
}

// SearchWaits is a pattern for SCAN that finds the keys of [Waits].
const SearchWaits = labelPrefix + ":{*}" + waitsSuffix

const waitsSuffix = ":waits"

const labelPrefix = "holdfast_client"
