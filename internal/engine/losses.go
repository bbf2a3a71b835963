package engine

import "sync"

// losses are grants whose holds have ended because the lock was lost, and that have yet to leave
// their owners, the local queue and the server, and to be logged. That is not done by the watchdog,
// whose other leases would wait, but by one goroutine of the client, which runs while there are
// any.
type losses struct {
	spawn func(func())

	mu      sync.Mutex // guards the rest; never held over anything that waits
	waiting []loss
	running bool
}

type loss struct {
	of     loser
	reason error
}

// loser is who has lost a lock, and has yet to leave.
type loser interface{ leaveLost(reason error) }

func (ls *losses) add(of loser, reason error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.waiting = append(ls.waiting, loss{of, reason})
	if !ls.running {
		ls.running = true
		ls.spawn(ls.run)
	}
}

func (ls *losses) run() {
	for list := ls.take(); len(list) > 0; list = ls.take() {
		for _, l := range list {
			l.of.leaveLost(l.reason)
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
