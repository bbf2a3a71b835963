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
