package kindtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

// lost demands that a hold has ended because it was lost, and that its end touches nothing.
func (s *subject) lost(c Client, h *holdfast.Hold) {
	require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrLost)
	require.False(s, h.Deadline().After(time.Now()))
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
	require.ErrorIs(s, h.Extend(s.Context(), time.Minute), holdfast.ErrLost)
	again := Err(c.New(s.name).Lock(h.Context()))
	require.ErrorIs(s, again, holdfast.ErrLost, "a re-entry into a lost hold is no new grant")
	state := s.state(c)
	require.NotEmpty(s, state.Owner)
	require.NotEqual(s, h.Owner(), state.Owner)
	require.Greater(s, state.Remaining, time.Minute, "the other's lease is untouched")
}

func loss(s *subject) {
	c := s.kind.Client(s.T, &holdfast.Options{Lease: s.kind.Lease})
	h := s.lock(s.Context(), c.New(s.name))
	inner := s.reenter(h, c.New(s.name))
	s.kind.Lose(s.T, s.name)
	require.ErrorIs(s, Ended(s, h), holdfast.ErrLost)
	if inner != nil {
		require.ErrorIs(s, Ended(s, inner), holdfast.ErrLost)
		// The inner context derives from the outer, so it may end just before its own hold, whose deadline is not asked for.
		require.ErrorIs(s, inner.Unlock(s.Context()), holdfast.ErrLost)
	}
	s.lost(c, h)
}

func lossAtUnlock(s *subject) {
	c := s.client()
	h := s.lock(s.Context(), c.New(s.name))
	s.kind.Lose(s.T, s.name)
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
	state := s.state(c)
	require.NotEmpty(s, state.Owner)
	require.NotEqual(s, h.Owner(), state.Owner)
	require.Greater(s, state.Remaining, time.Minute)
}

func lossAtExtend(s *subject) {
	c := s.client()
	h := s.lock(s.Context(), c.New(s.name))
	s.kind.Lose(s.T, s.name)
	require.ErrorIs(s, h.Extend(s.Context(), time.Minute), holdfast.ErrLost)
	s.lost(c, h)
}

func lossAtReentry(s *subject) {
	c := s.client()
	h := s.lock(s.Context(), c.New(s.name))
	s.kind.Lose(s.T, s.name)
	require.ErrorIs(s, Err(c.New(s.name).Lock(h.Context())), holdfast.ErrLost)
	s.lost(c, h)
}

func secondUnlock(s *subject) {
	a, b := s.client(), s.client()
	h := s.lock(s.Context(), a.New(s.name))
	s.unlock(h)
	next := s.lock(s.Context(), b.New(s.name))
	err := h.Unlock(s.Context())
	require.ErrorIs(s, err, holdfast.ErrReleased)
	require.EqualError(s, err, s.kind.Name+`: unlock "`+s.name+`": already unlocked`)
	s.held(b, next, 1)
	s.unlock(next)
}

func cancelledUnlock(s *subject) {
	c := s.client()
	ctx, cancel := context.WithCancel(s.Context())
	h := s.lock(ctx, c.New(s.name))
	cancel()
	require.ErrorIs(s, h.Context().Err(), context.Canceled)
	s.held(c, h, 1)
	require.NoError(s, h.Unlock(ctx))
	s.free(c)
}

func underEndedHold(s *subject) {
	a, b := s.client(), s.client()
	h := s.lock(s.Context(), a.New(s.name))
	s.unlock(h)
	refused := func(c Client) {
		ended := "the hold of " + s.kind.Name + ` "` + s.name + `", under whose context it was called, has ended`
		l := c.New(s.name)
		for _, err := range []error{Err(l.Lock(h.Context())), Err(l.TryLock(h.Context()))} {
			Tells(s, err, holdfast.ErrReleased, Not(holdfast.ErrNotAcquired), ended)
		}
	}
	refused(a)
	require.NoError(s, a.Close(s.Context())) // joins what it still sends
	before := s.kind.Sent(s.T)
	refused(b)
	require.Equal(s, before, s.kind.Sent(s.T), "nothing is sent")
	s.free(b)
}

func do(s *subject) {
	c := s.client()
	l := c.New(s.name)
	ran := false
	require.NoError(s, holdfast.Do(s.Context(), l, func(ctx context.Context) error {
		ran = true
		require.NotEmpty(s, s.state(c).Owner)
		if s.kind.Once {
			return nil
		}
		inner, err := l.TryLock(ctx)
		if err != nil {
			return err
		}
		return inner.Unlock(ctx)
	}))
	require.True(s, ran)
	s.free(c)

	work := errors.New("work")
	require.ErrorIs(s, holdfast.Do(s.Context(), l, func(context.Context) error { return work }), work)
	s.free(c)
	require.PanicsWithValue(s, "in fn", func() {
		_ = holdfast.Do(s.Context(), l, func(context.Context) error { panic("in fn") })
	})
	s.free(c)
	h := s.lock(s.Context(), l)
	err := holdfast.Do(s.Context(), l, func(context.Context) error { panic("not called") }, holdfast.Wait(0))
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	s.unlock(h)
	err = holdfast.Do(s.Context(), l, func(context.Context) error {
		s.kind.Lose(s.T, s.name)
		return work
	})
	require.ErrorIs(s, err, holdfast.ErrLost, "nil only if held from start to end")
	require.ErrorIs(s, err, work)
	require.NotContains(s, err.Error(), "\n", "two errors in one line")
}

// forced: a lock is freed of its holder. Who waits gets it, and the holder's client is told at once.
func forced(s *subject) {
	c, other := s.client(), s.client()
	if c.Force == nil {
		return
	}
	there, err := c.Force(s.Context(), s.name)
	require.NoError(s, err)
	require.False(s, there)
	h := s.lock(s.Context(), c.New(s.name))
	inner := s.reenter(h, c.New(s.name))
	waiting := s.waiting(s.Context(), other.New(s.name))
	there, err = c.Force(s.Context(), s.name)
	require.NoError(s, err)
	require.True(s, there)
	next := waiting.Hold()
	require.Greater(s, next.Token(), h.Token())
	for _, h := range []*holdfast.Hold{h, inner} {
		require.ErrorIs(s, Ended(s, h), holdfast.ErrLost)
		require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
	}
	require.Equal(s, next.Owner(), s.state(c).Owner)
	s.unlock(next)
	s.free(c)
}

func syncLocker(s *subject) {
	const goroutines = 16
	c := s.client()
	l := holdfast.SyncLocker(s.Context(), c.New(s.name))
	n := 0
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			l.Lock()
			defer l.Unlock()
			n++
		})
	}
	group.Wait()
	require.Equal(s, goroutines, n)
	require.PanicsWithValue(s, "holdfast: unlock of unlocked lock "+s.name, l.Unlock)
	s.free(c)
}

func closing(s *subject) {
	a, b := s.client(), s.client()
	l := a.New(s.name)
	h := s.lock(s.Context(), l)
	holds := []*holdfast.Hold{h}
	if inner := s.reenter(h, l); inner != nil {
		holds = append(holds, inner)
	}
	own := []*Pending{Begin(s.Context(), s, l.Lock), Begin(s.Context(), s, a.New(s.name).Lock)}
	other := s.waiting(s.Context(), b.New(s.name))
	require.NoError(s, a.Close(s.Context()))
	for _, c := range own {
		require.ErrorIs(s, c.Err(), holdfast.ErrClosed)
	}
	for _, h := range holds {
		require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrClosed)
		require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrClosed)
		require.ErrorIs(s, h.Extend(s.Context(), time.Minute), holdfast.ErrClosed)
		require.False(s, h.Deadline().After(time.Now()))
	}
	next := other.Hold()
	require.Greater(s, next.Token(), h.Token())
	s.held(b, next, 1)
	s.unlock(next)
	require.NoError(s, a.Close(s.Context()), "twice is harmless")
	require.NoError(s, b.Close(s.Context()))
	s.eventually("nobody listens, nor has a place", func() bool { return s.kind.Waiters(s.T, s.name) == 0 })
}

func closed(s *subject) {
	a, b := s.client(), s.client()
	l := a.New(s.name)
	s.unlock(s.lock(s.Context(), l))
	require.NoError(s, a.Close(s.Context()))
	before := s.kind.Sent(s.T)
	ctx := s.Context()
	for _, err := range []error{Err(l.Lock(ctx)), Err(a.New(s.name).TryLock(ctx)), Err(a.State(ctx, s.name))} {
		require.ErrorIs(s, err, holdfast.ErrClosed)
	}
	require.Equal(s, before, s.kind.Sent(s.T), "nothing is sent")
	s.free(b)
}

func badInput(s *subject) {
	c := s.client()
	before := s.kind.Sent(s.T)
	good := func(opts ...holdfast.Option) error { return Err(c.New(s.name).Lock(s.Context(), opts...)) }
	named := func(name string, opts ...holdfast.Option) error {
		return Err(c.New(name, opts...).TryLock(s.Context()))
	}
	var none context.Context
	endless := "use at most 2562047h47m16.853775807s,"
	if s.kind.Once {
		endless = "HoldAtLeast is " // which it refuses altogether
	}
	long := strings.Repeat("x", 1025)
	for what, bad := range map[string]struct {
		err    error
		remedy string
	}{
		"empty name":    {named(""), "give the lock a name"},
		"long name":     {named(long), fmt.Sprintf("name has %d bytes; use at most 1024, such as a hash", len(long))},
		"open brace":    {named("a{b"), "close it"},
		"empty tag":     {named("a{}b"), "fill it"},
		"closing brace": {named("a}b"), "remove it"},
		"short lease": {good(holdfast.Lease(4*time.Millisecond - 1)),
			"Lease is 3.999999ms; a lease is at least 4ms"},
		"no lease":       {good(holdfast.Lease(0)), "at least 4ms"},
		"negative lease": {good(holdfast.Lease(-time.Second)), "at least 4ms"},
		"lowest lease":   {good(holdfast.Lease(math.MinInt64)), "at least 4ms"},
		"endless lease":  {good(holdfast.Lease(math.MaxInt64)), "at most"},
		"negative wait":  {good(holdfast.Wait(-1)), "Wait is -1ns; use 0 to try once"},
		"first of two":   {good(holdfast.Wait(-1), holdfast.Lease(0)), "Wait is -1ns"},
		"in New":         {named(s.name, holdfast.Wait(-1)), "use 0 to try once"},
		"no least time":  {good(holdfast.HoldAtLeast(0)), "HoldAtLeast is 0s"},
		"short least":    {good(holdfast.HoldAtLeast(time.Microsecond)), "HoldAtLeast is 1µs"},
		"negative least": {good(holdfast.HoldAtLeast(-time.Second)), "HoldAtLeast is -1s"},
		"lowest least":   {good(holdfast.HoldAtLeast(math.MinInt64)), "HoldAtLeast is -2562047h"},
		"endless least":  {good(holdfast.HoldAtLeast(math.MaxInt64)), endless},
		"nil option":     {good(holdfast.NoRenewal(), nil), "option 2 is nil; leave it out"},
		"nil context":    {Err(c.New(s.name).Lock(none)), "ctx is nil; use context.Background()"},
		"nil in TryLock": {Err(c.New(s.name).TryLock(none)), "ctx is nil; use context.Background()"},
		"nil in State":   {Err(c.State(none, s.name)), "ctx is nil; use context.Background()"},
		"nil function":   {holdfast.Do(s.Context(), c.New(s.name), nil), "fn is nil; pass the function"},
	} {
		require.ErrorIs(s, bad.err, holdfast.ErrInvalid, what)
		require.ErrorContains(s, bad.err, bad.remedy, what)
	}
	require.Equal(s, before, s.kind.Sent(s.T), "nothing is sent")
	require.Empty(s, s.witness.Calls(), "nor is an observer told of a wait")
	require.Zero(s, s.witness.Scripts())
}

func nilContexts(s *subject) {
	var none context.Context
	a, b := s.client(), s.client()
	h := s.lock(holdfast.WithOwner(none), a.New(s.name))
	require.ErrorIs(s, h.Extend(none, time.Minute), holdfast.ErrInvalid, "it asks for more")
	require.NoError(s, h.Unlock(none), "it gives back")
	s.free(b)
	s.lock(s.Context(), a.New(s.name))
	require.NoError(s, a.Close(none))
	s.free(b)
}

// unanswered is the ending that lasts for the whole retry budget.
const unanswered = "unlocked without an answer"

// endings end a hold whose lock is to stay. (A process that dies sends nothing: the granted time to live covers that.)
var endings = map[string]func(c Client, n network, h *holdfast.Hold){
	"unlocked": func(_ Client, _ network, h *holdfast.Hold) { _ = h.Unlock(context.Background()) },
	"closed":   func(c Client, _ network, _ *holdfast.Hold) { _ = c.Close(context.Background()) },
	unanswered: func(_ Client, n network, h *holdfast.Hold) {
		n.silence(true)
		_ = h.Unlock(context.Background())
	},
	"lost": func(_ Client, n network, h *holdfast.Hold) {
		n.silence(true)
		<-h.Context().Done()
	},
}

func init() {
	for _, fault := range faults {
		endings["unlocked, "+fault.String()] = func(_ Client, n network, h *holdfast.Hold) {
			n.strike(fault)
			_ = h.Unlock(context.Background())
		}
	}
}

// stays: the servers keep the lock for its time, and not for longer.
func stays(how string, end func(Client, network, *holdfast.Hold)) func(*subject) error {
	return func(s *subject) error {
		opts := &holdfast.Options{Lease: s.kind.Lease}
		if how == unanswered {
			opts.RetryBudget = time.Second
		}
		c, n := s.far(opts)
		s.known(c)
		h := s.lock(s.Context(), c.New(s.name), holdfast.HoldAtLeast(time.Hour))
		s.eventually("all have granted it", func() bool { return s.taken(s.name) == len(n) })
		end(c, n, h)
		n.silence(false)
		require.NoError(s, c.Close(s.Context())) // joins what is done in the background
		if s.taken(s.name) < len(n) {
			return errors.New("the lock is free")
		}
		least, most := s.left(s.name)
		require.Greater(s, least, time.Hour-2*patience)
		require.LessOrEqual(s, most, time.Hour+time.Hour/50)
		return nil
	}
}

// lateExtension: the network keeps an extension until its lock was left, by Unlock or by Close.
func lateExtension(s *subject) error {
	for _, unlocks := range []bool{true, false} {
		s.name += "+"
		// An answer is waited for longer than anything is repeated.
		c, n := s.kind.far(s.T, s.seen(&holdfast.Options{RetryBudget: time.Second / 2}), time.Second, s.hooks...)
		s.known(c)
		h := s.lock(s.Context(), c.New(s.name), holdfast.HoldAtLeast(time.Minute))
		s.eventually("all have granted it", func() bool { return s.taken(s.name) == len(n) })
		n.each(func(p *faultproxy.Proxy) { p.KeepRequest(scripts, 1, time.Hour) })
		require.ErrorIs(s, h.Extend(s.Context(), time.Hour), holdfast.ErrUncertain)
		if unlocks {
			s.unlock(h)
		}
		require.NoError(s, c.Close(s.Context()))
		_, before := s.left(s.name)
		n.each((*faultproxy.Proxy).Deliver)
		if _, most := s.left(s.name); most > before {
			return errors.New("it was lengthened")
		}
	}
	return nil
}

// givenBack: a lock left in vain ends when it need not stay any more. In a control nothing gives it back.
func (s *subject) givenBack(c Client) error {
	if s.control {
		require.NoError(s, c.Close(s.Context())) // joins the background: nothing more will come
		if s.taken(s.name) > 0 {
			return errors.New("it stays until its lease ends")
		}
		return nil
	}
	s.eventually("given back", func() bool { return s.taken(s.name) == 0 })
	return nil
}

// lateAcquisition: the network keeps an attempt for a long lease, which comes after a repeat and the lock's HoldAtLeast.
func lateAcquisition(s *subject) error {
	c, n := s.patient(&holdfast.Options{Lease: time.Hour})
	s.known(c)
	last := n[len(n)-1]
	kept := last.KeepRequest(scripts, 1, time.Hour)
	go func() {
		<-kept.Fired()
		last.CutAll()
	}()
	h := s.lock(s.Context(), c.New(s.name), holdfast.HoldAtLeast(50*time.Millisecond))
	<-kept.Fired()
	s.unlock(h)
	s.eventually("its time is over", func() bool { return s.taken(s.name) == 0 })
	last.Deliver()
	return s.givenBack(c)
}

// stayedInOutage: no server hears of the Unlock, before the time is over or after. The lock is given back then, not before.
func stayedInOutage(s *subject) error {
	for _, d := range []time.Duration{500 * time.Millisecond, time.Millisecond} {
		s.name += "+"
		c, n := s.patient(&holdfast.Options{Lease: time.Hour, RetryBudget: farTimeout})
		s.known(c)
		start := time.Now()
		h := s.lock(s.Context(), c.New(s.name), holdfast.HoldAtLeast(d))
		n.each((*faultproxy.Proxy).Stop)
		require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrUnavailable)
		require.NotZero(s, s.taken(s.name))
		n.each((*faultproxy.Proxy).Start)
		if err := s.givenBack(c); err != nil {
			return err
		}
		require.GreaterOrEqual(s, time.Since(start), d)
	}
	return nil
}
