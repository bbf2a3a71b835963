package main

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/rlock"
)

// several has A and C want two locks at once, in opposite orders.
func (s *story) several(ctx context.Context) error {
	s.chapter("multilock: both locks, or none")
	hold, err := s.kin.y.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = hold.Unlock(ctx) }() // if the story breaks off
	try, err := s.a.do(ctx, order{Op: "take", Lock: both, Once: true})
	if err != nil {
		return err
	}
	free, err := s.free(ctx, s.kin.x)
	if err != nil {
		return err
	}
	s.check(try.Refusal == "not acquired" && free, "y is taken: A tries both, and has none", "%s", outcomeOf(try))
	if err := hold.Unlock(ctx); err != nil {
		return err
	}

	grants, most, err := s.crowd(ctx, map[*member]string{s.a: both, s.c: bothReverse})
	if err != nil {
		return err
	}
	x, err := s.free(ctx, s.kin.x)
	if err != nil {
		return err
	}
	y, err := s.free(ctx, s.kin.y)
	if err != nil {
		return err
	}
	s.check(grants == 2*demoCrowd*demoRounds && most == 1 && x && y,
		fmt.Sprintf("%d take x and y, %d take y and x", demoCrowd, demoCrowd), "%d grants, nobody stuck", grants)
	return nil
}

// free says whether nobody holds a lock.
func (s *story) free(ctx context.Context, m *rlock.Mutex) (bool, error) {
	state, err := m.State(ctx)
	return state.Owner == "", err
}
