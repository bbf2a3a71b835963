package holdfast_test

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/rlock"
)

var errNoServer = errors.New("there is no server")

// unreachable is a go-redis client that counts its attempts to reach a server, in vain.
func unreachable(t *testing.T) (*redis.Client, *atomic.Int64) {
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errNoServer
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, &dials
}

// fault is what is wrong with a duration of an argument: its name, and the remedy that the error
// must give; empty if nothing.
type fault struct{ field, remedy string }

func faultOfLease(field string, d time.Duration) *fault {
	switch {
	case d < 4*time.Millisecond:
		return &fault{field, "at least 4ms"}
	case d > math.MaxInt64-time.Millisecond:
		return &fault{field, "at most"}
	}
	return nil
}

// refused checks that an error says what is wrong: the field, the value and the remedy.
func (f *fault) refused(t *testing.T, err error, value time.Duration) {
	t.Helper()
	if !errors.Is(err, holdfast.ErrInvalid) {
		t.Fatalf("%s %v: %v", f.field, value, err)
	}
	for _, part := range []string{f.field + " is", value.String(), f.remedy} {
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("%s %v: %q does not say %q", f.field, value, err, part)
		}
	}
}

// extremes are durations at which something changes or overflows.
var extremes = []time.Duration{
	math.MinInt64, -1, 0, 1, time.Millisecond, 4*time.Millisecond - 1, 4 * time.Millisecond, time.Hour, 1 << 53,
	math.MaxInt64 / 2,
	math.MaxInt64 - time.Millisecond, math.MaxInt64 - time.Millisecond + 1, math.MaxInt64,
}

// FuzzOptions: New returns an error that says what to do, or a client; it sends nothing either way,
// and leaves the caller's struct alone.
func FuzzOptions(f *testing.F) {
	for _, d := range extremes {
		f.Add(int64(d), int64(0), int64(0))
		f.Add(int64(time.Second), int64(d), int64(0))
		f.Add(int64(0), int64(time.Second), int64(d))
	}
	f.Fuzz(func(t *testing.T, lease, budget, linger int64) {
		opts := holdfast.Options{
			Lease: time.Duration(lease), RetryBudget: time.Duration(budget), Linger: time.Duration(linger),
		}
		before := opts
		rdb, dials := unreachable(t)
		client, err := holdfast.New(rdb, &opts)
		if opts != before || dials.Load() != 0 {
			t.Fatalf("options %+v became %+v, %d dials", before, opts, dials.Load())
		}
		bad, value := faultOfLease("Options.Lease", opts.Lease), opts.Lease
		switch {
		case lease != 0 && bad != nil:
		case budget < 0:
			bad, value = &fault{"Options.RetryBudget", "positive duration"}, opts.RetryBudget
		case linger < 0:
			bad, value = &fault{"Options.Linger", "positive duration"}, opts.Linger
		default:
			bad = nil
		}
		if bad != nil {
			bad.refused(t, err, value)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Close(context.Background()); err != nil || dials.Load() != 0 {
			t.Fatalf("close: %v, %d dials", err, dials.Load())
		}
	})
}

// FuzzBadInput: a lock's name and options, given to New or to Lock, are refused for the first thing
// that is wrong with them before anything is sent, and what is not refused is sent.
func FuzzBadInput(f *testing.F) {
	for _, d := range extremes {
		f.Add("a", int64(d), int64(0), false)
		f.Add("a", int64(time.Second), int64(d), true)
	}
	for _, name := range []string{"", "{", "}", "{}", "a{b", "a{}b{c}", "{a}", "\xff"} {
		f.Add(name, int64(time.Second), int64(0), true)
	}
	f.Fuzz(func(t *testing.T, name string, lease, wait int64, inNew bool) {
		rdb, dials := unreachable(t)
		client, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
		opts := []holdfast.Option{holdfast.Wait(time.Duration(wait)), holdfast.Lease(time.Duration(lease))}
		var hold *holdfast.Hold
		if inNew {
			hold, err = rlock.New(client, name, opts...).TryLock(t.Context())
		} else {
			hold, err = rlock.New(client, name).TryLock(t.Context(), opts...)
		}
		bad, value := faultOfLease("Lease", time.Duration(lease)), time.Duration(lease)
		if wait < 0 {
			bad, value = &fault{"Wait", "use 0 to try once"}, time.Duration(wait)
		}
		switch invalid := errors.Is(err, holdfast.ErrInvalid); {
		case hold != nil || err == nil:
			t.Fatalf("a lock without a server: %v", err)
		case invalid != (dials.Load() == 0):
			t.Fatalf("%v after %d dials", err, dials.Load())
		case invalid && keys.Check(name) != nil: // FuzzSlots knows which names are bad
		case bad != nil:
			bad.refused(t, err, value)
		case invalid:
			t.Fatalf("%q with lease %v and wait %v: %v", name, time.Duration(lease), time.Duration(wait), err)
		}
	})
}
