package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/lua"
)

// Options say what is looked at, and what it may cost.
type Options struct {
	// Match is a pattern for the names, as in KEYS of Redis. Empty: all.
	Match string
	// Share is how much of each server's time may be taken, of 1. Default: [DefaultShare].
	Share float64
	// Every is how long a pass waits at least after the one before, where it costs little. Default: a
	// second.
	Every time.Duration
}

// DefaultShare leaves room below a hundredth for what the server does beside commands.
const DefaultShare = 0.008

// of is each lane's part of the share, and what it may spend at the beginning as if it had saved it up
// for so long. Scanning has the whole, of which the others' is taken.
var of = [lanes]struct {
	part  float64
	saved time.Duration
}{scanning: {1, 10 * time.Second}, hearing: {0.15, 5 * time.Second}, looking: {0.45, 5 * time.Second}}

const (
	step = 1000 // keys that one SCAN looks at
	// few is how many holders and waiters are listed of each lock: each costs the server a little.
	few = 8
)

// Picture is what is known of the locks of some servers. All methods are safe for concurrent use.
type Picture struct {
	*board
	opts    Options
	gate    gate
	servers []*server
	begin   time.Time
}

// server is one Redis: a server, or a cluster.
type server struct {
	rdb        redis.UniversalClient
	brief, all *inspect.Inspector // of the first few holders and waiters of each lock; of more

	mu      sync.Mutex // guards the rest
	tolls   []*toll    // one for each node
	passed  time.Time  // when the last pass that came to its end began
	passing time.Time  // when the one under way began; zero: there is none
	keys    int64      // of all nodes, when it began
	scans   int64      // answered before it began
	faults  [lanes]error
}

// New makes a picture of what there is in some servers. The clients must be the picture's alone: it adds
// hooks to them. Nothing is sent.
func New(clients []redis.UniversalClient, opts Options) (*Picture, error) {
	if opts.Share <= 0 {
		opts.Share = DefaultShare
	}
	if opts.Every <= 0 {
		opts.Every = time.Second
	}
	p := &Picture{board: newBoard(), opts: opts, begin: time.Now()}
	for _, rdb := range clients {
		s := &server{rdb: rdb}
		var err error
		if s.brief, err = inspect.New(rdb, &inspect.Options{Step: step, List: few}); err != nil {
			return nil, err
		}
		if s.all, err = inspect.New(rdb, &inspect.Options{Step: step}); err != nil {
			return nil, err
		}
		switch r := rdb.(type) {
		case *redis.ClusterClient:
			r.OnNewNode(func(node *redis.Client) { p.takeToll(s, node) })
		case *redis.Client:
			p.takeToll(s, r)
		}
		p.servers = append(p.servers, s)
	}
	return p, nil
}

func (p *Picture) takeToll(s *server, node *redis.Client) {
	t := &toll{rdb: node, gate: &p.gate}
	for l := range t.meters {
		share := p.opts.Share * of[l].part
		t.meters[l] = newMeter(share, time.Duration(share*float64(of[l].saved)))
	}
	node.AddHook(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tolls = append(s.tolls, t)
}

// Find looks for locks until the context ends, and returns when all of its goroutines have.
func (p *Picture) Find(ctx context.Context) {
	var all sync.WaitGroup
	for n, s := range p.servers {
		all.Go(func() { p.again(ctx, s, scanning, func() error { return p.scan(in(ctx, scanning), n) }) })
		all.Go(func() { p.again(ctx, s, hearing, func() error { return p.loadContended(in(ctx, hearing), n) }) })
	}
	all.Wait()
}

// again repeats something. A fault is noted until it is over.
func (p *Picture) again(ctx context.Context, s *server, l lane, f func() error) {
	for {
		err := f()
		if ctx.Err() != nil {
			return
		}
		s.failed(l, err)
		select {
		case <-time.After(p.opts.Every):
		case <-ctx.Done():
			return
		}
		if p.gate.wait(ctx) != nil {
			return
		}
	}
}

func (s *server) failed(l lane, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[l] = err
}

// FindAll goes over the keys of all servers once, as fast as they answer, but for those that are left out.
func (p *Picture) FindAll(ctx context.Context, without func(server int) bool) error {
	for n := range p.servers {
		if without != nil && without(n) {
			continue
		}
		if err := p.scan(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// scan reads all keys of a server.
func (p *Picture) scan(ctx context.Context, n int) error {
	s := p.servers[n]
	begin := time.Now()
	s.starts(ctx, begin)
	p.anew()
	// Those that are free are looked at too: that one is free now says nothing of one that changes hands
	// fast.
	for l, err := range s.brief.Locks(ctx, inspect.Query{Match: p.opts.Match, Free: true}) {
		if err != nil {
			return err
		}
		p.put(n, l)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.sweep(n, begin)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed, s.passing = begin, time.Time{}
	return nil
}

// starts notes what the progress of a pass is measured by.
func (s *server) starts(ctx context.Context, begin time.Time) {
	keys, _ := s.rdb.DBSize(ctx).Result() // not known, and there is no progress to show
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passing, s.keys, s.scans = begin, keys, s.scanned()
}

// scanned is called with mu held.
func (s *server) scanned() (n int64) {
	for _, t := range s.tolls {
		n += t.scans.Load()
	}
	return n
}

// loadContended reads the locks that have waiters.
func (p *Picture) loadContended(ctx context.Context, n int) error {
	for l, err := range p.servers[n].brief.Locks(ctx, inspect.Query{Match: p.opts.Match, Contended: true}) {
		if lua.IsDenied(err) { // then who waits is seen where a lock is looked at for another reason
			return nil
		}
		if err != nil {
			return err
		}
		p.put(n, l)
	}
	return nil
}

// Look looks at some locks, when the share for it allows that. It looks at those of the other servers, too, if one does not
// answer.
func (p *Picture) Look(ctx context.Context, keys []Key) (first error) {
	for n, s := range p.servers {
		var names []string
		for _, key := range keys {
			if key.Server == n {
				names = append(names, key.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		locks, err := s.brief.Several(in(ctx, looking), names)
		s.failed(looking, err)
		for _, l := range locks {
			if l.Name != "" { // else it is at a master of a cluster that has not answered
				p.put(n, l)
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Lock looks at one lock, with all its holders and waiters: at once, and the next looks wait for longer.
func (p *Picture) Lock(ctx context.Context, key Key) (inspect.Lock, error) {
	return p.servers[key.Server].all.Lock(in(ctx, prompt), key.Name)
}

// End ends one hold, see [inspect.Inspector.End].
func (p *Picture) End(ctx context.Context, key Key, g inspect.Grant) (inspect.Ended, error) {
	return p.servers[key.Server].all.End(ctx, key.Name, g)
}

// Pause stops Find where it is, or lets it go on.
func (p *Picture) Pause(on bool) { p.gate.set(on) }

// Rows are the locks that are known, in no order. The version grows with each change.
func (p *Picture) Rows() (rows []*Row, version int) { return p.all() }

// Status is how a picture comes about.
type Status struct {
	// Listed is when the last pass began that came to its end, of several servers the earliest: what was
	// there then, and is still, is in the picture. Zero: no pass has come to its end yet. The servers in Missing do
	// not count, unless all are.
	Listed  time.Time
	Missing []int // the servers that failed when they were last asked
	// Progress is how much of the pass under way is done, of 1; of several servers the least. Negative:
	// there is none, or it is not known.
	Progress float64
	// Spent is the time that all commands took the server since New, of several the greatest.
	Spent time.Duration
	Since time.Time // New
	Left  int       // names that were left out, because there are too many
	Err   error     // why a server was not asked, and is again soon; nil: none
	At    int       // which server that was
}

// Status tells how the picture comes about.
func (p *Picture) Status() Status {
	st := Status{Progress: -1, Since: p.begin}
	var listed, missing []time.Time // when the last passes began
	for n, s := range p.servers {
		s.mu.Lock()
		if s.faults != [lanes]error{} {
			st.Missing = append(st.Missing, n)
			missing = append(missing, s.passed)
		} else {
			listed = append(listed, s.passed)
		}
		if !s.passing.IsZero() && s.keys > 10*step { // of a few the locks take longer than the keys
			done := min(float64((s.scanned()-s.scans)*step)/float64(s.keys), 0.99)
			if st.Progress < 0 || done < st.Progress {
				st.Progress = done
			}
		}
		for _, t := range s.tolls {
			st.Spent = max(st.Spent, time.Duration(t.spent.Load()))
		}
		for _, err := range s.faults {
			if err != nil && st.Err == nil {
				st.Err, st.At = err, n
			}
		}
		s.mu.Unlock()
	}
	if len(listed) == 0 {
		listed = missing
	}
	if len(listed) > 0 {
		st.Listed = slices.MinFunc(listed, time.Time.Compare)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st.Left = p.left
	return st
}
