package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// demoQueue is how many wait for the fair lock.
const demoQueue = 6

// fair has two processes queue in turn, while the demo itself holds the lock, and then lets go.
func (s *story) fair(ctx context.Context) error {
	s.chapter("fairlock: first come, first served")
	hold, err := s.queue.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = hold.Unlock(ctx) }() // if the story breaks off
	for i := range demoQueue {
		who := []*member{s.a, s.c}[i%2]
		if _, err := who.do(ctx, order{Op: "queue"}); err != nil {
			return err
		}
		if err := s.waiting(ctx, i+1); err != nil {
			return err
		}
	}
	arrived, err := s.rdb.LRange(ctx, keys.For(s.queue.Name()).Queue, 0, -1).Result()
	if err != nil {
		return err
	}
	s.check(len(arrived) == demoQueue, "A and C queue in turn, three times each", "Redis says %d wait",
		len(arrived))
	if err := hold.Unlock(ctx); err != nil {
		return err
	}
	var grants []result
	for i := range demoQueue {
		grant, err := receive(ctx, []*member{s.a, s.c}[i%2].served)
		if err != nil {
			return err
		}
		grants = append(grants, grant)
	}
	slices.SortFunc(grants, func(a, b result) int { return cmp.Compare(a.Token, b.Token) })
	var came, got []string
	same := true
	for i, grant := range grants {
		place := slices.Index(arrived, grant.Owner)
		came, got = append(came, fmt.Sprint(place+1)), append(got, fmt.Sprint(i+1))
		same = same && place == i && grant.Refusal == ""
	}
	s.check(same, "one unlock: each hands it to the next", "came %s, granted %s", strings.Join(came, ""),
		strings.Join(got, ""))
	return nil
}

// waiting returns when so many wait for the fair lock.
func (s *story) waiting(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("%d wait", n), func() (bool, error) {
		state, err := s.queue.State(ctx)
		return state.Waiters >= n, err
	})
}
