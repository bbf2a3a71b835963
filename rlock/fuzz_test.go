package rlock_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// FuzzLease: what is not refused is used as it was given, rounded up to whole milliseconds: as the
// time to live on a real server, and, a little less, as the time for which the hold is trusted. The
// token's key lives for twice that.
func FuzzLease(f *testing.F) {
	const shortest, longest = time.Minute, math.MaxInt64 - time.Millisecond // shorter ones would end during the test
	for _, d := range []time.Duration{
		shortest, shortest + 1, time.Hour, 1 << 53, 1<<53*time.Microsecond - 1, math.MaxInt64 / 2, math.MaxInt64/2 - 42,
		longest,
	} {
		f.Add(int64(d), int64(time.Minute), "a")
		f.Add(int64(time.Minute), int64(d), "{a}b")
	}
	f.Fuzz(func(t *testing.T, of, extended int64, name string) {
		lease, longer := time.Duration(of), time.Duration(extended)
		if lease < shortest || lease > longest || longer < shortest || longer > longest {
			return
		}
		rdb := redistest.Shared(t).Client(t)
		m := rlock.New(newClient(t, rdb, nil), "{"+uniqueName(t)+"}"+name)
		hold, err := m.TryLock(t.Context(), holdfast.Lease(lease))
		if err != nil {
			t.Fatalf("lease %v, name %q: %v", lease, name, err)
		}
		lasts(t, rdb, m, hold, lease)
		if err := hold.Extend(t.Context(), longer); err != nil {
			t.Fatalf("extend %v to %v: %v", lease, longer, err)
		}
		lasts(t, rdb, m, hold, max(lease, longer))
		if err := hold.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// lasts checks how long a hold lasts that has just been confirmed: on the server, and for the
// process. The token's key goes by the longest lease too.
func lasts(t *testing.T, rdb *redis.Client, m *rlock.Mutex, hold *holdfast.Hold, lease time.Duration) {
	t.Helper()
	const slow = 40 * time.Second // for whatever the machine does in between
	state, err := m.State(t.Context())
	if err != nil || state.Owner != hold.Owner() || state.Token != hold.Token() {
		t.Fatalf("%+v, %v; the hold is %s with token %d", state, err, hold.Owner(), hold.Token())
	}
	if state.Remaining > lease+time.Millisecond || state.Remaining < lease-slow {
		t.Fatalf("a lease of %v has %v left", lease, state.Remaining)
	}
	trust := time.Until(hold.Deadline())
	if most := lease - lease/100; trust > most || trust < most-slow {
		t.Fatalf("a lease of %v is trusted for %v", lease, trust)
	}
	token := rdb.PTTL(t.Context(), "redisson_lock_token:"+m.Name()).Val()
	if lease >= math.MaxInt64/2-time.Millisecond { // the server is told whole milliseconds
		return // twice that is no duration
	}
	if most := max(time.Hour, 2*lease) + 2*time.Millisecond; token > most || token < most-slow {
		t.Fatalf("beside a lease of %v the token's key has %v left", lease, token)
	}
}
