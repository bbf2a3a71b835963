// Package kindtest states what every kind of lock must do, once, and checks it for each kind. A new
// kind describes itself as a [Kind] and starts with these tests. What only one kind promises (an
// order, a layout of keys, a majority) is tested in the kind's own package.
package kindtest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// patience is how long a test waits for what must come, on however slow a machine.
const patience = 20 * time.Second

// Kind is one kind of lock, on servers that the suite has for itself.
type Kind struct {
	// Name is the kind as errors have it.
	Name string
	// Lease is short, for tests that wait for its end, and long enough to be renewed in time on a
	// busy machine.
	Lease time.Duration
	// Client makes one more participant. It is closed at the end of the test.
	Client func(t *testing.T, opts *holdfast.Options) Client
	// Waiters is how many clients or owners the servers have that wait for a lock. Waiters of one
	// client may count as one.
	Waiters func(t *testing.T, name string) int
	// Lose gives a lock to a stranger, behind its holder's back. The stranger never gives it up.
	Lose func(t *testing.T, name string)
	// Sent is how many commands of locks the servers have run.
	Sent func(t *testing.T) int64
}

// Client is one participant: what is a process elsewhere.
type Client struct {
	ID    string
	New   func(name string, opts ...holdfast.Option) holdfast.Locker
	State func(ctx context.Context, name string) (holdfast.State, error)
	Close func(ctx context.Context) error
}

// Run checks all promises for a kind.
func Run(t *testing.T, k Kind) {
	for _, p := range []struct {
		name string
		test func(*subject)
	}{
		{"a grant has an owner, a token and a deadline", aGrant},
		{"one client excludes the others", exclusion},
		{"never are two inside, and tokens grow", crowd},
		{"the owner re-enters by the context of its hold", reentry},
		{"a context with a new owner does not re-enter", newOwner},
		{"the goroutines of an owner are inside together", oneOwner},
		{"an owner holds several names", severalNames},
		{"a refusal says who holds the lock", refusal},
		{"Wait bounds the wait and not the hold", wait},
		{"the end of the context ends the wait", endedWait},
		{"a waiter that gives up leaves nothing", giveUp},
		{"the unlock wakes a waiter of another client", wakeup},
		{"the unlock wakes a waiter of the same client", wakeupWithin},
		{"the lease of a dead holder ends", deadHolder},
		{"a hold is renewed", renewal},
		{"a hold without renewal ends with its lease", noRenewal},
		{"Extend lengthens the lease", extend},
		{"a lost hold ends", loss},
		{"Unlock finds out that the hold is lost", lossAtUnlock},
		{"Extend finds out that the hold is lost", lossAtExtend},
		{"a re-entry finds out that the hold is lost", lossAtReentry},
		{"a second Unlock does no harm", secondUnlock},
		{"Unlock is sent under a cancelled context", cancelledUnlock},
		{"the end of a hold is no new grant", underEndedHold},
		{"HoldAtLeast leaves the lock taken", holdAtLeast},
		{"HoldAtLeast ends", holdAtLeastEnds},
		{"Do unlocks, however its function ends", do},
		{"SyncLocker excludes and panics", syncLocker},
		{"Close releases what is held and ends waiters", closing},
		{"a closed client refuses", closed},
		{"bad input is refused before anything is sent", badInput},
		{"operations without a context", nilContexts},
	} {
		t.Run(p.name, func(t *testing.T) {
			p.test(&subject{T: t, kind: k, name: t.Name() + ":" + strconv.FormatInt(time.Now().UnixNano(), 36)})
		})
	}
}

// subject is a kind in one test, with a name for a lock that no other test uses.
type subject struct {
	*testing.T
	kind Kind
	name string
}

// client makes one more participant, with the defaults.
func (s *subject) client() Client {
	s.Helper()
	return s.kind.Client(s.T, nil)
}

// locker makes the lock for a new participant.
func (s *subject) locker(opts ...holdfast.Option) holdfast.Locker {
	s.Helper()
	return s.client().New(s.name, opts...)
}

// lock takes a lock, which is free or about to be.
func (s *subject) lock(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	s.Helper()
	h, err := l.Lock(ctx, opts...)
	require.NoError(s, err)
	return h
}

// unlock gives a hold back.
func (s *subject) unlock(h *holdfast.Hold) {
	s.Helper()
	require.NoError(s, h.Unlock(s.Context()))
}

// waiting takes a lock in a goroutine. It returns when the servers know of the waiter.
func (s *subject) waiting(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) <-chan result {
	s.Helper()
	c := background(ctx, l, opts...)
	s.eventually("somebody waits", func() bool { return s.kind.Waiters(s.T, l.Name()) > 0 })
	return c
}

// result is what came of a call of Lock.
type result struct {
	hold *holdfast.Hold
	err  error
}

// background takes a lock in a goroutine.
func background(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) <-chan result {
	c := make(chan result, 1)
	go func() {
		h, err := l.Lock(ctx, opts...)
		c <- result{h, err}
	}()
	return c
}

// granted waits for a grant.
func (s *subject) granted(c <-chan result) *holdfast.Hold {
	s.Helper()
	r := s.result(c)
	require.NoError(s, r.err)
	return r.hold
}

// result waits for the end of a call of Lock.
func (s *subject) result(c <-chan result) result {
	s.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(patience):
		require.Fail(s, "Lock does not return")
		return result{}
	}
}

// ended waits until a hold's context ends, and returns why.
func (s *subject) ended(h *holdfast.Hold) error {
	s.Helper()
	select {
	case <-h.Context().Done():
		return context.Cause(h.Context())
	case <-time.After(patience):
		require.Fail(s, "the hold's context does not end")
		return nil
	}
}

// state is a lock as the servers see it.
func (s *subject) state(c Client) holdfast.State {
	s.Helper()
	state, err := c.State(s.Context(), s.name)
	require.NoError(s, err)
	return state
}

// free demands that nobody holds the lock, and nobody waits for it.
func (s *subject) free(c Client) {
	s.Helper()
	state := s.state(c)
	require.Empty(s, state.Owner)
	require.Zero(s, state.Count)
	require.LessOrEqual(s, state.Waiters, 0)
}

// held demands that the owner of a hold has the lock, with a count.
func (s *subject) held(c Client, h *holdfast.Hold, count int) {
	s.Helper()
	state := s.state(c)
	require.Equal(s, h.Owner(), state.Owner)
	require.Equal(s, count, state.Count)
	require.Equal(s, h.Token(), state.Token)
}

// eventually waits for a condition.
func (s *subject) eventually(what string, cond func() bool) {
	s.Helper()
	require.Eventually(s, cond, patience, 2*time.Millisecond, what)
}
