// Package words makes texts of somebody else's safe to be shown: names of locks and labels are whatever
// somebody has written into Redis.
//
// Not promised: that two texts that differ look different.
package words

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is a text in which nothing moves a cursor, changes a terminal or turns the direction of the
// rest: it is quoted where it would.
func Visible(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	return strconv.Quote(text)
}

// Shell quotes what a shell would take for something else. What cannot be shown is NAME.
func Shell(text string) string {
	if Visible(text) != text {
		return "NAME"
	}
	if strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_:./,@%+=-", r))
	}) < 0 && text != "" && text[0] != '-' {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
