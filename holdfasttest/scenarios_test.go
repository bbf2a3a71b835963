package holdfasttest_test

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/rlock"
)

const (
	alone    = "rlock fairlock rwlock semaphore redlock multilock" // one owner has it
	repeated = "rlock fairlock rwlock readers semaphore"           // one server has the last word
)

// brief gives up soon: nothing answers in the stories in which it does.
var brief = holdfast.Options{RetryBudget: 1200 * time.Millisecond}

// short is renewed soon, so that a real server's clients learn of a loss without being asked.
var short = holdfast.Options{Lease: 3 * time.Second}

// troubles are the stories of locks that are taken, lost, or asked for in vain.
var troubles = map[string]scenario{
	"taken": {kinds: alone, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		other := p.locker(holdfast.Options{})
		p.note("try: %s", of(try(other)))
		p.note("wait: %s", of(other.Lock(context.Background(), holdfast.Wait(time.Second))))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.note("until a deadline: %s", of(other.Lock(ctx)))
		p.note("unlock: %s, again: %s", what(h.Unlock(context.Background())), what(h.Unlock(context.Background())))
		p.over(h)
		p.free(h)
	}},
	"a hold is lost": {play: func(p *play) {
		h := p.lock(p.locker(short))
		p.lose(name)
		p.over(h)
		p.note("extend: %s", what(h.Extend(context.Background(), time.Minute)))
		p.unlock(h)
		p.free(h)
	}},
	"the server forgets": {kinds: repeated, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		p.note("flush: %v", p.direct().FlushAll(context.Background()).Err())
		p.unlock(h)
		p.over(h)
		// The next token is by the clock alone, which stands still in a bubble while anybody can run.
		now := time.Now()
		eventually(p.T, "time passes", func() bool { return time.Since(now) > 0 })
		p.free(h)
	}},
	"the key is something else": {kinds: "rlock fairlock rwlock readers semaphore multilock", play: func(p *play) {
		require.NoError(p, p.direct().RPush(context.Background(), name, "mine").Err())
		p.note("lock: %s", of(p.locker(holdfast.Options{}).Lock(context.Background(), holdfast.Wait(time.Minute))))
		p.note("it is there still: %d", p.direct().LLen(context.Background(), name).Val())
	}},
	"the key becomes something else": {kinds: "rlock fairlock rwlock readers", play: func(p *play) {
		h := p.lock(p.locker(short))
		require.NoError(p, p.direct().Set(context.Background(), name, "mine", time.Hour).Err())
		p.over(h)
		p.unlock(h)
		p.note("it is there still: %s", p.direct().Get(context.Background(), name).Val())
	}},
	"beside strings": {kinds: "rlock", play: func(p *play) {
		p.make = func(c *holdfast.Client, name string) holdfast.Locker {
			return rlock.New(c, name, rlock.RespectStrings())
		}
		set := func(lives time.Duration) {
			require.NoError(p, p.direct().Set(context.Background(), name, "whose", lives).Err())
		}
		set(2 * time.Second)
		l := p.locker(holdfast.Options{})
		p.note("try: %s", of(try(l)))
		h := p.lock(l)
		set(0)
		p.note("extend: %s, unlock: %s", what(h.Extend(context.Background(), time.Minute)), what(h.Unlock(context.Background())))
		_, err := l.Lock(context.Background(), holdfast.Wait(time.Second))
		p.note("wait: %s, it is there still: %s", what(err), p.direct().Get(context.Background(), name).Val())
		require.NoError(p, p.direct().Del(context.Background(), name).Err())
		p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Lock, After: true})
		h = p.lock(l)
		p.note("a reply was lost: count %d, unlock: %s", h.Count(), what(h.Unlock(context.Background())))
	}},
	"a plain lease ends": {kinds: alone, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}), holdfast.Lease(2*time.Second), holdfast.NoRenewal())
		next := p.lock(p.locker(holdfast.Options{}))
		p.over(h)
		p.note("a greater token: %v", next.Token() > h.Token())
		p.note("unlock: %s, next: %s", what(h.Unlock(context.Background())), what(next.Unlock(context.Background())))
	}},
	"a reply to Lock is lost":      {kinds: repeated, play: lockLoses(true)},
	"a request of Lock is lost":    {kinds: repeated, play: lockLoses(false)},
	"no reply to Lock arrives":     {kinds: repeated, play: lockNever(true)},
	"no request of Lock arrives":   {kinds: repeated, play: lockNever(false)},
	"no reply to Unlock arrives":   {kinds: repeated, play: unlockNever(true)},
	"no request of Unlock arrives": {kinds: repeated, play: unlockNever(false)},
	"a reply to a re-entry is lost": {kinds: "rlock fairlock rwlock", play: func(p *play) {
		l := p.locker(holdfast.Options{})
		h := p.lock(l)
		p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Reenter, After: true})
		inner, err := l.Lock(h.Context())
		p.note("lock: %s", what(err))
		p.note("count %d, held %s, the same token: %v", inner.Count(), p.held(), inner.Token() == h.Token())
		p.unlock(inner)
		p.note("held %s", p.held())
		p.unlock(h)
		p.free(h)
	}},
	"a reply to Unlock is lost": {kinds: repeated, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Unlock, After: true})
		p.note("unlock: %s, held %s", what(h.Unlock(context.Background())), p.held())
		p.free(h)
	}},
	"renewals are not answered": {kinds: repeated, play: func(p *play) {
		h := p.lock(p.locker(short))
		p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Renew, Times: -1})
		p.over(h)
		p.unlock(h)
		p.free(h)
	}},
	"a reply is late": {kinds: repeated, timeout: 5 * time.Second, play: func(p *play) {
		undone := p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Unlock, Times: -1})
		stop := p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Lock, After: true, Delay: holdfasttest.UntilStopped})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer cancel()
			sooner(func() bool { return p.held() != "by nobody" })
		}()
		p.note("lock: %s, held %s", of(p.locker(holdfast.Options{}).Lock(ctx)), p.held())
		stop()
		undone()
		p.free(nil)
	}},
	"out of memory": {kinds: repeated, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		restore := p.outOfMemory()
		p.note("lock: %s", of(p.make(p.client(nil), "another").Lock(context.Background(), holdfast.Wait(time.Minute))))
		p.unlock(h)
		restore()
		p.free(h)
	}},
	"the server is silent": {kinds: alone, timeout: 1200 * time.Millisecond, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{Lease: 5 * time.Second, RetryBudget: 1200 * time.Millisecond}))
		restore := p.silence()
		_, err := p.make(p.client(&brief), "another").Lock(context.Background())
		// Whether the last question of a quorum ended by its deadline, or was not sent to a server that is silent, is chance.
		p.note("lock: %s", strings.Replace(what(err), "+deadline", "", 1))
		p.over(h)
		p.unlock(h)
		restore()
		p.free(h)
	}},
	"the clock goes forward": {kinds: alone, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		p.moveClock(time.Hour)
		p.free(h)
		p.unlock(h)
	}},
	"the clock goes back": {kinds: repeated, play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}), holdfast.NoRenewal())
		p.moveClock(-time.Hour)
		p.moveClock(59 * time.Minute)
		p.note("try: %s", of(try(p.locker(holdfast.Options{}))))
		p.unlock(h)
		p.free(h)
	}},
	"a queue": {kinds: "fairlock semaphore", play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		last := h.Token()
		waiter := func(n int) func() {
			l := p.locker(holdfast.Options{})
			return func() {
				next, err := l.Lock(context.Background())
				if err != nil {
					p.note("%d: %s", n, what(err))
					return
				}
				p.note("%d: a greater token: %v", n, next.Token() > last)
				last = next.Token()
				if err := next.Unlock(context.Background()); err != nil {
					p.note("%d: unlock: %s", n, what(err))
				}
			}
		}
		wait := p.queue(name, waiter(1), waiter(2), waiter(3))
		err := h.Unlock(context.Background())
		wait() // the first may say that it has the lock before Unlock returns
		p.note("unlock: %s", what(err))
	}},
	"a client is closed": {kinds: alone, play: func(p *play) {
		c := p.client(nil)
		l := p.make(c, name)
		h := p.lock(l)
		p.note("close: %s", what(c.Close(context.Background())))
		p.over(h)
		p.note("try: %s, unlock: %s", of(try(l)), what(h.Unlock(context.Background())))
		p.free(h)
	}},
}

// lockLoses loses one reply to Lock, or one request.
func lockLoses(reply bool) func(p *play) {
	return func(p *play) {
		p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Lock, After: reply})
		h := p.lock(p.locker(holdfast.Options{}))
		p.note("count %d, held %s", h.Count(), p.held())
		p.unlock(h)
		p.note("held %s", p.held())
		p.free(h)
	}
}

// lockNever loses all replies to Lock, or all requests.
func lockNever(replies bool) func(p *play) {
	return func(p *play) {
		undone := p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Unlock, Times: -1})
		stop := p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Lock, After: replies, Times: -1})
		p.note("lock: %s, held %s", of(p.locker(brief).Lock(context.Background())), p.held())
		stop()
		undone()
		p.free(nil)
	}
}

// unlockNever loses those of Unlock.
func unlockNever(replies bool) func(p *play) {
	return func(p *play) {
		h := p.lock(p.locker(brief))
		stop := p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Unlock, After: replies, Times: -1})
		p.unlock(h)
		p.note("held %s", p.held())
		stop()
		p.over(h)
		p.free(h)
	}
}

// held says who holds the lock, as the server has it.
func (p *play) held() string {
	i, err := inspect.New(p.direct(), nil)
	if err != nil {
		return err.Error()
	}
	l, err := i.Lock(context.Background(), name)
	switch {
	case err != nil:
		return err.Error()
	case len(l.Holders) == 0:
		return "by nobody"
	case l.Holders[0].Count > 1:
		return "twice"
	}
	return "by one"
}

// occupied are the stories of what somebody else has. On a real server that is a client of its own, with a lock of the kind.
var occupied = map[string]scenario{
	"somebody else has it": {kinds: "rwlock readers rlock fairlock redlock", play: func(p *play) {
		c := p.client(nil)
		l := p.make(c, name)
		release := p.occupy(p.others(), 0)
		p.note("try: %s", of(try(l)))
		p.note("wait: %s, held %s", of(l.Lock(context.Background(), holdfast.Wait(moment))), p.held())
		eventually(p.T, "who has given up has left", func() bool { return p.seen().Waiters <= 0 && len(p.seen().Queue) == 0 })
		p.look(p.client(nil), nil)
		got := kindtest.Begin(context.Background(), p, l.Lock)
		p.waiting(c, 1)
		release()
		h := got.Hold()
		release()
		p.note("held %s", p.held())
		p.unlock(h)
		p.free(h)
	}},
	"somebody else's lease ends": {kinds: "rlock fairlock rwlock readers redlock", play: func(p *play) {
		l := p.locker(holdfast.Options{})
		release := p.occupy(p.others(), 500*time.Millisecond)
		p.after(l, release)
	}},
	"somebody else is forced out": {kinds: "rlock fairlock rwlock redlock", play: func(p *play) {
		release := p.occupy(p.others(), 0)
		p.force(p.client(nil))
		p.after(p.locker(holdfast.Options{}), release)
	}},
	"somebody else loses it": {kinds: "rlock fairlock rwlock redlock", play: func(p *play) {
		release := p.occupy(p.others(), time.Hour)
		p.lose(name)
		p.after(p.locker(holdfast.Options{}), release)
	}},
}

// after has the lock after somebody else, whose release then does nothing.
func (p *play) after(l holdfast.Locker, release func()) {
	h := p.lock(l)
	release()
	p.note("cause: %s, held %s", what(context.Cause(h.Context())), p.held())
	p.unlock(h)
	p.free(h)
}
