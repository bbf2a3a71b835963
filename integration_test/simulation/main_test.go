package simulation

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it would report every fault
	debug.SetGCPercent(400)   // each script makes a Lua state of its own on the emulated server

	leak.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
