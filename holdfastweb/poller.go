package holdfastweb

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

// poller is the only one who asks for lists. It runs while somebody watches, or waits for a list, and
// what it learns is for all.
//
// Its goroutine is started by who comes first, under mu, and ends by itself when nobody is left, or with
// close, which waits for it.
type poller struct {
	masters  []*inspect.Inspector
	rdbs     []redis.UniversalClient // of the masters
	replicas []atomic.Bool           // which of them was a replica when it was last asked
	opts     *Options
	tracks   tracks

	searches  []*search
	searching sync.WaitGroup
	alive     context.Context // of searches, until close
	die       context.CancelCauseFunc

	mu       sync.Mutex // guards the rest; nobody holds it while asking
	snap     *snapshot
	news     chan struct{} // closed when snap is another one
	watchers map[*watcher]struct{}
	wanted   bool // somebody waits for a list, and watches nothing
	closed   bool
	end      context.CancelFunc // of the goroutine that runs; nil: none does
	ended    chan struct{}      // closed when that goroutine has ended
	wake     chan struct{}      // holds one if there is something new for the goroutine to know
	rows     time.Time          // when rows may be asked for again
	asking   map[int]time.Time  // since when masters owe an answer, those that do
	failing  map[int]outage     // of masters that pages of single locks were asked for last, in vain
	heard    map[int]time.Time  // when such a page last had an answer
}

// watcher is somebody whose page is live.
type watcher struct{ shown []key } // guarded by the poller's mu

func newPoller(rdbs []redis.UniversalClient, masters []*inspect.Inspector, searches []*search, opts *Options) *poller {
	alive, die := context.WithCancelCause(context.Background())
	return &poller{
		searches: searches, alive: alive, die: die,
		masters: masters, rdbs: rdbs, replicas: make([]atomic.Bool, len(masters)), opts: opts, snap: &snapshot{}, news: make(chan struct{}),
		watchers: make(map[*watcher]struct{}), wake: make(chan struct{}, 1), asking: make(map[int]time.Time),
		failing: make(map[int]outage), heard: make(map[int]time.Time),
	}
}

var (
	errClosed  = errors.New("the page is closed")
	errViewers = errors.New("too many people watch live pages")
)

// watch adds somebody who watches.
func (p *poller) watch() (*watcher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, errClosed
	case len(p.watchers) >= p.opts.MaxViewers:
		return nil, errViewers
	}
	w := &watcher{}
	p.watchers[w] = struct{}{}
	p.startLocked()
	return w, nil
}

func (p *poller) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *poller) leave(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, w)
	p.nudge()
}

// show says which locks a watcher sees, and keeps them up to date from now on.
func (p *poller) show(w *watcher, keys []key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.shown = keys
	p.nudge()
}

// nudge makes the goroutine look again at what there is to do.
func (p *poller) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// now is what is known, and what is closed when more is.
func (p *poller) now() (*snapshot, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snap, p.news
}

// owed is since when a master owes an answer, of those that do the one that has owed it for longest; zero: none
// does.
func (p *poller) owed() (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, asked := range p.asking {
		if since.IsZero() || asked.Before(since) {
			since = asked
		}
	}
	return since
}

// failed is the outage that keeps a page of a single lock from an answer. It began with the first such page, or with
// the list's outage if that has not ended since. The list has more time to learn the cause than such a page.
func (p *poller) failed(at int, err error) outage {
	p.mu.Lock()
	defer p.mu.Unlock()
	ours := errors.Is(err, errBusy) || errors.Is(err, context.Canceled) // and no fault of the master's
	if p.snap.taken.After(p.failing[at].since) {
		delete(p.failing, at)
	}
	o := p.failing[at].or(time.Now(), err)
	if list, is := p.snap.down[at]; is && !list.stays() && list.since.After(p.heard[at]) {
		if list.since.Before(o.since) {
			o.since = list.since
		}
		if ours || errors.Is(err, context.DeadlineExceeded) {
			o.err, ours = list.err, false
		}
	}
	if !ours {
		p.failing[at] = o
	}
	return o
}

// succeeded notes that a page of a single lock had an answer.
func (p *poller) succeeded(at int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failing, at)
	p.heard[at] = time.Now()
}

// recent is what is known, and waits for a new list until ctx ends if the last one is so old that there
// may be another.
func (p *poller) recent(ctx context.Context) *snapshot {
	p.mu.Lock()
	old := p.snap
	var news <-chan struct{} = p.news
	if p.closed || time.Now().Before(old.next) {
		p.mu.Unlock()
		return old
	}
	p.wanted = true
	p.startLocked()
	p.nudge()
	p.mu.Unlock()
	for {
		select {
		case <-news:
		case <-ctx.Done():
			s, _ := p.now()
			return s
		}
		var s *snapshot
		if s, news = p.now(); !s.next.Equal(old.next) || p.isClosed() { // there was a list, and not only some rows
			return s
		}
	}
}

// startLocked starts the goroutine if none runs. One that is about to end has said so under mu.
func (p *poller) startLocked() {
	if p.end != nil || p.closed {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	p.end, p.ended = func() { cancel(errClosed) }, make(chan struct{})
	go p.run(ctx, p.ended)
}

// close ends the goroutine and waits for it: for as long as a command under way may take.
func (p *poller) close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.news) // whoever waits for a list gets what there is
		p.news = make(chan struct{})
	}
	end, ended := p.end, p.ended
	p.mu.Unlock()
	if end != nil {
		end()
	}
	if ended != nil {
		<-ended
	}
	p.die(errClosed)
	p.searching.Wait()
}

func (p *poller) run(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	for {
		list, rows, wait, ok := p.due(ctx)
		switch {
		case !ok:
			return
		case wait > 0:
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-p.wake:
			case <-ctx.Done():
			}
			t.Stop()
		case list:
			p.publish(p.takeList(ctx))
		default:
			p.publish(p.takeRows(ctx, rows))
		}
	}
}

// due is what there is to do: take a list, ask for rows, or wait for that long. It is not ok if there is
// nothing, and nobody will come without starting another goroutine.
func (p *poller) due(ctx context.Context) (list bool, rows []key, wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || len(p.watchers) == 0 && !p.wanted {
		p.end()
		p.end = nil
		return false, nil, 0, false
	}
	p.searchLocked()
	now := time.Now()
	if wait = p.snap.next.Sub(now); wait <= 0 {
		return true, nil, 0, true
	}
	again := p.rows.Sub(now)
	if again <= 0 {
		// What the list brought just now need not be asked for again.
		if rows = p.shownLocked(now.Add(-p.opts.Every)); len(rows) > 0 {
			return false, rows, 0, true
		}
		again = p.opts.Every
	}
	return false, nil, max(min(wait, again), time.Millisecond), true
}

// shownLocked are the keys that somebody sees, and of which nothing has been heard since then.
func (p *poller) shownLocked(since time.Time) (list []key) {
	all := make(map[key]struct{})
	for w := range p.watchers {
		for _, k := range w.shown {
			if _, is := all[k]; is {
				continue
			}
			all[k] = struct{}{}
			if e := p.snap.find(k); e == nil || e.seen.Before(since) {
				list = append(list, k)
			}
		}
	}
	return list
}

// role asks a master whether it is a replica. It is called when the master has just answered, so that a silent one is
// waited for once.
func (p *poller) role(ctx context.Context, at int) {
	p.replicas[at].Store(inspect.IsReplica(ctx, p.rdbs[at]))
}

// entry is what a master has said of a lock.
func (p *poller) entry(at int, l inspect.Lock, before *entry) *entry {
	if p.replicas[at].Load() {
		l = l.AtReplica()
	}
	e := newEntry(at, l, time.Now(), before)
	e.rate = p.tracks.see(e.key, &l, e.seen)
	return e
}

// asks notes that a master owes an answer, or has given one.
func (p *poller) asks(at int, owes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.asking, at); owes {
		p.asking[at] = time.Now()
	}
}

func (p *poller) publish(s *snapshot) {
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	shown := make(map[key]struct{})
	for w := range p.watchers {
		for _, k := range w.shown {
			shown[k] = struct{}{}
		}
	}
	maps.DeleteFunc(s.apart, func(k key, _ *entry) bool { _, is := shown[k]; return !is })
	if p.snap.next != s.next {
		p.wanted = false
	}
	p.snap = s
	close(p.news)
	p.news = make(chan struct{})
}
