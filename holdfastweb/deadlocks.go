package holdfastweb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/lua"
)

// search looks for circles of waits at one master.
//
// It goes through all keys. Where it sees a circle it waits until that is certain, for at most about a minute. So
// each time it has a goroutine of its own, and lists and rows do not wait for it. One that has begun goes
// on when the last viewer has gone: a page that is not live shows what was found when it is loaded again.
type search struct {
	inspector *inspect.Inspector
	rested    time.Duration // of the search under way, which alone touches it: in which it asked nothing

	mu      sync.Mutex // guards the rest; nobody holds it while asking
	circles []circle   // as the last search found them that came to its end
	err     error      // why the last search did not
	next    time.Time  // when the next one may begin
	runs    bool
}

// circle is a deadlock, and when it was seen.
type circle struct {
	inspect.Deadlock
	seen time.Time
}

// searchEvery is how many times Options.Every there are between two searches, at least.
const searchEvery = 10

func newSearch(rdb redis.UniversalClient, opts *Options) (s *search, err error) {
	s = &search{}
	s.inspector, err = inspect.New(rdb, &inspect.Options{
		ClassicPubSub: opts.ClassicPubSub, Rested: func(d time.Duration) { s.rested += d },
	})
	return s, err
}

// searchLocked begins the searches that are due. The poller calls it while somebody looks, with mu held.
func (p *poller) searchLocked() {
	for _, s := range p.searches {
		s.mu.Lock()
		if !p.closed && !s.runs && !time.Now().Before(s.next) {
			s.runs = true
			p.searching.Go(func() { s.run(p.alive, p.opts) })
		}
		s.mu.Unlock()
	}
}

func (s *search) run(ctx context.Context, opts *Options) {
	from := time.Now()
	s.rested = 0
	var found []inspect.Deadlock
	err := errEnded
	defer func() { s.end(opts, from, found, err) }() // also if a hook ends the goroutine, or no search would follow
	found, err = s.deadlocks(ctx)
}

// errEnded is the error of a goroutine that a hook ended: no defer can stop runtime.Goexit.
var errEnded = errors.New("a hook or dialer of go-redis ended the goroutine that asked, by runtime.Goexit")

func (s *search) end(opts *Options, from time.Time, found []inspect.Deadlock, err error) {
	var worked time.Duration
	if err == nil || answered(err) {
		worked = time.Since(from) - s.rested
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs, s.err, s.next = false, err, now.Add(max(searchEvery*opts.Every, pause(worked, opts.Share*ofSearches)))
	if err != nil {
		return
	}
	s.circles = nil
	for _, d := range found {
		// Names that the page must not show may not be here either.
		if opts.Match == "" || !slices.ContainsFunc(d, func(b inspect.Blocked) bool {
			return !inspect.Matches(opts.Match, b.Name) || !inspect.Matches(opts.Match, b.Has)
		}) {
			s.circles = append(s.circles, circle{d, now})
		}
	}
}

func (s *search) deadlocks(ctx context.Context) (_ []inspect.Deadlock, err error) {
	defer panics.Into(&err) // of a hook of go-redis: here nobody else would take it
	return s.inspector.Deadlocks(ctx)
}

// known are the circles that stood lately, and why there may be others.
func (s *search) known() ([]circle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.circles, s.err
}

// deadlock is a circle of waits on the page.
type deadlock struct {
	Title, Seen string
	Waits       []blocked
	More        int // waits that are not listed
}

// blocked is one of its waits.
type blocked struct {
	Who      ownerCell
	Has, For named
	Since    moment
	By       string // who has what it waits for
}

// named is a lock, with a link to its page, empty where there is none.
type named struct{ Name, At string }

// The most that is listed of what anybody may have written to Redis.
const mostCircles, mostBlocked = 5, 10

// deadlocks are all circles of waits, and what the page cannot know of them.
func (h *Handler) deadlocks(s *snapshot, now time.Time, live bool) (list []deadlock, says []string) {
	more := 0
	for at, search := range h.poller.searches {
		circles, err := search.known()
		if _, down := s.down[at]; lua.IsDenied(err) && !down {
			says = append(says, fmt.Sprintf("Deadlocks are not shown, because %s refuses: %s%s", h.called(at), said(err, 300), remedy(err)))
		}
		for _, c := range circles {
			if len(list) == mostCircles {
				more++
				continue
			}
			list = append(list, c.shown(now, live))
		}
	}
	if more > 0 {
		says = append(says, fmt.Sprintf("There are %d more deadlocks: “holdfast doctor --deadlocks” lists all.", more))
	}
	return list, says
}

func (c circle) shown(now time.Time, live bool) deadlock {
	d := deadlock{Title: "a caller waits for what it has itself", Seen: clock(c.seen), More: max(len(c.Deadlock)-mostBlocked, 0)}
	if len(c.Deadlock) > 1 {
		d.Title = fmt.Sprintf("%d callers wait for each other", len(c.Deadlock))
	}
	who := func(b *inspect.Blocked) ownerCell {
		cell := newOwnerCell(b.Owner, b.Client, b.Label)
		cell.Owner, cell.Label = owner(b.Owner), shown(b.Label, 48)
		return cell
	}
	for n := range c.Deadlock[:len(c.Deadlock)-d.More] {
		b, next := &c.Deadlock[n], who(&c.Deadlock[(n+1)%len(c.Deadlock)])
		w := blocked{
			Who: who(b), Has: named{shown(b.Has, inRow), linkTo(b.Has)}, For: named{shown(b.Name, inRow), linkTo(b.Name)},
			Since: since(c.seen.Add(-b.Waited), now, live), By: next.Label,
		}
		if w.By == "" {
			w.By = next.Owner
		}
		d.Waits = append(d.Waits, w)
	}
	return d
}
