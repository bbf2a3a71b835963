package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
)

// leaders has A lead and resign, and B lead and die, while the demo observes.
func (s *story) leaders(ctx context.Context) (err error) {
	s.chapter("election: one leads, and everybody knows")
	if err := s.again(ctx, &s.b); err != nil {
		return err
	}
	told, stop := s.observe(ctx)
	defer stop()
	a, err := s.a.do(ctx, order{Op: "take", Lock: leadership, Value: "A"})
	if err != nil {
		return err
	}
	for i, m := range []*member{s.b, s.c} {
		stand := []order{{Value: "B", Lease: demoLease()}, {Value: "C"}}[i]
		stand.Op, stand.Lock = "take", leadership
		if err := m.order(stand); err != nil {
			return err
		}
		if err := s.candidates(ctx, i+1); err != nil {
			return err
		}
	}
	leader, err := s.told(ctx, told)
	if err != nil {
		return err
	}
	s.check(isLeader(leader, "A", a), "A leads; B and C are candidates", "observers hear of %q", leader.Value)

	resigned, err := s.a.do(ctx, order{Op: "give", Lock: leadership})
	if err != nil {
		return err
	}
	next, err := s.queueOfLeaders().State(ctx) // the server has handed it on in the same step
	if err != nil {
		return err
	}
	b, err := s.b.answer(ctx)
	if err != nil {
		return err
	}
	if leader, err = s.told(ctx, told); err != nil {
		return err
	}
	s.check(resigned.Refusal == "" && next.Owner == b.Owner && isLeader(leader, "B", b) && b.Token > a.Token,
		"A resigns: B leads at once", "after %s; heard of %q", brief(b.Ended.Sub(resigned.Began)), leader.Value)
	return s.succession(ctx, told, b)
}

// succession kills B, which leads.
func (s *story) succession(ctx context.Context, told <-chan election.Leader, b result) error {
	// It was handed the leadership for a claim, which is longer than demoLease.
	var leader election.Leader
	err := until(ctx, "B has renewed its lease", func() (_ bool, err error) {
		leader, err = s.kin.election.Leader(ctx)
		return leader.Remaining <= demoLease(), err
	})
	if err != nil {
		return err
	}
	s.b.kill()
	asked := time.Now()
	if leader, err = s.kin.election.Leader(ctx); err != nil {
		return err
	}
	c, err := s.c.answer(ctx)
	if err != nil {
		return err
	}
	left, gap := leader.Remaining, c.Ended.Sub(asked)
	if leader, err = s.told(ctx, told); err != nil {
		return err
	}
	s.check(isLeader(leader, "C", c) && c.Token > b.Token && left > 0 && gap > left-rounding,
		"B is killed: C leads after B's lease", "after %s; of %q", brief(gap), leader.Value)
	_, err = s.c.do(ctx, order{Op: "give", Lock: leadership})
	return err
}

// observe notes who leads. stop waits for the end of that.
func (s *story) observe(ctx context.Context) (told <-chan election.Leader, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	leaders := make(chan election.Leader)
	var group sync.WaitGroup
	group.Go(func() {
		for leader, err := range s.kin.election.Observe(ctx) {
			if err != nil || leader == (election.Leader{}) {
				continue // that nobody leads is told too, between one and the next
			}
			select {
			case leaders <- leader:
			case <-ctx.Done():
			}
		}
	})
	return leaders, func() {
		cancel()
		group.Wait()
	}
}

// told is the next leader that the observer is told of.
func (s *story) told(ctx context.Context, told <-chan election.Leader) (election.Leader, error) {
	timer := time.NewTimer(orderWithin())
	defer timer.Stop()
	select {
	case leader := <-told:
		return leader, nil
	case <-timer.C:
		return election.Leader{}, fmt.Errorf("observers are told nothing for %v", orderWithin())
	case <-ctx.Done():
		return election.Leader{}, context.Cause(ctx)
	}
}

// queueOfLeaders is the lock of the election, to look at.
func (s *story) queueOfLeaders() *fairlock.Mutex {
	return fairlock.New(s.client, s.kin.election.Name())
}

// candidates returns when so many wait to lead.
func (s *story) candidates(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("%d candidates", n), func() (bool, error) {
		state, err := s.queueOfLeaders().State(ctx)
		return state.Waiters >= n, err
	})
}

// isLeader says whether the one who is said to lead is the one who was told so.
func isLeader(l election.Leader, value string, r result) bool {
	return r.Refusal == "" && l.Value == value && l.Owner == r.Owner && l.Token == r.Token
}
