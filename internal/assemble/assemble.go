// Package assemble puts the parts that scripts share into the scripts.
//
// Package lua does so with its own files when it is initialised; internal/testkit/assembled also with
// those of earlier revisions, to show what a change does to each script.
package assemble

import (
	"io/fs"
	"regexp"
	"strings"
)

// Include matches the line in whose place a part is pasted.
var Include = regexp.MustCompile(`(?m)^([ \t]*)-- include (.*)\n`)

// Script is the text of a script: its file, with every include replaced by the statements of that
// part. Redis has no imports, and functions cost a hot script a tenth of its time. So what several
// scripts do in the same way is pasted in place.
//
// A part that a script includes may include other parts, and these include nothing. So the
// functions of the part queue share statements with the scripts that have no functions, and a
// reader never follows more than two includes. Only where the part is a whole script, which a
// script for many makes a function of, there is one more. Script panics where an include is
// deeper or names no part.
func Script(files fs.FS, script string) string {
	const deepest = 3
	return paste(files, script+".lua", deepest)
}

// paste is the text of a file with its includes replaced, which may be nested deep times.
func paste(files fs.FS, path string, deep int) string {
	text, err := fs.ReadFile(files, path)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return Include.ReplaceAllStringFunc(string(text), func(line string) string {
		m := Include.FindStringSubmatch(line)
		indent, part := m[1], "part/"+m[2]+".lua"
		if deep == 0 {
			panic("lua: " + path + " includes " + m[2] + ", but is included by a part itself, and may include nothing")
		}
		if _, err := fs.Stat(files, part); err != nil {
			panic("lua: " + path + " includes " + m[2] + ", but there is no " + part)
		}
		return indented(indent, Statements(paste(files, part, deep-1)))
	})
}

// Statements is a part without its header, which is for readers of the file and not for the server.
func Statements(part string) string {
	for strings.HasPrefix(part, "--") {
		_, part, _ = strings.Cut(part, "\n")
	}
	return part
}

// indented puts indent in front of every line that has any text.
func indented(indent, text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = indent + line
		}
	}
	return strings.Join(lines, "")
}
