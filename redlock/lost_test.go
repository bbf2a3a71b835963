package redlock_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/watchdog"
)

// lapses make masters forget the lock.
var lapses = map[string]func(l *lab, name string, masters ...int){
	"deleted": func(l *lab, name string, masters ...int) {
		for _, i := range masters {
			require.NoError(l, l.direct[i].Del(l.Context(), name).Err())
		}
	},
	"flushed": func(l *lab, _ string, masters ...int) {
		for _, i := range masters {
			require.NoError(l, l.direct[i].FlushAll(l.Context()).Err())
		}
	},
}

// between has a rival be granted a lock, and give it back, when masters have forgotten its holder.
func (l *lab) between(rival *redlock.Mutex, h *holdfast.Hold, forget func()) {
	var other *holdfast.Hold
	eventually(l.T, "the rival is granted it", func() (ok bool) { // unless a renewal comes first, and joins again
		forget()
		var err error
		other, err = rival.TryLock(l.Context())
		return err == nil
	})
	require.Greater(l, other.Token(), h.Token())
	require.NoError(l, h.Context().Err(), "it cannot know yet")
	unlock(l, other)
}

// visited has a process hold the lock, some masters forget it, and another process hold it in between.
func visited(t *testing.T, lapse string, masters ...int) (m *redlock.Mutex, h *holdfast.Hold) {
	l := newLab(t, 5)
	opts := &holdfast.Options{Lease: 6 * time.Second}
	a, b := l.process(opts), l.process(opts)
	for _, proxy := range a.proxies { // none comes before the rival has gone
		proxy.DelayRequest(isRenewal, 0, time.Hour)
	}
	m = a.mutex(uniqueName(t))
	h = l.everywhere(m)
	l.passed(h.Token())
	l.between(b.mutex(m.Name(), redlock.TrustRestarts()), h, func() { lapses[lapse](l, m.Name(), masters...) })
	for _, proxy := range a.proxies {
		proxy.Clear()
	}
	return m, h
}

// A holder is told when a majority may have granted the lock to somebody else, also when that one has gone before it asks.
func TestVisitedHoldIsLost(t *testing.T) {
	t.Parallel()
	for lapse := range lapses {
		for what, masters := range map[string][]int{
			"first": {0, 1, 2}, "last": {2, 3, 4}, "all": {0, 1, 2, 3, 4},
			"entered again": {1, 2, 3}, "extended": {1, 2, 3}, "unlocked": {1, 2, 3},
		} {
			t.Run(lapse+", "+what, func(t *testing.T) {
				t.Parallel()
				m, h := visited(t, lapse, masters...)
				switch what {
				case "entered again":
					require.ErrorIs(t, kindtest.Err(m.Lock(h.Context())), holdfast.ErrLost)
				case "extended":
					require.ErrorIs(t, h.Extend(t.Context(), time.Minute), holdfast.ErrLost)
					require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
				case "unlocked":
				default:
					cause := awaitEnd(t, h)
					require.ErrorIs(t, cause, holdfast.ErrLost)
					var named []int // a majority is enough; a slow master is not waited for
					for i := range 5 {
						if regexp.MustCompile(fmt.Sprintf(`others may have held it at .*%d \(`, i+1)).MatchString(cause.Error()) {
							named = append(named, i)
						}
					}
					require.Subset(t, masters, named)
					require.GreaterOrEqual(t, len(named), 3, cause)
				}
				require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
			})
		}
	}
}

// The control: without the rule the hold is renewed as if nothing had been.
func TestVisitedHoldIsLostControl(t *testing.T) {
	t.Cleanup(defence.Gaps.Without(t))
	_, h := visited(t, "deleted", 0, 1, 2)
	before := h.Deadline()
	eventually(t, "renewed twice", func() bool { return h.Deadline().After(before.Add(1500 * time.Millisecond)) })
	unlock(t, h)
}

// Masters that forget the lock, and do not grant it to anybody else, do no harm: a minority that
// has lost its data, and any number that have only lost the lock, which their tokens show.
func TestForgottenHoldIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lapse   string
		masters []int
	}{"all": {"deleted", []int{0, 1, 2, 3, 4}}, "first": {"flushed", []int{0, 1}}, "last": {"flushed", []int{3, 4}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 5)
			// All are waited for: who is asked a second time might have granted it to somebody and forgotten that.
			m := l.process(&holdfast.Options{Lease: 6 * time.Second}).mutex(uniqueName(t),
				redlock.MasterTimeout(1500*time.Millisecond))
			h := l.everywhere(m)
			lapses[c.lapse](l, m.Name(), c.masters...)
			before := h.Deadline()
			eventually(t, "renewed often", func() bool {
				return h.Deadline().After(before.Add(3*time.Second)) || h.Context().Err() != nil
			})
			require.NoError(t, context.Cause(h.Context()))
			require.Equal(t, 5, l.held(m.Name()))
			unlock(t, h)
		})
	}
}

// contradicted has three of five masters name others, who are not the same if apart is set, in place of the holder.
func contradicted(t *testing.T, apart bool) (l *lab, p *process, h *holdfast.Hold, name string) {
	l = newLab(t, 5)
	name = uniqueName(t)
	p = l.process(&holdfast.Options{Lease: 4 * time.Second})
	h = l.everywhere(p.mutex(name))
	seen := len(p.proxies[0].Requests())
	for i := range 3 {
		owner := "somebody:1"
		if apart {
			owner = fmt.Sprint("somebody:", i)
		}
		l.give(i, name, owner, time.Hour)
	}
	eventually(t, "asked to renew, and to take the hold back, and that again", func() bool {
		return len(p.proxies[0].Requests()) >= seen+3 || h.Context().Err() != nil
	})
	return l, p, h, name
}

// Different owners at a majority of the masters are none: those who asked in vain go again.
func TestTransientRefusals(t *testing.T) {
	t.Parallel()
	l, _, h, name := contradicted(t, true)
	require.NoError(t, context.Cause(h.Context()))
	lapses["deleted"](l, name, 0, 1, 2)
	eventually(t, "everywhere again", func() bool {
		for _, owner := range l.holders(name) {
			if owner[h.Owner()] == "" {
				return h.Context().Err() != nil
			}
		}
		return true
	})
	require.NoError(t, context.Cause(h.Context()))
	unlock(t, h)
}

// One owner there is one, and the hold is lost at once. What stands at a minority is given back.
func TestLostHoldLeavesNothing(t *testing.T) {
	l, p, h, name := contradicted(t, false)
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	p.close(t)
	require.Equal(t, 3, l.held(name), "given back, long before the lease ends")

	// The control.
	t.Cleanup(defence.Withdraw.Without(t))
	l, p, h, name = contradicted(t, false)
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	p.close(t)
	require.Equal(t, 5, l.held(name))
	require.Positive(t, l.direct[4].PTTL(t.Context(), name).Val(), "a lease, nearly")
}

// firstGrant has one of three masters grant the lock to its holder for the first time when it has
// granted it to another process meanwhile, which has gone, and has lost all keys since.
func firstGrant(t *testing.T) *holdfast.Hold {
	l := newLab(t, 3)
	opts := &holdfast.Options{Lease: 6 * time.Second}
	a, b := l.process(opts), l.process(opts)
	a.proxies[2].Stop()
	m := a.mutex(uniqueName(t))
	h := lock(t, m)
	l.between(b.mutex(m.Name(), redlock.TrustRestarts()), h, func() { lapses["deleted"](l, m.Name(), 1) })
	eventually(t, "released", func() bool { return len(l.holders(m.Name())[2]) == 0 })
	lapses["flushed"](l, m.Name(), 2)
	a.proxies[2].Start()
	return h
}

// A master that has no token may have granted the lock to anybody before it grants it to the holder for the first time.
func TestFirstGrantProvesNothing(t *testing.T) {
	t.Parallel()
	h := firstGrant(t)
	err := awaitEnd(t, h)
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.ErrorIs(t, err, watchdog.ErrGone, "told by the masters, and not because they are silent")
}

// A master that grants the lock to its holder for the first time may have forgotten a vote that
// somebody else still counts, who gets another one later. Three masters, of which the first has
// granted the lock to the holder and forgets it, and the last one is slow.
func TestForgottenVoteIsCounted(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	opts := &holdfast.Options{Lease: 10 * time.Second}
	a, b := l.patient(opts, patience), l.patient(opts, patience)
	for _, p := range []*process{a, b} { // the scripts are known, and the clocks
		require.NoError(t, lockOnce(t.Context(), p.mutex("warm")))
	}
	name, slow := uniqueName(t), []holdfast.Option{redlock.TrustRestarts(), redlock.MasterTimeout(5 * time.Second)}
	vote := func(args []string) bool { return isVote(args) && slices.Contains(args, name) }
	ours := a.proxies[2].DelayRequest(vote, 1, time.Hour)
	h := lock(t, a.mutex(name, slow...))
	<-ours.Fired()

	theirs := b.proxies[0].DelayRequest(vote, 1, time.Hour)
	got := begin(t.Context(), t, b.mutex(name, append(slow, holdfast.Wait(patience))...).Lock)
	<-theirs.Fired()
	eventually(t, "the last one has voted", func() bool { return len(l.holders(name)[2]) > 0 })
	lapses["deleted"](l, name, 2)
	ours.Release()
	eventually(t, "and votes again", func() bool { return l.holders(name)[2][h.Owner()] != "" })
	require.NoError(t, h.Extend(t.Context(), opts.Lease),
		"held at the others until then, and at the last one from then on")

	lapses["deleted"](l, name, 0)
	theirs.Release()
	_ = got.Hold().Unlock(t.Context()) // by the vote that was forgotten, and that one; which it may be told
	err := awaitEnd(t, h)
	tells(t, err, holdfast.ErrLost, watchdog.ErrGone)
}
