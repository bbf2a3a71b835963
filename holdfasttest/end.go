package holdfasttest

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
)

// closing bounds how long the end of a test waits for its clients.
const closing = 10 * time.Second

// together are the servers of each test that runs. They end in one cleanup, that of the first: a
// client gives back what it holds when it is closed, and a redlock's client does that at servers that
// were made by other calls of [New].
var together = struct {
	mu      sync.Mutex // guards the rest
	servers map[testing.TB][]*Server
}{servers: make(map[testing.TB][]*Server)}

// ends has the server end with its test.
func (s *Server) ends() {
	if !reflect.ValueOf(s.tb).Comparable() { // a TB of the user's that is no key of a map
		s.tb.Cleanup(func() { endTogether([]*Server{s}) })
		return
	}
	together.mu.Lock()
	defer together.mu.Unlock()
	before := together.servers[s.tb]
	together.servers[s.tb] = append(before, s)
	if len(before) == 0 {
		s.tb.Cleanup(func() { endTogether(serversOf(s.tb)) })
	}
}

// serversOf are the servers of a test, which are forgotten.
func serversOf(tb testing.TB) []*Server {
	together.mu.Lock()
	defer together.mu.Unlock()
	defer delete(together.servers, tb)
	return together.servers[tb]
}

// endTogether is the cleanup: first it closes the clients of all servers, and then it ends these.
func endTogether(servers []*Server) {
	for _, s := range servers {
		s.watch.end()
		s.wires.faults.stop()
		s.wires.speak()
	}
	errs := make([][]error, len(servers))
	var group sync.WaitGroup
	for i, s := range servers {
		group.Go(func() { errs[i] = s.close() })
	}
	group.Wait()
	for i, s := range servers {
		s.tb.Helper()
		s.end(errs[i])
	}
}

// end ends the server, whose clients are closed.
func (s *Server) end(errs []error) {
	s.tb.Helper()
	for _, err := range errs {
		s.tb.Errorf("holdfasttest: closing a client: %v", err)
	}
	if !s.cfg.held {
		for _, text := range s.watch.left() {
			s.tb.Errorf("holdfasttest: %s", text)
		}
	}
	s.queues.Wait()
	s.mu.Lock()
	pools := append(slices.Clone(s.pools), s.rdb, s.past)
	s.mu.Unlock()
	for _, rdb := range pools {
		_ = rdb.Close() // the test may have closed it itself
	}
	s.wires.close()
}

// close closes all clients, side by side.
func (s *Server) close() (failed []error) {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	clients := s.all()
	s.mu.Lock()
	for _, p := range s.strangers {
		p.gone.Store(false) // so that it need not wait for answers
		clients = append(clients, p.client)
	}
	s.mu.Unlock()
	errs := make([]error, len(clients))
	var group sync.WaitGroup
	for i, c := range clients {
		group.Go(func() { errs[i] = c.Close(ctx) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}
