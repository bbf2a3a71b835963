package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// slack is how late something may be on a busy machine. What comes too early is never forgiven.
func slack() time.Duration { return pace() * time.Second }

// rounding is how much too early something may seem: Redis counts in whole milliseconds.
const rounding = 2 * time.Millisecond

// story is the demo's plot. Its chapters build on each other; each checks what it shows. An error
// means that the story cannot go on, a failed check that something was not as it should be.
type story struct {
	*screen
	rdb     redis.UniversalClient
	mutex   *rlock.Mutex // the demo's own view; it never locks
	queue   *fairlock.Mutex
	client  *holdfast.Client
	kin     family // the demo's own view of the other kinds
	calls   calls
	start   order
	began   time.Time
	crew    []*member
	a, b, c *member
	tokens  []uint64 // of every grant of the first lock, in order
	emulate bool     // the masters too

	masters []*master
	d, e    *member // compete for their lock
}

func (s *story) tell(ctx context.Context) error {
	for _, m := range []**member{&s.a, &s.b, &s.c} {
		w, err := recruit(ctx, s.start)
		if err != nil {
			return err
		}
		*m = w
		s.crew = append(s.crew, w)
	}
	s.note(fmt.Sprintf("workers A, B and C are the processes %d, %d and %d", s.a.pid(), s.b.pid(), s.c.pid()))
	s.note(fmt.Sprintf("leases of %s, renewed every %s", brief(demoLease()), brief(demoLease()/3)))
	for _, chapter := range []func(context.Context) error{
		s.reentry, s.renewal, s.handOver, s.killed, s.lost, s.fencing, s.fair, s.readers, s.permits, s.opening, s.several, s.leaders,
		s.quorum, s.afterwards,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) reentry(ctx context.Context) error {
	s.chapter("rlock: a process locks, and locks again")
	outer, err := s.a.do(ctx, order{Op: "lock"})
	if err != nil {
		return err
	}
	s.granted(outer)
	state, err := s.mutex.State(ctx)
	if err != nil {
		return err
	}
	s.check(outer.Count == 1 && holds(state, outer), "A locks", "token %d", outer.Token)

	inner, err := s.a.do(ctx, order{Op: "lock"})
	if err != nil {
		return err
	}
	if state, err = s.mutex.State(ctx); err != nil {
		return err
	}
	s.check(inner.Count == 2 && inner.Owner == outer.Owner && inner.Token == outer.Token && holds(state, inner),
		"A locks again: the same owner", "same token; Redis counts %d", state.Count)

	if _, err = s.a.do(ctx, order{Op: "unlock"}); err != nil {
		return err
	}
	if state, err = s.mutex.State(ctx); err != nil {
		return err
	}
	s.check(holds(state, outer), "A unlocks the inner one: still held", "Redis counts %d", state.Count)
	return nil
}

func (s *story) renewal(ctx context.Context) error {
	s.chapter("It holds on for longer than the lease")
	try, err := s.b.do(ctx, order{Op: "try"})
	if err != nil {
		return err
	}
	s.check(try.Refusal == "not acquired", "B tries, without waiting", "%s", outcomeOf(try))

	before, err := s.mutex.State(ctx)
	if err != nil {
		return err
	}
	if err = s.b.order(order{Op: "lock"}); err != nil {
		return err
	}
	select {
	case <-time.After(demoHolding()):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	state, err := s.mutex.State(ctx)
	if err != nil {
		return err
	}
	s.check(state.Owner == before.Owner && state.Owner != "" && state.Remaining > 0 && state.Remaining <= demoLease(),
		fmt.Sprintf("A holds it for %s; B waits", brief(demoHolding())), "Redis: %s left of %s",
		brief(state.Remaining), brief(demoLease()))
	return nil
}

func (s *story) handOver(ctx context.Context) error {
	s.chapter("It hands over")
	unlock, err := s.a.do(ctx, order{Op: "unlock"})
	if err != nil {
		return err
	}
	grant, err := s.b.answer(ctx)
	if err != nil {
		return err
	}
	s.granted(grant)
	gap := grant.Ended.Sub(unlock.Began)
	// Longer than that, and it was the end of the lease that let B in, not the message.
	s.check(unlock.Refusal == "" && gap > 0 && gap < demoLease()/2, "A unlocks: B is woken by a message",
		"%s from unlock to grant", brief(gap))
	return nil
}

func (s *story) killed(ctx context.Context) error {
	s.chapter("A process dies")
	if err := s.a.order(order{Op: "lock"}); err != nil {
		return err
	}
	s.b.kill()
	asked := time.Now()
	state, err := s.mutex.State(ctx)
	if err != nil {
		return err
	}
	s.check(state.Owner != "" && state.Token == s.last() && state.Remaining > 0,
		"B is killed with SIGKILL, while A waits",
		"%s left of its lease", brief(state.Remaining))

	grant, err := s.a.answer(ctx)
	if err != nil {
		return err
	}
	s.granted(grant)
	gap := grant.Ended.Sub(asked)
	s.check(grant.Refusal == "" && gap > state.Remaining-rounding && gap < state.Remaining+slack(),
		"A gets it when the lease has ended", "after %s", brief(gap))
	return nil
}

func (s *story) lost(ctx context.Context) error {
	s.chapter("A lock is lost")
	deleted := time.Now()
	if err := s.rdb.Del(ctx, s.start.Name).Err(); err != nil {
		return err
	}
	loss, err := s.a.loss(ctx)
	if err != nil {
		return err
	}
	after := loss.Ended.Sub(deleted)
	s.check(loss.Refusal == "lock lost" && loss.Token == s.last() && after < demoLease()/3+slack(),
		"somebody deletes the key: A is told", "%s, after %s", loss.Refusal, brief(after))

	grant, err := s.c.do(ctx, order{Op: "lock"})
	if err != nil {
		return err
	}
	s.granted(grant)
	unlock, err := s.a.do(ctx, order{Op: "unlock"})
	if err != nil {
		return err
	}
	state, err := s.mutex.State(ctx)
	if err != nil {
		return err
	}
	s.check(unlock.Refusal == "lock lost" && holds(state, grant), "C locks; A unlocks what is C's now",
		"%s; C has it", outcomeOf(unlock))
	return nil
}

func (s *story) fencing(ctx context.Context) error {
	s.chapter("What is too late is refused")
	fresh, err := s.c.do(ctx, order{Op: "write", Value: "from C"})
	if err != nil {
		return err
	}
	s.check(fresh.Refusal == "", "C writes; its context carries its token", "accepted: %d", fresh.Token)
	stale, err := s.a.do(ctx, order{Op: "write", Value: "from A"})
	if err != nil {
		return err
	}
	stored, err := s.rdb.Get(ctx, s.start.Store).Result()
	if err != nil {
		return err
	}
	s.check(stale.Refusal == "stale token" && stale.Seen == fresh.Token && stale.Token < fresh.Token &&
		stored == "from C",
		"A comes late: Redis refuses its token", "refused: %d", stale.Token)

	growing := len(s.tokens) == 4
	for i := 1; i < len(s.tokens); i++ {
		growing = growing && s.tokens[i-1] < s.tokens[i]
	}
	s.check(growing, "each grant had a greater token", "%d grants", len(s.tokens))
	unlock, err := s.c.do(ctx, order{Op: "unlock"})
	if err != nil {
		return err
	}
	state, err := s.mutex.State(ctx)
	if err != nil {
		return err
	}
	s.check(unlock.Refusal == "" && state.Owner == "", "C unlocks", "nobody holds it")
	return nil
}

func (s *story) afterwards(ctx context.Context) error {
	s.chapter("Nothing is left")
	well := true
	for _, m := range []*member{s.a, s.c, s.d, s.e} {
		well = m.dismiss(ctx) && well
	}
	ends := true
	for _, key := range s.keys() {
		ttl, err := s.rdb.PTTL(ctx, key).Result()
		if err != nil {
			return err
		}
		ends = ends && ttl != -1
	}
	s.check(well && ends, "the processes end by themselves", "no key without a TTL")
	err := s.deleteKeys(ctx)
	if err != nil {
		return err
	}
	left, err := s.rdb.Exists(ctx, s.keys()...).Result()
	if err != nil {
		return err
	}
	s.check(left == 0, "the demo deletes its keys", "%d left", left)
	return nil
}

// granted notes a token. A refusal has none and is left for a check to tell.
func (s *story) granted(r result) {
	if r.Refusal == "" {
		s.tokens = append(s.tokens, r.Token)
	}
}

// last is the token of the last grant.
func (s *story) last() uint64 {
	if len(s.tokens) == 0 {
		return 0
	}
	return s.tokens[len(s.tokens)-1]
}

// holds says whether the server agrees with a worker.
func holds(state holdfast.State, r result) bool {
	return r.Refusal == "" && state.Owner == r.Owner && state.Count == r.Count && state.Token == r.Token
}

// outcomeOf says what a worker was told.
func outcomeOf(r result) string {
	if r.Refusal == "" {
		return "done"
	}
	return "refused: " + r.Refusal
}
