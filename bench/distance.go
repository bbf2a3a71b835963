package main

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// distance is an address that is farther from a server than the server itself: all bytes arrive
// later by oneWay, each way and in order, and nothing else is slower.
type distance struct {
	ln     net.Listener
	server string
	oneWay time.Duration
	group  sync.WaitGroup // of all goroutines

	mu    sync.Mutex
	conns []net.Conn // all that were opened; guarded by mu
	over  bool       // guarded by mu
}

func newDistance(server string, oneWay time.Duration) (*distance, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &distance{ln: ln, server: server, oneWay: oneWay}
	d.group.Go(d.accept)
	return d, nil
}

func (d *distance) addr() string { return d.ln.Addr().String() }

// close ends all connections and waits for the goroutines.
func (d *distance) close() {
	_ = d.ln.Close()
	d.mu.Lock()
	d.over = true
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.group.Wait()
}

func (d *distance) accept() {
	for {
		near, err := d.ln.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("tcp", d.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, near, far)
		if d.over {
			_, _ = near.Close(), far.Close()
		}
		d.mu.Unlock()
		d.group.Go(func() { d.carry(far, near) })
		d.group.Go(func() { d.carry(near, far) })
	}
}

// carry passes on what one side says, until either side closes. What is on its way is in a queue
// that no lock fills.
func (d *distance) carry(to, from net.Conn) {
	type piece struct {
		due   time.Time
		bytes []byte
	}
	pieces := make(chan piece, 4096)
	d.group.Go(func() {
		defer close(pieces)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			pieces <- piece{time.Now().Add(d.oneWay), buf[:n]}
		}
	})
	for p := range pieces {
		wait(p.due)
		if _, err := to.Write(p.bytes); err != nil {
			_ = from.Close()
			_, _ = io.Copy(io.Discard, from)
		}
	}
	_ = to.Close()
}

// wait returns at a moment. A timer is late by up to a tenth of a millisecond, which would be a part
// of the distance.
func wait(until time.Time) {
	const early = 100 * time.Microsecond
	if d := time.Until(until); d > early {
		pause(context.Background(), d-early)
	}
	for time.Now().Before(until) {
		runtime.Gosched()
	}
}
