package kindtest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

// unanswered is the ending that lasts for the whole retry budget.
const unanswered = "unlocked without an answer"

// endings are how a hold ends whose lock is to stay. (A process that dies sends nothing: that is the
// time to live which the lock was granted with.)
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

// givenBack is what comes of a lock that its holder has left in vain: it ends when it need not stay any
// more. In a control nobody gives it back.
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

// lateAcquisition: the network keeps an attempt to get the lock. That is repeated, the lock stays for
// its time, and then comes the first attempt, which asks for a long lease.
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

// stayedInOutage: no server hears of the Unlock, which comes before the time is over, or after that. When
// it is over the lock is given back, and not before.
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
