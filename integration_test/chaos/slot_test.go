//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

// slot is a place for one client process after another, with proxies that they share. One goroutine at a time uses it.
type slot struct {
	job     job
	proxies []*faultproxy.Proxy
	hit     []*faultproxy.Proxy // those that the fault under way is made at
	rng     *rand.Rand
	next    func() int                 // the number of the next client
	shape   func(rng *rand.Rand) shape // draws that of the next one; nil: as go-redis makes them
	p       *process
	past    []*process // those that were killed
	down    int        // which server the process does not reach, if mend is there
	mend    func()     // puts an end to that
	err     error      // a process could not be started
	count   map[string]int
	diary   []string
	deaf    time.Duration // how long the last fault goes on after its end, as far as wake-ups are concerned
}

// newSlot makes a slot with a process in it.
func newSlot(tb testing.TB, t *target, j job, rng *rand.Rand, next func() int, draw func(*rand.Rand) shape) *slot {
	tb.Helper()
	s := &slot{job: j, rng: rng, next: next, shape: draw, count: make(map[string]int)}
	s.proxies, s.job.Proxies = t.proxies(tb)
	s.job.Mode, s.job.Addrs = t.mode, t.addrs
	s.launch()
	if s.err != nil {
		tb.Fatal(s.err)
	}
	tb.Cleanup(func() { // of a test that gave up
		for _, p := range append(s.past, s.p) {
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
	return s
}

func (s *slot) launch() {
	s.job.Client = s.next()
	if s.shape != nil {
		s.job.Shape = s.shape(s.rng)
		for _, name := range s.job.Shape.names(s.job.Mode) {
			s.count[name]++
		}
	}
	if s.p, s.err = launch(s.job); s.err != nil {
		s.p = nil
	}
}

// storm makes faults of these kinds, each once before any comes again, until ctx ends.
func (s *slot) storm(ctx context.Context, kinds []string, gap time.Duration) {
	deal := bag{rng: s.rng}
	for s.err == nil && workload.Sleep(ctx, random(s.rng, gap)) {
		kind := deal.next(kinds)
		s.count[kind]++
		from := now()
		client := s.p.number
		s.deaf = 0
		s.hit = s.proxies
		if s.job.Mode == quorum {
			s.hit = some(s.rng, s.proxies)
		}
		local[kind](ctx, s)
		s.diary = append(s.diary, entry(from, fmt.Sprintf("client %d", client), kind))
		if s.p != nil {
			s.p.faults = append(s.p.faults, history.Window{From: from, To: now() + int64(s.deaf)})
		}
	}
}

// while has something be so for a time.
func (s *slot) while(ctx context.Context, begin, end func(p *faultproxy.Proxy), shortest, longest time.Duration) {
	for _, p := range s.hit {
		begin(p)
	}
	workload.Sleep(ctx, between(s.rng, shortest, longest))
	for _, p := range s.hit {
		end(p)
	}
}

// silence has something vanish for a time; the connections hit stay mute. Half of the time they break at the end; else pings
// must find the listening one: after 5 s of silence it is pinged, and given up after 5 more.
func (s *slot) silence(ctx context.Context, what func(p *faultproxy.Proxy, on bool), longest time.Duration) {
	s.deaf = 10 * time.Second
	broken := s.rng.IntN(2) == 0
	if broken {
		s.deaf = 0
	}
	s.while(ctx, func(p *faultproxy.Proxy) { what(p, true) }, func(p *faultproxy.Proxy) {
		what(p, false)
		if broken {
			p.CutAll()
		}
	}, 100*time.Millisecond, longest)
}

// sometimes adds a rule for some of the commands.
func (s *slot) sometimes(ctx context.Context, add func(p *faultproxy.Proxy, match func([]string) bool)) {
	hit := s.rng.Float64()
	dice := make(map[*faultproxy.Proxy]*rand.Rand) // each is used under the lock of its proxy
	for _, p := range s.hit {
		dice[p] = rand.New(rand.NewPCG(s.rng.Uint64(), 0))
	}
	commands := faultproxy.Command("EVALSHA", "EVAL")
	s.while(ctx, func(p *faultproxy.Proxy) {
		add(p, func(args []string) bool { return commands(args) && dice[p].Float64() < hit })
	}, (*faultproxy.Proxy).Clear, 200*time.Millisecond, time.Second)
}

// keepConnections has the proxies keep the process's connections when a server is started anew.
func (s *slot) keepConnections() {
	s.count["keeps connections"]++
	for _, p := range s.proxies {
		p.KeepConnections()
	}
}

// local are the faults of single clients, by name. Each lasts less than the clients' retry budget.
var local = map[string]func(ctx context.Context, s *slot){
	"drop-reply": func(ctx context.Context, s *slot) {
		s.sometimes(ctx, func(p *faultproxy.Proxy, match func([]string) bool) { p.On(match, 0, faultproxy.DropReply) })
	},
	"drop-request": func(ctx context.Context, s *slot) {
		s.sometimes(ctx, func(p *faultproxy.Proxy,
			match func([]string) bool) {
			p.On(match, 0, faultproxy.DropRequest)
		})
	},
	"delay-reply": func(ctx context.Context, s *slot) {
		d := between(s.rng, 20*time.Millisecond, 450*time.Millisecond) // shorter and longer than the clients' timeout
		s.sometimes(ctx, func(p *faultproxy.Proxy, match func([]string) bool) { p.DelayReply(match, 0, d) })
	},
	"delay-request": func(ctx context.Context, s *slot) {
		d := between(s.rng, 20*time.Millisecond, 450*time.Millisecond)
		s.sometimes(ctx, func(p *faultproxy.Proxy, match func([]string) bool) { p.DelayRequest(match, 0, d) })
	},
	// Some requests come much later than all that follows them: while they are good, or after, and some when all is over.
	"keep-request": func(ctx context.Context, s *slot) {
		d := time.Hour
		if s.rng.IntN(2) == 0 {
			d = between(s.rng, 50*time.Millisecond, 3*time.Second)
			s.deaf = d
		}
		s.sometimes(ctx, func(p *faultproxy.Proxy, match func([]string) bool) { p.KeepRequest(match, 0, d) })
	},
	"cut": func(_ context.Context, s *slot) {
		for _, p := range s.hit {
			p.CutAll()
		}
	},
	"flap": func(ctx context.Context, s *slot) {
		for range 2 + s.rng.IntN(4) {
			s.while(ctx, (*faultproxy.Proxy).Stop, (*faultproxy.Proxy).Start, 5*time.Millisecond, 60*time.Millisecond)
			workload.Sleep(ctx, between(s.rng, 5*time.Millisecond, 60*time.Millisecond))
		}
	},
	"black-hole": func(ctx context.Context, s *slot) { s.silence(ctx, (*faultproxy.Proxy).Silence, 2*time.Second) },
	"lose-requests": func(ctx context.Context, s *slot) {
		s.silence(ctx, (*faultproxy.Proxy).LoseRequests, 1500*time.Millisecond)
	},
	"lose-replies": func(ctx context.Context, s *slot) {
		s.silence(ctx, (*faultproxy.Proxy).LoseReplies, 1500*time.Millisecond)
	},
	"refuse": func(ctx context.Context, s *slot) {
		s.while(ctx, (*faultproxy.Proxy).Stop, (*faultproxy.Proxy).Start, 50*time.Millisecond, time.Second)
	},
	"pause": func(ctx context.Context, s *slot) {
		s.p.pause()
		workload.Sleep(ctx, between(s.rng, 10*time.Millisecond, 300*time.Millisecond))
		s.p.resume()
	},
	"pause-beyond-lease": func(ctx context.Context, s *slot) {
		s.p.pause()
		workload.Sleep(ctx, s.job.Lease+between(s.rng, 0, s.job.Lease/2))
		s.p.resume()
	},
	"kill": func(_ context.Context, s *slot) { s.replace() },
	"kill-paused": func(ctx context.Context, s *slot) {
		s.p.pause()
		workload.Sleep(ctx, between(s.rng, 10*time.Millisecond, 2*s.job.Lease))
		s.replace()
	},
	"next-link": func(_ context.Context, s *slot) { s.nextLink() },
	"reopen":    func(_ context.Context, s *slot) { s.p.command("reopen") },
}

// replace kills the process and puts another in its place.
func (s *slot) replace() {
	s.p.kill()
	s.past = append(s.past, s.p)
	s.launch()
}
