package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// JSON writes a document and a line end: on one line, or indented. Its texts are whole, but for arguments that a server
// repeats, and what a terminal would obey in them is escaped, which a reader of JSON undoes. Bytes that are no UTF-8 are
// U+FFFD, as always in JSON.
func JSON(out io.Writer, document any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(document); err != nil {
		return err
	}
	var escaped bytes.Buffer
	pieces(withoutArgumentsJSON(b.String()), func(piece string, r rune, harmless bool) {
		switch high, low := utf16.EncodeRune(r); {
		case r == '\n' || harmless: // outside of texts there is nothing else
			escaped.WriteString(piece)
		case high == unicode.ReplacementChar:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		default:
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		}
	})
	_, err := out.Write(escaped.Bytes())
	return err
}
