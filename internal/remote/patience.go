package remote

import (
	"context"
	"sync"
	"time"
)

const (
	// brief is a wait that may end before a healthy server has answered.
	brief = 100 * time.Millisecond
	// forBrief is for how long a server is silent until those who waited briefly are told of an outage.
	forBrief = time.Second
	// remembered is for how long it counts that somebody was late.
	remembered = time.Second
)

// Patience is for how long a server must have been silent, so that a caller who leaves now is told of an
// outage: for the whole of the call, if that is no brief one. Where callers of this client leave late,
// the process has no time, and answers come as late; that is no silence of the server.
func (s *Server) Patience(wait context.Context, begun time.Time) time.Duration {
	now := time.Now()
	waited, late := now.Sub(begun), time.Duration(0)
	if end, ok := wait.Deadline(); ok && now.After(end) {
		waited, late = end.Sub(begun), now.Sub(end)
	}
	late = s.lateness.most(now, late)
	if waited < brief {
		waited = forBrief
	}
	return waited + late
}

// lag is how late callers have left lately.
type lag struct {
	mu sync.Mutex // guards the rest
	at time.Time
	by time.Duration // the most
}

// most notes by how much somebody is late, and returns by how much the latest one was.
func (l *lag) most(now time.Time, late time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if late >= l.by || now.Sub(l.at) >= remembered {
		l.at, l.by = now, late
	}
	return l.by
}
