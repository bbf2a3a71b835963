package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// quorumLease is longer than demoLease: who holds such a lock is told of its loss by a hundredth of
// the lease before the end, and that has to be longer than a busy machine keeps a process waiting.
func quorumLease() time.Duration { return pace() * 2 * time.Second }

// quorum starts five masters and two more workers, D and E.
func (s *story) quorum(ctx context.Context) (err error) {
	if s.masters, err = startMasters(ctx, s.emulate); err != nil {
		return err
	}
	s.chapter("redlock: five masters grant it together, and three of them die")
	return s.onMasters(ctx)
}

// onMasters has two workers compete for the lock of a majority while masters are killed.
func (s *story) onMasters(ctx context.Context) error {
	lock := order{Op: "start", Name: s.start.Name + ":quorum", Lease: quorumLease()}
	for _, m := range s.masters {
		lock.Masters = append(lock.Masters, m.address.reveal())
		lock.Emulated = lock.Emulated || m.emulated
	}
	for _, m := range []**member{&s.d, &s.e} {
		w, err := recruit(ctx, lock)
		if err != nil {
			return err
		}
		*m = w
		s.crew = append(s.crew, w)
	}
	s.note("  each is " + s.masters[0].about)
	s.note(fmt.Sprintf("  workers D and E are the processes %d and %d", s.d.pid(), s.e.pid()))
	s.note(fmt.Sprintf("  leases of %s, renewed every %s", brief(quorumLease()), brief(quorumLease()/3)))
	first, err := s.elected(ctx, lock.Name)
	if err != nil {
		return err
	}
	second, err := s.minority(ctx, lock.Name, first)
	if err != nil {
		return err
	}
	return s.majority(ctx, lock.Name, second)
}

// elected has D lock, and E try.
//
// Before that E locks once. The masters are younger than a lease, and a process that has not seen
// all of them grant the lock together may have to wait until they are older, once some of them are
// dead.
func (s *story) elected(ctx context.Context, name string) (grant result, err error) {
	for _, op := range []string{"lock", "unlock"} {
		if _, err := s.e.do(ctx, order{Op: op}); err != nil {
			return grant, err
		}
	}
	if grant, err = s.d.do(ctx, order{Op: "lock"}); err != nil {
		return grant, err
	}
	err = until(ctx, "all masters grant the lock", func() (bool, error) {
		n, err := agreeing(ctx, s.masters, name, grant.Owner)
		return n == len(s.masters), err
	})
	if err != nil {
		return grant, err
	}
	s.check(grant.Refusal == "", "D locks", "%d of %d masters say so", len(s.masters), len(s.masters))
	try, err := s.e.do(ctx, order{Op: "try"})
	if err != nil {
		return grant, err
	}
	s.check(try.Refusal == "not acquired", "E tries, without waiting", "%s", outcomeOf(try))
	return grant, nil
}

// minority kills two masters while D holds the lock and E waits. D is to keep it, and E to get it
// when D unlocks.
func (s *story) minority(ctx context.Context, name string, first result) (second result, err error) {
	if err := s.e.order(order{Op: "lock"}); err != nil {
		return second, err
	}
	s.masters[0].stop()
	s.masters[1].stop()
	alive, killed := s.masters[2:], time.Now()
	var hold result
	err = until(ctx, "the hold is renewed", func() (_ bool, err error) {
		hold, err = s.d.do(ctx, order{Op: "look"})
		// That far it is trusted only if what was sent after the kill was confirmed.
		return hold.Refusal != "" || hold.Trusted.After(killed.Add(quorumLease()*99/100)), err
	})
	if err != nil {
		return second, err
	}
	n, err := agreeing(ctx, alive, name, first.Owner)
	if err != nil {
		return second, err
	}
	s.check(hold.Refusal == "" && n == len(alive), "two are killed: D's hold is renewed",
		"by %d of %d, after %s", n, len(s.masters), brief(hold.Began.Sub(killed)))

	unlock, err := s.d.do(ctx, order{Op: "unlock"})
	if err != nil {
		return second, err
	}
	if second, err = s.e.answer(ctx); err != nil {
		return second, err
	}
	if n, err = agreeing(ctx, alive, name, second.Owner); err != nil {
		return second, err
	}
	s.check(unlock.Refusal == "" && second.Refusal == "" && second.Token > first.Token && n == len(alive),
		"D unlocks, and E gets it", "by %d of %d, after %s", n, len(s.masters),
		brief(second.Ended.Sub(unlock.Began)))
	return second, nil
}

// majority kills a third master while E holds the lock.
func (s *story) majority(ctx context.Context, name string, second result) error {
	// The first renewal comes much later than the kill, so this is the last lease that the third
	// one grants.
	end, err := s.masters[2].leaseEnd(ctx, name)
	if err != nil {
		return err
	}
	s.masters[2].stop()
	loss, err := s.e.loss(ctx)
	if err != nil {
		return err
	}
	// (When E heard of that depends on how busy the machine is, too.)
	s.check(loss.Refusal == "lock lost" && loss.Token == second.Token && !loss.Trusted.IsZero() && loss.Trusted.Before(end),
		"a third one is killed: E is told in time",
		"%s before its lease ends", brief(end.Sub(loss.Trusted)))

	if err := s.d.order(order{Op: "lock"}); err != nil {
		return err
	}
	_, err = s.d.answer(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = errors.New("granted, or refused")
	}
	_, said, _ := strings.Cut(err.Error(), name+`": `)
	what, each, _ := strings.Cut(strings.TrimPrefix(said, "unavailable: "), "; ")
	agreed, _, _ := strings.Cut(what, ",") // short enough for a screen
	s.check(strings.Contains(what, "2 of 5 masters agreed"), "D locks: an error says what is wrong", "%s", agreed)
	var words []string
	for master := range strings.SplitSeq(each, "; ") {
		words = append(words, briefly(master))
	}
	for line := range slices.Chunk(words, 2) {
		s.note("        " + strings.Join(line, ", "))
	}
	return nil
}

// briefly is what a master said without its address and what the network said of it:
// "1 (redis.sock): no answer for 2s: dial unix redis.sock" is "1: no answer for 2s".
func briefly(master string) string {
	number, rest, _ := strings.Cut(master, " (")
	_, said, _ := strings.Cut(rest, "): ")
	said, _, _ = strings.Cut(said, ": ")
	return number + ": " + said
}
