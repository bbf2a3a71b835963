package holdfasttest_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"fmt"
	"context"

	"github.com/stretchr/testify/require"
	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

func TestZScripts(t *testing.T) {
	seen := map[string]bool{}
	var mu sync.Mutex
	seenScript = func(n string) { mu.Lock(); seen[n] = true; mu.Unlock() }
	for _, s := range scenarios {
		for _, kind := range s.of() {
			synctest.Test(t, func(t *testing.T) { s.on(t, kind, newDouble) })
		}
	}
	fmt.Println(len(seen), seen)
}

// WithReplicas, strings etc on the double
func TestZMisc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfasttest.AllowHeld())
		ctx := t.Context()
		c := s.Client(nil)
		st := time.Now()
		h, err := rlock.New(c, "a", holdfast.WithReplicas(1, time.Second)).Lock(ctx)
		fmt.Println("replicas", h != nil, err, time.Since(st))
		s.Redis().Set(ctx, "str", "x", time.Minute)
		l := rlock.New(c, "str", holdfast.RespectStrings())
		_, err = l.TryLock(ctx)
		fmt.Println("string", err)
		st = time.Now()
		h, err = l.Lock(ctx)
		fmt.Println("string", err, time.Since(st))
		s.Redis().Set(ctx, "str", "x", 0)
		fmt.Println(h.Unlock(ctx))
		_, err = rlock.New(c, "str").Lock(ctx)
		fmt.Println("wrongtype", err)
		i, _ := inspect.New(s.Redis(), nil)
		fmt.Println(i.Lock(ctx, "str"))
		_ = latch.New
		_ = fence.NewRedis
		_ = rwlock.New
		_ = semaphore.New
		_ = election.New
		_ = context.Background
		h, err = rlock.New(c, "al").Lock(ctx, holdfast.HoldAtLeast(time.Minute))
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		st = time.Now()
		h, err = rlock.New(s.Client(nil), "al").Lock(ctx)
		fmt.Println("atleast", err, time.Since(st))
		h.Unlock(ctx)
		// occupied string
		func() {
			defer func() { fmt.Println("recover", recover()) }()
		}()
	})
}
