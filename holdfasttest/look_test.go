package holdfasttest_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// waiting waits until so many goroutines of a client wait: in the client, or at the server. Readers only listen.
func (p *play) waiting(c *holdfast.Client, n int) {
	eventually(p.T, "goroutines wait", func() bool {
		l := p.seen()
		return (*engine.Client)(c).InLine(name) >= n || l.Waiters >= n || n == 1 && l.Listening > 0
	})
}

// waiters waits until so many have a place at the server.
func (p *play) waiters(n int) {
	eventually(p.T, "places, of whom one listens", func() bool {
		l := p.seen()
		return l.Waiters == n && !slices.ContainsFunc(l.Problems, func(p inspect.Problem) bool { return p.Trouble == inspect.DeadQueue })
	})
}

func (p *play) seen() inspect.Lock {
	i, err := inspect.New(p.direct(), nil)
	require.NoError(p, err)
	l, err := i.Lock(context.Background(), name)
	require.NoError(p, err)
	return l
}

// whole is the lock itself where what locks is a side of it.
func (p *play) whole(c *holdfast.Client) any {
	switch l := p.make(c, name).(type) {
	case *redlock.Mutex:
		return patientQuorum(c, name)
	case forcer, *semaphore.Semaphore:
		return l
	default: // who reads
		return rwlock.New(c, name)
	}
}

// others makes the lock that keeps everybody out: for who reads, one who writes.
func (p *play) others() maker {
	return func(c *holdfast.Client, name string) holdfast.Locker {
		l := p.make(c, name)
		if _, one := l.(forcer); one {
			return l
		}
		return rwlock.New(c, name)
	}
}

// patiently makes a lock of the kind that a busy machine does not lose.
func (p *play) patiently() holdfast.Locker {
	c := p.client(&holdfast.Options{Lease: patient})
	if l, several := p.whole(c).(*redlock.Mutex); several {
		return l
	}
	return p.make(c, name)
}

type forcer interface {
	ForceUnlock(ctx context.Context) (bool, error)
}

// force notes what comes of ForceUnlock.
func (p *play) force(c *holdfast.Client) {
	forced, err := p.whole(c).(forcer).ForceUnlock(context.Background())
	p.note("force: %v %s", forced, what(err))
}

// look notes all that State and package inspect say of a lock that h is said to hold, but for names and times.
func (p *play) look(c *holdfast.Client, h *holdfast.Hold) {
	holder := func(o holdfast.Holder) {
		p.note("  %d times, the holder's: %v, a lease: %v", o.Count, h != nil && o.Owner == h.Owner(), o.Remaining > 0)
	}
	token := func(t uint64) string {
		switch {
		case t == 0:
			return "none"
		case h != nil && t == h.Token():
			return "the holder's"
		}
		return "one"
	}
	switch l := p.whole(c).(type) {
	case *rwlock.RWMutex:
		s, err := l.State(context.Background())
		p.note("state: %s, writing: %v, token: %s, waiters: %d", what(err), s.Writing, token(s.Token), s.Waiters)
		for _, o := range s.Holders {
			holder(o)
		}
	case *semaphore.Semaphore:
		s, err := l.State(context.Background())
		p.note("state: %s, %d of %d free, waiters: %d", what(err), s.Free, s.Permits, s.Waiters)
		for _, o := range s.Holders {
			holder(o)
		}
	case *redlock.Mutex:
		s, err := l.State(context.Background())
		p.note("state: %s, token: %s, waiters: %d, masters: %d, %s", what(err), token(s.Token), s.Waiters, len(s.Masters), what(s.Masters[0].Err))
		holder(holdfast.Holder{Owner: s.Owner, Count: s.Count, Remaining: s.Remaining})
	case interface {
		State(ctx context.Context) (holdfast.State, error)
	}:
		s, err := l.State(context.Background())
		p.note("state: %s, token: %s, waiters: %d", what(err), token(s.Token), s.Waiters)
		holder(holdfast.Holder{Owner: s.Owner, Count: s.Count, Remaining: s.Remaining})
	}
	i, err := inspect.New(p.direct(), nil)
	require.NoError(p, err)
	l, err := i.Lock(context.Background(), name)
	p.note("inspect: %s, %s %q, token: %s, waiters: %d, permits: %+v", what(err), l.Kind, l.Type, token(l.Token), l.Waiters, l.Permits)
	for _, o := range l.Holders {
		p.note("  %d times, the holder's: %v, a lease: %v, %s, left: %v", o.Count, h != nil && o.Owner == h.Owner(), o.Remaining > 0, o.Mode, o.Left)
	}
	for _, problem := range l.Problems {
		p.note("  problem: %s", problem.Trouble)
	}
}

// place is where in a script a command was refused, and the address of a server: of both each server has its own.
var place = regexp.MustCompile(`\s*script: (\S+, )?on @user_script:\d+\.|127\.0\.0\.1:\d+`)

// foreign puts what is no lock at a name, or beside it, and returns the errors of all kinds of calls.
func foreign(t *testing.T, rdb redis.UniversalClient, c *holdfast.Client) map[string]string {
	ctx, all := context.Background(), map[string]string{}
	said, _ := keys.Election("n")
	contents := map[string][]any{"text": {"SET", "text"}, "hash": {"HSET", "field", "value"}, "list": {"RPUSH", "item"}, "set": {"SADD", "member"},
		"zset": {"ZADD", 1, "member"}}
	k, p := keys.For("n"), keys.ForPermits("n")
	for _, at := range []string{k.Name, k.Token, k.Queue, k.Deadlines, p.Ends, p.Queue, said} {
		for content, put := range contents {
			calls := map[string]func() error{
				"latch set":        func() error { _, err := latch.New(c, "n").Set(ctx, 1); return err },
				"latch count":      func() error { _, err := latch.New(c, "n").Count(ctx); return err },
				"latch count down": func() error { _, err := latch.New(c, "n").CountDown(ctx); return err },
				"latch delete":     func() error { _, err := latch.New(c, "n").Delete(ctx); return err },
				"campaign":         func() error { return given(election.New(c, "n").Campaign(ctx, "v", holdfast.Wait(0))) },
				"leader":           func() error { _, err := election.New(c, "n").Leader(ctx); return err },
			}
			for kind, make := range kinds {
				if kind == "redlock" {
					make = patientQuorum
				}
				calls[kind] = func() error { return given(make(c, "n").Lock(ctx, holdfast.Wait(0))) }
			}
			for what, call := range calls {
				require.NoError(t, rdb.FlushAll(ctx).Err())
				require.NoError(t, rdb.Do(ctx, append([]any{put[0], at}, put[1:]...)...).Err())
				text := "granted"
				if err := call(); err != nil {
					text = what + ": " + place.ReplaceAllString(err.Error(), "")
					var reply redis.Error
					if errors.As(err, &reply) {
						text += " | " + place.ReplaceAllString(reply.Error(), "")
					}
				}
				all[at+" is a "+content+": "+what] = text
			}
		}
	}
	return all
}

// given gives back a lock that was granted: the next call finds nothing of it in the client.
func given(h *holdfast.Hold, err error) error {
	if err == nil {
		_ = h.Unlock(context.Background()) // the key beside it is foreign still
	}
	return err
}

// TestForeignKeys: what is at the name of a lock, or beside it, and is of another type or content is told in a server's words.
func TestForeignKeys(t *testing.T) {
	srv := redistest.Start(t)
	if srv.Major() < 7 {
		t.Skip("servers before Redis 7 put a text of their own around it")
	}
	real, err := holdfast.New(srv.Client(t), nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, real)
	server := holdfasttest.New(t, holdfasttest.AllowHeld())
	want, got := foreign(t, srv.Client(t), real), foreign(t, server.Redis(), server.Client(nil))
	for name, text := range want {
		assert.Equal(t, text, got[name], name)
	}
}
