package waitwatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// DefaultLabel names this process, as host/program[pid]; empty if neither is known. It is the same for all clients of
// the process.
var DefaultLabel = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	program := ""
	if len(os.Args) > 0 {
		program = os.Args[0]
	}
	return processLabel(host, program, os.Getpid())
})

// mostOfName is how many bytes of a host's or a program's name are shown, so that the number behind them has room.
const mostOfName = 80

func processLabel(host, program string, pid int) string {
	host, _, _ = strings.Cut(host, ".")
	if program != "" {
		program = filepath.Base(program)
	}
	host, program = clip(host), clip(program)
	switch {
	case host == "" && program == "":
		return ""
	case host != "" && program != "":
		host += "/"
	}
	return fmt.Sprintf("%s%s[%d]", host, program, pid)
}

// clip is the printable part of a name, cut at a character.
func clip(name string) string {
	name = keys.CleanLabel(name)
	for len(name) > mostOfName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}
