package simulation

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/leak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it would report every fault
	leak.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
