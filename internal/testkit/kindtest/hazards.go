package kindtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

// hazard is a fault of a server or of the way to it, or a leaving caller. It returns the harm that a missing defence allows.
type hazard struct {
	name  string
	harm  func(*subject) error
	again bool // it is about what a kind of single acquisitions does not have
	alone bool // it counts what servers and this process do, so nothing else happens meanwhile
}

func hazards() []hazard {
	all := []hazard{
		{"each operation meets each fault, and happens once", repeats, false, false},
		{"a renewal meets each fault", renewalMeets, false, false},
		{"who leaves before the grant leaves nothing", leaves, false, false},
		{"who leaves a silent connection is not waited for", leavesSilence, false, false},
		{"who leaves before a re-entry leaves the count", leavesReentry, true, false},
		{"a holder who hears nothing is told before another is inside", silence, false, false},
		{"an outage is no contention", outage, false, false},
		{"eight who leave at once are told of no outage", impatient(8), false, false},
		{"sixty-four who leave at once are told of no outage", impatient(64), false, false},
		{"a waiter that cannot listen is granted the free lock", cannotListen, false, false},
		{"a late extension does not lengthen what was left", lateExtension, true, false},
		{"a late acquisition is given back", lateAcquisition, true, false},
		{"what was to stay is given back after an outage", stayedInOutage, true, false},
		{"a lease is trusted from when it was asked for", askedFor, false, false},
		{"a deadline holds while the servers say nothing", deadlineHolds, false, false},
		{"Unlock does not hide a loss behind a lost answer", lostBefore, false, false},
		{"a grant that comes too late is asked for again", slowGrant, false, false},
		{"who leaves while go-redis dials again is told why", redials, false, false},
		{"who leaves while no connection opens is told of an outage", neverOpens, false, false},
	}
	for how, end := range endings {
		all = append(all, hazard{"HoldAtLeast holds, " + how, stays(how, end), true, false})
	}
	return append(all, bursts...)
}

// Harm makes a hazard happen in a control, which switched a defence off or breaks a script by a hook. The harm is not nil.
func Harm(t *testing.T, k Kind, name string, hooks ...redis.Hook) error {
	all := hazards()
	i := slices.IndexFunc(all, func(h hazard) bool { return h.name == name })
	require.GreaterOrEqual(t, i, 0, "there is no hazard of this name")
	err := all[i].harm(&subject{T: t, kind: k, name: UniqueName(t), hooks: hooks, control: true})
	require.Error(t, err, "the fault is none")
	return err
}

// network is the way of one participant to its servers: a proxy for each.
type network []*faultproxy.Proxy

func (n network) each(f func(*faultproxy.Proxy)) {
	for _, p := range n {
		f(p)
	}
}

func (n network) silence(on bool) { n.each(func(p *faultproxy.Proxy) { p.Silence(on) }) }

// strikes are faults that wait for the next script, one at each server.
type strikes []*faultproxy.Rule

var scripts = faultproxy.Command("EVALSHA", "EVAL")

func (n network) strike(fault faultproxy.Action) (all strikes) {
	n.each(func(p *faultproxy.Proxy) { all = append(all, p.On(scripts, 1, fault)) })
	return all
}

// met reports whether a fault has happened.
func (s strikes) met() bool {
	return slices.ContainsFunc(s, func(r *faultproxy.Rule) bool { return r.Count() > 0 })
}

func (s strikes) fired() {
	for _, r := range s {
		<-r.Fired()
	}
}

func (s strikes) clear() {
	for _, r := range s {
		r.Clear()
	}
}

// farTimeout is when a far participant gives up a silent connection, while there is a fault.
const farTimeout = 200 * time.Millisecond

// far makes a participant behind a network.
func (s *subject) far(opts *holdfast.Options) (Client, network) {
	return s.kind.far(s.T, s.seen(opts), farTimeout, s.hooks...)
}

// patient makes one that waits for answers for as long as a busy machine may need.
func (s *subject) patient(opts *holdfast.Options) (Client, network) {
	return s.kind.far(s.T, s.seen(opts), patience, s.hooks...)
}

// taken is how many servers say that somebody has a lock.
func (s *subject) taken(name string) (n int) {
	for _, rdb := range s.kind.direct {
		there, err := rdb.Exists(s.Context(), s.kind.key(name)).Result()
		require.NoError(s, err)
		n += int(there)
	}
	return n
}

// left is for how long the servers have a lock still, the least and the most.
func (s *subject) left(name string) (least, most time.Duration) {
	for i, rdb := range s.kind.direct {
		d := rdb.PTTL(s.Context(), name).Val()
		require.Positive(s, d)
		if least, most = min(least, d), max(most, d); i == 0 {
			least = d
		}
	}
	return least, most
}

// known has the servers know the scripts, and the participant the servers.
func (s *subject) known(c Client) {
	for _, op := range s.life(c, s.name+" before") {
		require.NoError(s, op.do(), op.name)
	}
	s.eventually("free", func() bool { return s.taken(s.name+" before") == 0 })
}

// operation is one of a hold's life.
type operation struct {
	name  string
	count int // of the holds that are open after it
	do    func() error
}

func (s *subject) life(c Client, name string) []operation {
	var outer, inner *holdfast.Hold
	l := c.New(name)
	all := []operation{
		{"lock", 1, func() (err error) { outer, err = l.Lock(s.Context()); return err }},
		{"re-enter", 2, func() (err error) { inner, err = l.Lock(outer.Context()); return err }},
		{"unlock within", 1, func() error { return inner.Unlock(s.Context()) }},
		{"extend", 1, func() error { return outer.Extend(s.Context(), time.Hour) }},
		{"unlock", 0, func() error { return outer.Unlock(s.Context()) }},
	}
	if len(s.kind.direct) == 1 { // several are asked once what each of them says
		all = slices.Insert(all, 4, operation{"state", 1, func() error { _, err := c.State(s.Context(), name); return err }})
	}
	if s.kind.Once {
		return append(all[:1], all[3:]...)
	}
	return all
}

// repeats: what the servers have is right after each operation, whatever has happened to it.
func repeats(s *subject) error {
	direct := s.client()
	c, n := s.far(nil)
	s.known(c)
	for _, fault := range faults {
		for _, op := range s.life(c, s.name) {
			hit := n.strike(fault)
			if err := op.do(); err != nil {
				return fmt.Errorf("%s meets %v: %w", op.name, fault, err)
			}
			s.eventually("the fault was met", hit.met)
			hit.clear()
			s.eventually(op.name+" has happened once", func() bool { return s.state(direct).Count == op.count })
		}
		s.eventually("free", func() bool { return s.taken(s.name) == 0 })
	}
	for _, rdb := range s.kind.direct {
		for _, key := range rdb.Keys(s.Context(), "*"+s.name+"*").Val() {
			require.NotEqual(s, time.Duration(-1), rdb.PTTL(s.Context(), key).Val(), "key %s has no time to live", key)
		}
	}
	return nil
}

func renewalMeets(s *subject) error {
	var renewed []func() bool
	for i, fault := range faults {
		c, n := s.far(&holdfast.Options{Lease: 4 * s.kind.Lease})
		h := s.lock(s.Context(), c.New(s.name+strconv.Itoa(i)))
		first, hit := h.Deadline(), n.strike(fault)
		renewed = append(renewed, func() bool { return hit.met() && h.Deadline().After(first) && h.Context().Err() == nil })
	}
	for i, cond := range renewed {
		s.eventually("renewed after "+faults[i].String(), cond)
	}
	return nil
}

// leaveGranted has a caller leave while the answers to its call are on the way, when it has been looked at what that has done.
func (n network) leaveGranted(ctx context.Context, s *subject, l holdfast.Locker, look func()) (held strikes, told error) {
	held = n.strike(faultproxy.HoldReply)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := Begin(ctx, s, l.Lock)
	held.fired()
	look()
	cancel()
	return held, left.Err()
}

// leaves: the servers have granted the lock, and their answers are on the way.
func leaves(s *subject) error {
	c, n := s.far(nil)
	s.known(c)
	granted := func() { require.Len(s, n, s.taken(s.name), "granted to nobody") }
	held, told := n.leaveGranted(s.Context(), s, c.New(s.name), granted)
	require.ErrorIs(s, told, context.Canceled)
	held.clear()
	require.NoError(s, c.Close(s.Context())) // joins what is done in the background
	if s.taken(s.name) > 0 {
		return errors.New("the lock is taken for nobody")
	}
	return nil
}

// leavesSilence: the connections that granted the lock are silent. Others give it back long before a read of those ends.
func leavesSilence(s *subject) error {
	direct := s.client()
	c, n := s.patient(&holdfast.Options{RetryBudget: patience})
	s.known(c)
	n.each(func(p *faultproxy.Proxy) { p.DelayReply(func([]string) bool { return true }, 0, tardy) })
	s.unlock(s.lock(s.Context(), c.New(s.name+" before"))) // so that the next one is not asked for in its caller's goroutine
	n.each((*faultproxy.Proxy).Clear)
	granted := func() { require.Len(s, n, s.taken(s.name), "granted to nobody") }
	held, told := n.leaveGranted(s.Context(), s, c.New(s.name), granted)
	require.ErrorIs(s, told, context.Canceled)
	wait := patience / 2
	if s.control {
		wait = time.Second
	}
	_, err := direct.New(s.name).Lock(s.Context(), holdfast.Wait(wait))
	held.clear()
	return err
}

func leavesReentry(s *subject) error {
	direct := s.client()
	c, n := s.far(nil)
	s.known(c)
	l := c.New(s.name)
	h := s.lock(s.Context(), l)
	counted := func() { require.Equal(s, 2, s.state(direct).Count, "counted for nobody") }
	held, told := n.leaveGranted(h.Context(), s, l, counted)
	require.ErrorIs(s, told, holdfast.ErrUnavailable)
	held.clear()
	s.eventually("the count is put right", func() bool { return s.state(direct).Count == 1 })
	again := s.lock(h.Context(), l)
	require.Equal(s, 2, again.Count())
	s.unlock(again)
	s.unlock(h)
	return nil
}

// askedFor: the answers to all that sets a lease take their time. The lease is trusted from before that.
func askedFor(s *subject) error {
	c, n := s.patient(nil)
	s.known(c)
	var h *holdfast.Hold
	for _, op := range []struct {
		name  string
		lease time.Duration
		do    func() error
	}{
		{"lock", holdfast.DefaultLease, func() (err error) {
			s.name += "+" // when it is locked again, see delayed
			h, err = c.New(s.name).Lock(s.Context())
			return err
		}},
		{"re-enter", holdfast.DefaultLease, func() error { _, err := c.New(s.name).Lock(h.Context()); return err }},
		{"extend", time.Hour, func() error { return h.Extend(s.Context(), time.Hour) }},
	} {
		if s.kind.Once && op.name == "re-enter" {
			continue
		}
		asked, err := n.delayed(op.do)
		require.NoError(s, err, op.name)
		trusted := op.lease - op.lease/100 - 2*time.Millisecond // for the clocks, see docs/how-it-works.md
		if late := h.Deadline().Sub(asked.Add(trusted)); late > 0 {
			return fmt.Errorf("%s: trusted for %v too long", op.name, late)
		}
	}
	return nil
}

// delayed makes a call whose answers are late, and returns a time at which all of it was sent and nothing answered.
func (n network) delayed(call func() error) (asked time.Time, err error) {
	for {
		hit, done := n.strike(faultproxy.HoldReply), make(chan error, 1)
		go func() { done <- call() }()
		hit.fired()
		sent := n.sent()
		asked = time.Now()
		hit.clear()
		if err = <-done; err != nil || n.sent() == sent {
			return asked, err
		} // else a busy machine has asked once more
	}
}

// sent is how many scripts have come to the proxies.
func (n network) sent() (sum int) {
	n.each(func(p *faultproxy.Proxy) { sum += p.Seen(scripts) })
	return sum
}

func silence(s *subject) error {
	c, n := s.far(&holdfast.Options{Lease: s.kind.Lease})
	h := s.lock(s.Context(), c.New(s.name))
	n.silence(true)
	next := s.lock(s.Context(), s.client().New(s.name)) // when the lease has ended at the servers
	told := h.Context().Err()
	n.silence(false)
	s.unlock(next)
	if told == nil {
		return errors.New("two are inside")
	}
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
	if len(n) == 1 { // several say what each of them said
		require.ErrorContains(s, context.Cause(h.Context()), "could not be renewed in time")
	}
	return nil
}

// cannotListen: subscribing gets no answer, as behind some proxies. The waiter asks, and has the lock without being told.
func cannotListen(s *subject) error {
	c, n := s.patient(nil)
	s.known(c)
	h := s.lock(s.Context(), s.client().New(s.name))
	var subscribes strikes
	n.each(func(p *faultproxy.Proxy) {
		subscribes = append(subscribes, p.On(faultproxy.Command("SUBSCRIBE"), 0, faultproxy.BlackHole))
	})
	limit := patience / 2
	if s.control {
		limit = 3 * time.Second // far less than the lease, and than it takes to give the connection up
	}
	waits := Begin(s.Context(), s, c.New(s.name).Lock, holdfast.Wait(limit))
	s.eventually("it subscribes", subscribes.met)
	s.unlock(h)
	next, err := waits.Result()
	if err != nil {
		return fmt.Errorf("the lock is free: %w", err)
	}
	s.unlock(next)
	return nil
}

// outage: with no server in reach no operation says that the lock is held; each says what went wrong, however it is limited.
func outage(s *subject) error {
	c, n := s.far(&holdfast.Options{RetryBudget: 100 * time.Millisecond})
	bounded, m := s.far(&holdfast.Options{RetryBudget: 2 * patience}) // by its callers
	for _, each := range []network{n, m} {
		each.each((*faultproxy.Proxy).Stop)
		defer each.each((*faultproxy.Proxy).Start)
	}
	l, waits := c.New(s.name), bounded.New(s.name)
	ended, cancel := context.WithTimeout(s.Context(), time.Nanosecond)
	defer cancel()
	calls := map[string]func(soon time.Duration) error{
		"lock": func(time.Duration) error { _, err := l.Lock(s.Context()); return err },
		"try":  func(time.Duration) error { _, err := l.TryLock(s.Context()); return err },
		"wait": func(soon time.Duration) error { _, err := waits.Lock(s.Context(), holdfast.Wait(soon)); return err },
		"context": func(soon time.Duration) error {
			ctx, cancel := context.WithTimeout(s.Context(), soon)
			defer cancel()
			_, err := waits.Lock(ctx)
			require.ErrorIs(s, err, context.DeadlineExceeded)
			return err
		},
		"state": func(time.Duration) error { _, err := c.State(s.Context(), s.name); return err },
	}
	if c.Force != nil {
		calls["force"] = func(time.Duration) error { _, err := c.Force(s.Context(), s.name); return err }
	}
	for what, call := range calls {
		err := call(50 * time.Millisecond)
		for soon := 100 * time.Millisecond; !errors.Is(err, syscall.ECONNREFUSED) && soon < patience; soon *= 2 {
			err = call(soon) // a busy machine may need longer than that to ask, and to be refused
		}
		if errors.Is(err, holdfast.ErrNotAcquired) {
			return err
		}
		require.ErrorIs(s, err, holdfast.ErrUnavailable, what)
		require.ErrorIs(s, err, syscall.ECONNREFUSED, what)
		require.ErrorContains(s, err, syscall.ECONNREFUSED.Error(), what)
	}
	<-ended.Done()
	err := Err(l.Lock(ended)) // before anything was asked
	Tells(s, err, context.DeadlineExceeded, Not(holdfast.ErrUnavailable), Not(holdfast.ErrNotAcquired))
	return nil
}

// lostBefore: at the unlock another has the lock, and the answers are lost: repeats cannot know if the first released it.
func lostBefore(s *subject) error {
	c, n := s.far(nil)
	s.known(c)
	h := s.lock(s.Context(), c.New(s.name))
	s.kind.Lose(s.T, s.name)
	n.strike(faultproxy.DropReply)
	err := h.Unlock(s.Context())
	if err == nil {
		return errors.New("nobody is told of the loss")
	}
	require.ErrorIs(s, err, holdfast.ErrUncertain)
	require.NotErrorIs(s, err, holdfast.ErrUnavailable, "the servers have answered")
	return nil
}

// slowGrant: the answer to a grant comes when its lease cannot be trusted any more. The lock is free all the while.
func slowGrant(s *subject) error {
	c, n := s.patient(nil)
	s.known(c)
	hit := n.strike(faultproxy.HoldReply)
	waits := Begin(s.Context(), s, c.New(s.name).Lock, holdfast.Lease(s.kind.Lease))
	hit.fired()
	over, cancel := context.WithTimeout(s.Context(), s.kind.Lease)
	defer cancel()
	<-over.Done()
	hit.clear()
	h, err := waits.Result()
	if err != nil {
		return err
	}
	s.unlock(h)
	return nil
}
