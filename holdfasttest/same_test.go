package holdfasttest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

func join(all []string) string {
	slices.Sort(all)
	return strings.Join(all, "+")
}

// kinds are those that one server grants to one owner.
var kinds = map[string]maker{
	"rlock":     func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
	"fairlock":  func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	"rwlock":    func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) },
	"readers":   func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name).RLocker() },
	"semaphore": func(c *holdfast.Client, name string) holdfast.Locker { return semaphore.New(c, name, 1) },
	"redlock": func(c *holdfast.Client, name string) holdfast.Locker {
		return redlock.New([]*holdfast.Client{c}, name, redlock.TrustRestarts())
	},
	"multilock": func(c *holdfast.Client, name string) holdfast.Locker { return multilock.New(rlock.New(c, name)) },
}

// patientQuorum is for questions whose answer counts, however busy the machine is.
func patientQuorum(c *holdfast.Client, name string) holdfast.Locker {
	return redlock.New([]*holdfast.Client{c}, name, redlock.TrustRestarts(), redlock.MasterTimeout(5*time.Second))
}

// try asks once. A quorum waits for the answer, however busy the machine is.
func try(l holdfast.Locker) (*holdfast.Hold, error) {
	var opts []holdfast.Option
	if _, several := l.(*redlock.Mutex); several {
		opts = append(opts, redlock.MasterTimeout(5*time.Second))
	}
	return l.TryLock(context.Background(), opts...)
}

// play is one run of a scenario.
type play struct {
	stage
	*testing.T
	make maker

	mu    sync.Mutex // guards the rest
	notes []string
}

const name = "orders:42"

func (p *play) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// locker makes the lock of one more process, which has locked before: without a server's clock its requests count as late.
func (p *play) locker(opts holdfast.Options) holdfast.Locker {
	c := p.client(&opts)
	require.NoError(p, p.lock(p.make(c, "before:"+c.ID())).Unlock(context.Background()))
	return p.make(c, name)
}

// lock locks what must be free, or about to be.
func (p *play) lock(l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	h, err := l.Lock(context.Background(), opts...)
	require.NoError(p, err)
	return h
}

// unlock notes what comes of it.
func (p *play) unlock(h *holdfast.Hold) { p.note("unlock: %s", what(h.Unlock(context.Background()))) }

// over notes how a hold ended, if it does.
func (p *play) over(h *holdfast.Hold) {
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-h.Context().Done():
		p.note("the hold ended: %s", what(context.Cause(h.Context())))
	case <-timer.C:
		p.note("the hold goes on")
	}
}

// free notes whether somebody else can have the lock, sooner or later, with a greater token.
func (p *play) free(before *holdfast.Hold) {
	l, token := p.locker(holdfast.Options{}), uint64(0)
	if !sooner(func() bool {
		h, err := l.TryLock(context.Background())
		if err == nil {
			token = h.Token()
			p.unlock(h)
		}
		return err == nil
	}) {
		p.note("not free")
	}
	p.note("a greater token: %v", before == nil || token > before.Token())
}

// scenario is a story with one outcome, on any server.
type scenario struct {
	kinds   string // those for which it is told; empty: all
	timeout time.Duration
	play    func(p *play)
}

// scenarios are all stories.
var scenarios = union(troubles, family, occupied)

func union(all ...map[string]scenario) map[string]scenario {
	whole := make(map[string]scenario)
	for _, some := range all {
		maps.Copy(whole, some)
	}
	return whole
}

// on runs a scenario and returns what was noted.
func (s scenario) on(t *testing.T, kind string, newStage func(*testing.T, time.Duration) stage) []string {
	return s.sends(t, kind, newStage, nil)
}

// sends is on, and also says which scripts the double has executed.
func (s scenario) sends(t *testing.T, kind string, newStage func(*testing.T, time.Duration) stage, sent *[]string) []string {
	timeout := s.timeout
	if timeout == 0 {
		timeout = 20 * time.Second
	}
	p := &play{stage: newStage(t, timeout), T: t, make: kinds[kind]}
	s.play(p)
	if d, ok := p.stage.(double); ok && sent != nil {
		*sent = d.Ran()
	}
	return p.notes
}

func (s scenario) of() (list []string) {
	if s.kinds != "" {
		return strings.Fields(s.kinds)
	}
	for kind := range kinds {
		list = append(list, kind)
	}
	slices.Sort(list)
	return list
}

// TestSame: a story ends alike on the double, in a bubble or not, and on a real server; quickly there with one kind only.
//
// When all have been played, each script of the library has been executed by one.
func TestSame(t *testing.T) {
	ran, stories := make(record), 0
	t.Cleanup(func() { // when all are over
		if len(ran) < stories {
			t.Log("not all stories were told, so that nothing can be said of scripts that none has the library send")
			return
		}
		// Not require: to end the goroutine of a cleanup takes what was said along.
		assert.Empty(t, ran.without(""), "scripts that no story has the library send")
		for script, title := range only {
			assert.Contains(t, ran.without(title), script, "it would be noticed that nothing sends it")
		}
	})
	var mu sync.Mutex // guards ran
	for title, s := range scenarios {
		for _, kind := range s.of() {
			stories++
			t.Run(title+" "+kind, func(t *testing.T) {
				t.Parallel()
				var bubble, sent []string
				synctest.Test(t, func(t *testing.T) { bubble = s.sends(t, kind, newDouble, &sent) })
				require.NotEmpty(t, bubble)
				mu.Lock()
				ran[part{title, kind}] = sent
				mu.Unlock()
				if testing.Short() && kind != s.of()[0] {
					return
				}
				require.Equal(t, s.on(t, kind, newReal), bubble, "a real server, and the double in a bubble")
				if kind == "rlock" || kind == "semaphore" || kinds[kind] == nil {
					require.Equal(t, s.on(t, kind, newDouble), bubble, "the double outside of a bubble, and in one")
				}
			})
		}
	}
}

// record are the hashes of the scripts that each story had the double execute.
type record map[part][]string

type part struct{ title, kind string }

// only are scripts that one story alone has the library send.
var only = map[string]string{
	"latch_set": "a latch", "election_announce": "an election", "fence": "a guard", "sem_set": "permits", "many": "many at once",
	"fair_join": "goroutines of a client ask together",
}

// without are the names of the scripts that no story but that one has had executed.
func (r record) without(title string) (names []string) {
	left := holdfasttest.Scripts()
	for p, hashes := range r {
		for _, hash := range hashes {
			if p.title != title {
				delete(left, hash)
			}
		}
	}
	for _, text := range left {
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "-- "), ":") // the first line is "-- name: what it does"
		names = append(names, name)
	}
	return names
}

// flawed is a double with a flaw.
type flawed struct {
	stage
	flaw string
}

// flaws are what a double could do wrong, with the story that must notice.
var flaws = map[string]string{
	"a hold is not lost":                         "a hold is lost",
	"a request is lost in place of a reply":      "no reply to Lock arrives",
	"a reply is lost in place of a request":      "no request of Lock arrives",
	"nothing is lost":                            "no reply to Unlock arrives",
	"a server that is silent answers":            "the server is silent",
	"the clock stands still":                     "the clock goes forward",
	"the clock does not go back":                 "the clock goes back",
	"a server that is out of memory goes on":     "out of memory",
	"waiters stand in another order":             "a queue",
	"a reply that is held up comes all the same": "a reply is late",
	"what somebody else has is free":             "somebody else is forced out",
	"somebody else has plain locks only":         "somebody else has it",
}

func (f flawed) inject(fault holdfasttest.Fault) func() {
	switch {
	case f.flaw == "nothing is lost", f.flaw == "a reply that is held up comes all the same":
		return func() {}
	case fault.Op == holdfasttest.Lock && strings.Contains(f.flaw, "in place of"):
		fault.After = !fault.After
	}
	return f.stage.inject(fault)
}

func (f flawed) outOfMemory() func() {
	if f.flaw == "a server that is out of memory goes on" {
		return func() {}
	}
	return f.stage.outOfMemory()
}

func (f flawed) silence() func() {
	if f.flaw == "a server that is silent answers" {
		return func() {}
	}
	return f.stage.silence()
}

func (f flawed) moveClock(d time.Duration) {
	if f.flaw != "the clock stands still" && (f.flaw != "the clock does not go back" || d > 0) {
		f.stage.moveClock(d)
	}
}

func (f flawed) occupy(make maker, lease time.Duration) func() {
	if f.flaw == "what somebody else has is free" {
		return func() {}
	}
	release := f.stage.occupy(make, lease)
	if f.flaw == "somebody else has plain locks only" {
		f.stage.(double).Plain()
	}
	return release
}

func (f flawed) lose(name string) {
	if f.flaw != "a hold is not lost" {
		f.stage.lose(name)
	}
}

func (f flawed) queue(name string, waiters ...func()) func() {
	if f.flaw == "waiters stand in another order" {
		slices.Reverse(waiters)
	}
	return f.stage.queue(name, waiters...)
}

// TestSameControl: the comparison notices a double that does what a server does not.
func TestSameControl(t *testing.T) {
	for flaw, title := range flaws {
		t.Run(flaw, func(t *testing.T) {
			s, told := scenarios[title]
			require.True(t, told, title)
			kind := s.of()[0]
			var right, wrong []string
			synctest.Test(t, func(t *testing.T) { right = s.on(t, kind, newDouble) })
			synctest.Test(t, func(t *testing.T) {
				wrong = s.on(t, kind, func(t *testing.T, timeout time.Duration) stage { return flawed{newDouble(t, timeout), flaw} })
			})
			require.NotEqual(t, right, wrong)
		})
	}
}
