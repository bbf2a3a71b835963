package redisson

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// Idle makes this process a worker that does nothing, if it was started as one, and reports
// whether it was. A TestMain calls it first.
func Idle() bool {
	says := os.Getenv(idleProcess)
	if says == "" {
		return false
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var a Ask
		if json.Unmarshal(in.Bytes(), &a) != nil || a.Op == "leave" {
			continue
		}
		value := "true"
		switch {
		case a.Op == "connect":
			value = `"00000000-0000-0000-0000-000000000000"`
		case says == "no" && a.Op != "shutdown" && a.Op != "interrupt":
			value = "false"
		}
		fmt.Printf("{\"id\":%d,\"thread\":%d,\"value\":%s}\n", a.ID, len(a.Thread), value)
	}
	return true
}
