package printable

import (
	"regexp"
	"strings"
)

// repeated is how a server that does not know a command repeats its arguments: in quotes or backquotes, as they came,
// so that nothing tells a quote of theirs from the end. All that follows is taken for theirs.
var repeated = regexp.MustCompile(`(?is),?\s*with\s+arg(?:ument)?s\s+beginning\s+with:\s*(.*)`)

const leftOut = " (its arguments are not shown)"

// withoutArguments leaves out the arguments of a command that a server does not know. A server without AUTH repeats the
// password, and nobody asked it to. Looking for the password itself would not do: few who print an error know it.
//
// What is to stay behind a server's text is put there after this.
func withoutArguments(text string) string {
	if !mayRepeat(text) {
		return text
	}
	at := repeated.FindStringSubmatchIndex(text)
	switch {
	case at == nil:
		return text
	case at[2] == at[3]: // there were none
		return text[:at[0]]
	}
	return text[:at[0]] + leftOut
}

// repeatedJSON is the same within the text of a document, which ends with the next quote that is not escaped.
var repeatedJSON = regexp.MustCompile(`(?i)(?:,|\\[nrt]|\s)*with\s+arg(?:ument)?s\s+beginning\s+with:(?:[^"\\]|\\.)*`)

func withoutArgumentsJSON(document string) string {
	if !mayRepeat(document) {
		return document
	}
	return repeatedJSON.ReplaceAllLiteralString(document, leftOut)
}

// mayRepeat is quick: names are made printable for each label of a metric, and documents are large.
func mayRepeat(text string) bool { return strings.Contains(strings.ToLower(text), "beginning") }

// byScript is what a server adds to an error that it raised in a script: the script's hash and the line. Redis before 7
// puts it in front.
var byScript = regexp.MustCompile(`ERR Error running script \(call to f_[0-9a-f]{40}\): (?:@user_script: ?\d+: )+-?| script: (?:[0-9a-f]{40}, )?on @user_script:\d+\.`)

// withoutScript leaves that out: the scripts are the library's, so it helps nobody who reads the error.
func withoutScript(text string) string {
	if !strings.Contains(text, "@user_script:") {
		return text
	}
	return byScript.ReplaceAllLiteralString(text, "")
}
