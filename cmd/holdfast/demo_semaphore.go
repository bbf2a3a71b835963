package main

import (
	"context"
	"fmt"
	"time"
)

// demoCrowd is how many goroutines of each worker take a lock in turn, and demoRounds how often.
const demoCrowd, demoRounds = 4, 5

// permits has the workers share three permits, and one of them die with two.
func (s *story) permits(ctx context.Context) error {
	s.chapter(fmt.Sprintf("semaphore: %d permits, and never more are out", demoPermits))
	two := order{Op: "take", Lock: permits, N: 2}
	a, err := s.a.do(ctx, two)
	if err != nil {
		return err
	}
	c, err := s.c.do(ctx, order{Op: "take", Lock: permits, N: 1})
	if err != nil {
		return err
	}
	try, err := s.b.do(ctx, order{Op: "take", Lock: permits, N: 1, Once: true})
	if err != nil {
		return err
	}
	state, err := s.kin.permits.State(ctx)
	if err != nil {
		return err
	}
	s.check(a.Count == 2 && c.Count == 1 && state.Free == 0 && try.Refusal == "not acquired",
		"A takes two, C takes one; B tries", "%s", outcomeOf(try))
	for _, m := range []*member{s.a, s.c} {
		if _, err := m.do(ctx, order{Op: "give", Lock: permits}); err != nil {
			return err
		}
	}

	grants, most, err := s.crowd(ctx, map[*member]string{s.a: permits, s.b: permits, s.c: permits})
	if err != nil {
		return err
	}
	s.check(grants == 3*demoCrowd*demoRounds && most <= demoPermits,
		fmt.Sprintf("%d goroutines of A, B and C in turn", 3*demoCrowd), "%d grants, at most %d inside", grants, most)

	two.Lease = demoLease()
	if _, err := s.b.do(ctx, two); err != nil {
		return err
	}
	return s.permitsComeBack(ctx)
}

// permitsComeBack kills B, which has two permits, while A wants all.
func (s *story) permitsComeBack(ctx context.Context) error {
	if err := s.a.order(order{Op: "take", Lock: permits, N: demoPermits}); err != nil {
		return err
	}
	err := until(ctx, "A waits for permits", func() (bool, error) {
		state, err := s.kin.permits.State(ctx)
		return state.Waiters > 0, err
	})
	if err != nil {
		return err
	}
	s.b.kill()
	asked := time.Now()
	state, err := s.kin.permits.State(ctx)
	if err != nil {
		return err
	}
	held := len(state.Holders) == 1 && state.Holders[0].Count == 2
	s.check(held, "B is killed with two, while A wants all", "Redis says %d is free", state.Free)
	var left time.Duration
	if held {
		left = state.Holders[0].Remaining
	}
	all, err := s.a.answer(ctx)
	if err != nil {
		return err
	}
	gap := all.Ended.Sub(asked)
	s.check(held && all.Refusal == "" && all.Count == demoPermits && gap > left-rounding,
		"A gets them when B's lease has ended", "after %s", brief(gap))
	_, err = s.a.do(ctx, order{Op: "give", Lock: permits})
	return err
}

// crowd has goroutines of several workers take a lock in turn. It returns how often they got it, and
// how many had it at once, at most.
func (s *story) crowd(ctx context.Context, who map[*member]string) (grants, most int, err error) {
	for m, lock := range who {
		if err := m.order(order{Op: "crowd", Lock: lock, N: demoCrowd, Rounds: demoRounds}); err != nil {
			return 0, 0, err
		}
	}
	for m := range who {
		r, err := m.answer(ctx)
		if err != nil {
			return 0, 0, err
		}
		grants, most = grants+r.Count, max(most, r.Most)
	}
	return grants, most, nil
}
