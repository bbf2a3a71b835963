package rlock_test

import (
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestManyNamesMeetFaults: operations on many names of one client travel together, scripts of one name and
// scripts of several, and connections break under them. Each is repeated, and happens once.
func TestManyNamesMeetFaults(t *testing.T) {
	var together atomic.Bool
	crowd := kindtest.Crowd{
		Clients: 1, Each: 64, Names: 64, Times: 6,
		New:     func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
		Scripts: []string{lua.Acquire.Text(), lua.Release.Text()},
		Hit:     faultproxy.Command("EVALSHA"), At: []int{20, 40, 60, 80, 100, 120, 140, 160, 180, 200},
		Hook: redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
			if len(cmds) > 1 && cmds[0].Name() == "evalsha" {
				together.Store(true)
			}
			return send()
		}),
	}
	for name, fault := range kindtest.Faults() {
		t.Run(name, func(t *testing.T) { require.NoError(t, crowd.Meet(t, fault)) })
	}
	require.True(t, together.Load(), "some travelled together")
}
