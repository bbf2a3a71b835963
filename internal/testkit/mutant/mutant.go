// Package mutant breaks a script of the library on purpose, on its way from one client to the server: a defence that is part of
// a script is switched off that way, without a hook in the library.
package mutant

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// Hook is a go-redis hook that sends the script with edits, pairs of what stands there and what is to; also in the one for many
// locks, where that does the same. It panics where a text is missing, as the mutation would then be none.
func Hook(script *lua.Script, edits ...string) redis.Hook {
	swaps := []swap{edit(script, edits)}
	if script == lua.Acquire || script == lua.Release {
		// They are functions in the script for many locks, a step further to the right.
		var right []string
		for _, text := range edits {
			right = append(right, strings.ReplaceAll(text, "\n", "\n  "))
		}
		swaps = append(swaps, edit(lua.Many, right))
	}
	return hook{redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			exchange(swaps, cmd.Args())
		}
		return send()
	}), swaps[0].mutated}
}

// edit makes the edits in a script.
func edit(script *lua.Script, edits []string) swap {
	text := script.Text()
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			panic("mutant: " + script.Name() + ".lua does not contain " + edits[i])
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts by their SHA-1
	return swap{script.Hash(), hex.EncodeToString(sum[:]), script.Text(), text}
}

// hook exchanges the script, and then others that do the same.
type hook struct {
	redis.Hook
	mutated string // the SHA-1 of what is sent in its place
}

type swap struct{ hash, mutated, text, mutatedText string }

// exchange edits the arguments in place: the library makes them anew for each operation, and repeats may be mutated too.
func exchange(swaps []swap, args []any) {
	if len(args) < 2 {
		return
	}
	for _, s := range swaps {
		switch args[1] {
		case s.hash:
			args[1] = s.mutated
		case s.text:
			args[1] = s.mutatedText
		}
	}
}

// Hash is the SHA-1 of the text that a hook sends, "" for nil.
func Hash(h redis.Hook) string {
	if h, ok := h.(hook); ok {
		return h.mutated
	}
	return ""
}
