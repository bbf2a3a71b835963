package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
)

// readers has A and C read together, B write when its turn has come, and go on reading.
func (s *story) readers(ctx context.Context) error {
	s.chapter("rwlock: many read at once, and who writes is alone")
	if err := s.again(ctx, &s.b); err != nil {
		return err
	}
	read := order{Op: "take", Lock: toRead}
	a, err := s.a.do(ctx, read)
	if err != nil {
		return err
	}
	c, err := s.c.do(ctx, read)
	if err != nil {
		return err
	}
	state, err := s.kin.rw.State(ctx)
	if err != nil {
		return err
	}
	s.check(inside(state, false, a, c), "A and C read together", "%d readers", len(state.Holders))
	if err := s.writersTurn(ctx, max(a.Token, c.Token)); err != nil {
		return err
	}
	return s.downgrade(ctx)
}

// writersTurn has B wait until A and C have read.
func (s *story) writersTurn(ctx context.Context, before uint64) error {
	if err := s.b.order(order{Op: "take", Lock: toWrite}); err != nil {
		return err
	}
	err := until(ctx, "B waits to write", func() (bool, error) {
		state, err := s.kin.rw.State(ctx)
		return state.Waiters > 0, err
	})
	if err != nil {
		return err
	}
	late, err := s.a.do(ctx, order{Op: "take", Lock: toRead, Once: true, Stranger: true})
	if err != nil {
		return err
	}
	s.check(late.Refusal == "not acquired", "B waits to write: new readers wait", "%s", outcomeOf(late))

	for _, m := range []*member{s.a, s.c} {
		if _, err := m.do(ctx, order{Op: "give", Lock: toRead}); err != nil {
			return err
		}
	}
	b, err := s.b.answer(ctx)
	if err != nil {
		return err
	}
	state, err := s.kin.rw.State(ctx)
	if err != nil {
		return err
	}
	s.check(inside(state, true, b) && b.Token > before, "A and C stop: B writes, alone", "token %d", b.Token)
	return nil
}

// downgrade has B read under its write hold, and go on when it has stopped to write.
func (s *story) downgrade(ctx context.Context) error {
	b, err := s.b.do(ctx, order{Op: "take", Lock: toRead})
	if err != nil {
		return err
	}
	wrote, err := s.b.do(ctx, order{Op: "give", Lock: toWrite})
	if err != nil {
		return err
	}
	state, err := s.kin.rw.State(ctx)
	if err != nil {
		return err
	}
	alone := inside(state, false, b)
	a, err := s.a.do(ctx, order{Op: "take", Lock: toRead})
	if err != nil {
		return err
	}
	if state, err = s.kin.rw.State(ctx); err != nil {
		return err
	}
	s.check(wrote.Refusal == "" && alone && inside(state, false, a, b) && a.Token == b.Token,
		"B only reads now, and A with it", "%d readers of one write", len(state.Holders))
	for _, m := range []*member{s.a, s.b} {
		if _, err := m.do(ctx, order{Op: "give", Lock: toRead}); err != nil {
			return err
		}
	}
	return nil
}

// inside says whether these workers, and nobody else, read or write.
func inside(state rwlock.State, writing bool, who ...result) bool {
	for _, r := range who {
		is := func(h holdfast.Holder) bool { return h.Owner == r.Owner }
		if r.Refusal != "" || !slices.ContainsFunc(state.Holders, is) {
			return false
		}
	}
	return state.Writing == writing && len(state.Holders) == len(who)
}

// again puts a new worker in the place of one that was killed.
func (s *story) again(ctx context.Context, m **member) (err error) {
	if *m, err = recruit(ctx, s.start); err == nil {
		s.crew = append(s.crew, *m)
		s.note(fmt.Sprintf("  B, which was killed, is the process %d now", (*m).pid()))
	}
	return err
}
