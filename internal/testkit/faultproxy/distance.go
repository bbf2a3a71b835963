package faultproxy

import (
	"net"
	"sync"
	"testing"
	"time"
)

// window is how many pieces may be on the way in one direction: of what a lock sends, more than
// ever are.
const window = 1024

// Distance returns an address that is so much farther from a server, or from a [Proxy], than
// upstream: everything arrives later by oneWay, each way, in order, and nothing else is slower.
// When the test ends its connections are closed, and its goroutines are waited for.
func Distance(tb testing.TB, upstream string, oneWay time.Duration) (addr string) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("faultproxy: %v", err)
	}
	d := &distance{upstream: upstream, oneWay: oneWay, ended: make(chan struct{})}
	d.wg.Go(func() { d.accept(ln) })
	tb.Cleanup(func() {
		close(d.ended)
		_ = ln.Close()
		d.wg.Wait()
	})
	return ln.Addr().String()
}

type distance struct {
	upstream string
	oneWay   time.Duration
	ended    chan struct{}  // closed at the end
	wg       sync.WaitGroup // of all goroutines
}

func (d *distance) accept(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return // closed
		}
		d.wg.Go(func() { d.serve(client) })
	}
}

// serve runs one connection until either side, or the test, ends it.
func (d *distance) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.DialTimeout("tcp", d.upstream, 10*time.Second)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	over := make(chan error, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		pieces := make(chan piece, window)
		d.wg.Go(func() { d.read(way[0], pieces) })
		d.wg.Go(func() {
			err := d.write(way[1], pieces)
			if err == nil { // the other side has said all, and all of that has arrived
				err = way[1].(*net.TCPConn).CloseWrite()
			}
			over <- err
		})
	}
	for range 2 {
		select {
		case err := <-over:
			if err != nil {
				return
			}
		case <-d.ended:
			return
		}
	}
}

// piece is what is on its way.
type piece struct {
	due   time.Time
	bytes []byte
}

func (d *distance) read(from net.Conn, pieces chan<- piece) {
	defer close(pieces)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case pieces <- piece{time.Now().Add(d.oneWay), buf[:n]}:
		case <-d.ended:
			return
		}
	}
}

// write passes on what arrives until nothing comes any more.
func (d *distance) write(to net.Conn, pieces <-chan piece) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p := range pieces {
		timer.Reset(time.Until(p.due))
		select {
		case <-timer.C:
		case <-d.ended:
			return nil
		}
		if _, err := to.Write(p.bytes); err != nil {
			return err
		}
	}
	return nil
}
