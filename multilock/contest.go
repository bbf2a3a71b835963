package multilock

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// contests are the locks of which multilocks began that were refused a moment ago, as a client knows them.
//
// To ask for all locks at once spares round trips where they are free. Where others want them too it does harm: until the
// answers are there, and the rest is given back, the later ones are taken without the first, and so nobody has all.
// Callers who leave and come again do that all the time. So then the first is asked for alone, and waited for, and the rest
// when it is there.
type contests struct {
	mu    sync.Mutex // guards the rest; never held over a network call
	until map[queue.Key]time.Time
}

const (
	// contestedFor is how long a refusal counts.
	contestedFor = time.Second
	// mostContests is how many locks are remembered. Others are asked for as if nobody else wanted them.
	mostContests = 1024
)

// contested reports whether others wanted the locks that begin with this one a moment ago.
func (m *member) contested() bool {
	if m.lock == nil {
		return false
	}
	c := contestsOf(m.lock.Client)
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.until[m.lock.Key])
}

// contest notes that one of the locks that begin with this one was refused.
func (m *member) contest() {
	if m.lock == nil {
		return
	}
	c, now := contestsOf(m.lock.Client), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.until) >= mostContests {
		for key, until := range c.until {
			if !now.Before(until) {
				delete(c.until, key)
			}
		}
	}
	if len(c.until) < mostContests {
		c.until[m.lock.Key] = now.Add(contestedFor)
	}
}

func contestsOf(c *engine.Client) *contests {
	return engine.Attached(c, func(*engine.Client) *contests { return &contests{until: make(map[queue.Key]time.Time)} })
}
