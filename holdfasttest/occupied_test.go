package holdfasttest_test

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// occupied are the stories of what somebody else has. On a real server that is a client of its own,
// with a lock of the kind.
var occupied = map[string]scenario{
	"somebody else has it": {kinds: "rwlock readers rlock fairlock redlock", play: func(p *play) {
		c := p.client(nil)
		l := p.make(c, name)
		release := p.occupy(p.others(), 0)
		_, err := l.TryLock(context.Background())
		p.note("try: %s", what(err))
		_, err = l.Lock(context.Background(), holdfast.Wait(moment))
		p.note("wait: %s, held %s", what(err), p.held())
		eventually(p.T, "who has given up has left", func() bool { return p.seen().Waiters <= 0 })
		p.look(p.client(nil), nil)
		got := make(chan *holdfast.Hold, 1)
		go func() {
			h, _ := l.Lock(context.Background())
			got <- h
		}()
		p.waiting(c, 1)
		release()
		h := <-got
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
