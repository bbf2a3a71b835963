package engine

import "sync"

// losses are grants whose holds have ended because the lock was lost, and that have yet to leave
// their owners, the local queue and the server, and to be logged. That is not done by the watchdog,
// whose other leases would wait, but by one goroutine of the client, which runs while there are
// any.
type losses struct {
	client *Client

	mu      sync.Mutex // guards the rest; never held over anything that waits
	waiting []loss
	running bool
}

type loss struct {
	grant  *grant
	reason error
}

func (ls *losses) add(g *grant, reason error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.waiting = append(ls.waiting, loss{g, reason})
	if !ls.running {
		ls.running = true
		ls.client.tasks.Go(ls.run)
	}
}

func (ls *losses) run() {
	for list := ls.take(); len(list) > 0; list = ls.take() {
		for _, l := range list {
			l.grant.leaveLost(l.reason)
		}
	}
}

func (ls *losses) take() (list []loss) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	list, ls.waiting = ls.waiting, nil
	ls.running = len(list) > 0
	return list
}
