package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// TestCrowd runs worlds in which callers are the fault: most have no time, and many more come than the lock can serve.
// Somebody is granted the lock all the same; what each costs is bounded; and all are told what is so.
func TestCrowd(t *testing.T) {
	var sum totals
	told := make(map[string]int)
	for seeds := range worlds(t, []uint64{19, 20, 36, 39, 47, 58}, upTo(24), nil) {
		for _, seed := range seeds { // one at a time, for goroutines are counted
			r := run(t, &World{Settings: crowded(seed)})
			sum.add(r)
			for _, o := range r.Ops {
				switch {
				case o.Early:
					told["ended before the call"]++
				case o.Outage:
					told["an outage"]++
				case o.Taken:
					told["taken"]++
				}
			}
			history.Report(t, r.Problems, replay(t, seed))
		}
	}
	t.Logf("proof: simulation: crowds: %s; told: %v", &sum, told)
	if !level.Exploring() {
		require.Len(t, told, 3)
	}
}

// TestCrowdControls: what a crowd does without a defence is found in the first worlds.
func TestCrowdControls(t *testing.T) {
	const plain, fair, permits = 24, 25, 27 // see crowded
	for _, c := range []struct {
		name, check string
		off         *defence.Switch
		seed        uint64
		bias        func(*Settings)
	}{
		{"nothing is sent for who has left", "places", &defence.Gone, fair, slowServer},
		{"who left is given back together", "places", &defence.Together, permits, farServer},
		{"who left is given back", "progress", &defence.Undo, plain, farServer},
		{"the word of others counts", "truth", &defence.Noted, fair, farServer},
		{"an outage is none of others'", "truth", &defence.Outage, fair, silentServer},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.off != &defence.Gone { // the others have controls elsewhere; here they are those of the checks
				level.ForAll(t)
			}
			found := func(check string) (all []history.Violation) {
				w := &World{Settings: crowded(c.seed)}
				c.bias(&w.Settings)
				for _, p := range run(t, w).Problems {
					if check == "" || p.Check == check {
						all = append(all, p)
					}
				}
				return all
			}
			if !testing.Short() {
				history.Report(t, found(""), t.Name())
			}
			defer c.off.Without(t)()
			all := found(c.check)
			require.NotEmpty(t, all, "control")
			t.Logf("%d times, first: %s", len(all), all[0].Text)
		})
	}
}

// farServer has a crowd that the server can serve just so.
func farServer(s *Settings) {
	s.Crowd, s.Latency, s.Service, s.Apart = 16, 3*time.Millisecond, 600*time.Microsecond, false
	s.Only, s.FaultGap, s.Burst, s.Length = nil, time.Hour, 300*time.Millisecond, 15*time.Second
}

// slowServer has a crowd that it cannot.
func slowServer(s *Settings) {
	farServer(s)
	s.Service = s.Latency
}

// silentServer is out of reach nearly all the time.
func silentServer(s *Settings) {
	farServer(s)
	s.Latency, s.Burst, s.Crowd = 20*time.Millisecond, 2*time.Second, 8
	s.silence(time.Second, s.Length)
}

// TestDear: what callers may cost, and what is too much.
func TestDear(t *testing.T) {
	ops := []history.Op{{Kind: history.Lock, Call: 1, Return: 20}, {Kind: history.Lock, Actor: 1, Call: 2, Return: 30}}
	for _, c := range []struct {
		what string
		l    load
		bad  string
	}{
		{"as much as may be", load{at: 10, places: 12, commands: 104, goroutines: 64}, ""},
		{"places", load{at: 10, places: 13}, "places"},
		{"goroutines", load{at: 10, goroutines: 65}, "goroutines"},
		{"commands", load{at: 10, commands: 105}, "commands"},
		{"one has left", load{at: 25, places: 11}, "places"},
		{"after a fault", load{at: 10 + int64(time.Hour), places: 13}, ""},
	} {
		w := &World{Settings: Settings{Clients: 1}, loads: []load{c.l}, windows: []history.Window{{From: int64(time.Hour), To: int64(time.Hour)}}}
		found := ""
		for _, v := range w.dear(ops) {
			found += v.Check
		}
		require.Equal(t, c.bad, found, c.what)
	}
}
