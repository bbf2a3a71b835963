// Package assemble puts the parts that scripts share into the scripts.
//
// Package lua does so with its own files when it is initialised; internal/testkit/assembled also with
// those of earlier revisions, to show what a change does to each script.
package assemble

import (
	"io/fs"
	"strings"
)

// include is what the line begins with in whose place a part is pasted, behind its indentation.
const include = "-- include "

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
	var text strings.Builder
	paste(&text, files, script+".lua", read(files, script+".lua"), "", deepest)
	return text.String()
}

// paste writes the lines of a file, indented, with those of its parts in the place of the includes, which may be nested deep
// times. Programs wait for it when they start, so it writes each line once.
func paste(to *strings.Builder, files fs.FS, path, text, indent string, deep int) {
	for line := range strings.Lines(text) {
		bare := strings.TrimLeft(line, " \t")
		name, isInclude := strings.CutPrefix(bare, include)
		if !isInclude {
			if strings.TrimSpace(bare) != "" {
				to.WriteString(indent)
			}
			to.WriteString(line)
			continue
		}
		name = strings.TrimSuffix(name, "\n")
		part := "part/" + name + ".lua"
		if deep == 0 {
			panic("lua: " + path + " includes " + name + ", but is included by a part itself, and may include nothing")
		}
		if _, err := fs.Stat(files, part); err != nil {
			panic("lua: " + path + " includes " + name + ", but there is no " + part)
		}
		paste(to, files, part, Statements(read(files, part)), indent+line[:len(line)-len(bare)], deep-1)
	}
}

func read(files fs.FS, path string) string {
	text, err := fs.ReadFile(files, path)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return string(text)
}

// Statements is a part without its header, which is for readers of the file and not for the server.
func Statements(part string) string {
	for strings.HasPrefix(part, "--") && !strings.HasPrefix(part, include) {
		_, part, _ = strings.Cut(part, "\n")
	}
	return part
}
