package engine

import "sync"

// wish is how a holder hears that somebody else wants its lock.
type wish struct {
	once sync.Once
	came chan struct{}
}

func newWish() *wish { return &wish{came: make(chan struct{})} }

func (w *wish) come() { w.once.Do(func() { close(w.came) }) }
