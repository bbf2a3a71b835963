package holdfast_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// The public API that users' code compiles against. A change that does not compile here breaks
// them.
var (
	_ func(redis.UniversalClient, *holdfast.Options) (*holdfast.Client, error) = holdfast.New
	_ func(*holdfast.Client) string                                            = (*holdfast.Client).ID
	_ func(*holdfast.Client, context.Context) error                            = (*holdfast.Client).Close

	_ = holdfast.Options{Lease: time.Duration(0), Logger: (*slog.Logger)(nil), Label: ""}

	_ func(*holdfast.Hold) context.Context                                                          = (*holdfast.Hold).Context
	_ func(*holdfast.Hold, context.Context) error                                                   = (*holdfast.Hold).Unlock
	_ func(*holdfast.Hold) uint64                                                                   = (*holdfast.Hold).Token
	_ func(*holdfast.Hold) string                                                                   = (*holdfast.Hold).Owner
	_ func(*holdfast.Hold) int                                                                      = (*holdfast.Hold).Count
	_ func(*holdfast.Hold) time.Time                                                                = (*holdfast.Hold).Deadline
	_ func(*holdfast.Hold, context.Context, time.Duration) error                                    = (*holdfast.Hold).Extend
	_ func(time.Duration) holdfast.Option                                                           = holdfast.Wait
	_ func(time.Duration) holdfast.Option                                                           = holdfast.Lease
	_ func() holdfast.Option                                                                        = holdfast.NoRenewal
	_ func() holdfast.Option                                                                        = holdfast.RespectStrings
	_ func(time.Duration) holdfast.Option                                                           = holdfast.HoldAtLeast
	_ func(context.Context, holdfast.Locker) sync.Locker                                            = holdfast.SyncLocker
	_ func(context.Context) context.Context                                                         = holdfast.WithOwner
	_ func(context.Context, holdfast.Locker, func(context.Context) error, ...holdfast.Option) error = holdfast.Do

	_ func(context.Context) (uint64, bool) = fence.Token

	_ = []error{fence.ErrStale}
	_ = []error{holdfast.ErrNotAcquired, holdfast.ErrLost, holdfast.ErrReleased, holdfast.ErrClosed,
		holdfast.ErrUnavailable}
	_ = holdfast.Error{Op: "", Kind: "", Name: "", Err: error(nil)}
	_ = holdfast.State{Owner: "", Count: 0, Remaining: time.Duration(0), Token: uint64(0), Waiters: 0}

	_ holdfast.Locker                                                 = (*rlock.Mutex)(nil)
	_ func(*holdfast.Client, string, ...holdfast.Option) *rlock.Mutex = rlock.New
	_ func(*rlock.Mutex, context.Context) (holdfast.State, error)     = (*rlock.Mutex).State
	_ func(*rlock.Mutex, context.Context) (bool, error)               = (*rlock.Mutex).ForceUnlock

	_ holdfast.Locker                                                     = (*redlock.Mutex)(nil)
	_ func([]*holdfast.Client, string, ...holdfast.Option) *redlock.Mutex = redlock.New
	_ func(*redlock.Mutex, context.Context) (redlock.State, error)        = (*redlock.Mutex).State
	_ func(*redlock.Mutex, context.Context) (bool, error)                 = (*redlock.Mutex).ForceUnlock
	_                                                                     = redlock.State{State: holdfast.State{}, Masters: []redlock.MasterState(nil)}
	_ func(time.Duration) holdfast.Option                                 = redlock.MasterTimeout
	_ func() holdfast.Option                                              = redlock.TrustRestarts
)

// The defaults that users read are those that work.
var (
	_ = [1]struct{}{}[holdfast.DefaultLease-engine.DefaultLease]
	_ = [1]struct{}{}[holdfast.DefaultRetryBudget-engine.DefaultRetryBudget]
	_ = [1]struct{}{}[holdfast.DefaultLinger-engine.DefaultLinger]
	_ = [1]struct{}{}[holdfast.DefaultLongWait-engine.DefaultLongWait]
)

func TestMain(m *testing.M) { redistest.Main(m) }
