package holdfastweb

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/panics"
)

// again is how soon a server is asked that did not answer.
const again = 2 * time.Second

// taking is what a list has of one master, so far.
type taking struct {
	at int

	mu     sync.Mutex // guards the rest; nobody holds it while asking
	list   []*entry
	more   bool
	worked time.Duration // for how long the master worked at most: until its last answer
	err    error
	ended  bool
}

// takeList goes through all keys of all masters, all at the same time. Of a master that does not answer the
// locks of before stay. While one is silent, what the others have is published without it.
func (p *poller) takeList(ctx context.Context) *snapshot {
	old, _ := p.now()
	from, parts := time.Now(), make([]*taking, len(p.masters))
	var group sync.WaitGroup
	for at := range p.masters {
		parts[at] = &taking{at: at}
		group.Go(func() { p.takeMaster(ctx, old, parts[at]) })
	}
	ended := make(chan struct{})
	go func() { defer close(ended); group.Wait() }()
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return p.listOf(old, parts, from)
		case <-ticker.C:
			if asked := p.owed(); ctx.Err() == nil && !asked.IsZero() && time.Since(asked) >= again {
				p.publish(p.listOf(old, parts, from))
			}
		}
	}
}

// listOf is a list of what is known of all masters by now.
func (p *poller) listOf(old *snapshot, parts []*taking, from time.Time) *snapshot {
	s := &snapshot{index: make(map[key]int), apart: maps.Clone(old.apart), down: make(map[int]outage), taken: old.taken}
	var worked time.Duration // of the master that worked longest
	whole := 0               // masters that have told all
	for _, part := range parts {
		part.mu.Lock()
		list, err, ended := part.list, part.err, part.ended
		s.more = s.more || part.more
		if ended && err == nil {
			whole++
		}
		worked = max(worked, part.worked)
		part.mu.Unlock()
		missed := inspect.Missed(err)
		if err == nil || len(missed) > 0 || !ended {
			for _, e := range list {
				s.add(e)
			}
		}
		switch {
		case err != nil:
			o := old.down[part.at].or(from, err)
			o.ofList = true
			s.down[part.at] = o
		case !ended:
			if o, is := old.down[part.at]; is {
				s.down[part.at] = o
			}
		}
		if err != nil || !ended {
			s.keep(old, part.at, missed)
		}
	}
	if len(s.list) > p.opts.MaxLocks {
		s.drop(p.opts.MaxLocks)
		s.more = true
	}
	now := time.Now()
	p.tracks.forget(now)
	rest := max(p.opts.Every, pause(worked, p.opts.Share*ofList))
	if len(s.down) > 0 {
		rest = max(min(rest, again), pause(worked, p.opts.Share*ofList))
	}
	if whole > 0 || len(s.list) > 0 && s.taken.IsZero() {
		s.taken = now
	}
	s.next = now.Add(rest)
	return s
}

// takeMaster collects what one master has, or one cluster.
func (p *poller) takeMaster(ctx context.Context, old *snapshot, to *taking) {
	wrong := errEnded // unless the loop below comes to its end
	from := time.Now()
	defer func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		to.err, to.ended = wrong, true
		if wrong == nil || answered(wrong) {
			to.worked = time.Since(from)
		}
	}()
	defer panics.Into(&wrong) // of a hook of go-redis: here nobody else would take it
	p.asks(to.at, true)
	defer p.asks(to.at, false)
	first := true
	for l, err := range p.masters[to.at].Locks(ctx, inspect.Query{
		Match: p.opts.Match, Redisson: p.opts.Redisson, Answered: func() { p.asks(to.at, true) }, // and owes the next one
	}) {
		if err != nil {
			wrong = err
			return
		}
		p.asks(to.at, true)
		if first {
			p.role(ctx, to.at)
			first = false
		}
		e := p.entry(to.at, l, old.find(key{to.at, l.Name}))
		to.mu.Lock()
		to.worked = time.Since(from)
		if to.more = len(to.list) >= p.opts.MaxLocks; to.more {
			to.mu.Unlock()
			break
		}
		to.list = append(to.list, e)
		to.mu.Unlock()
	}
	wrong = nil
}

// add puts a lock into the list, once.
func (s *snapshot) add(e *entry) {
	delete(s.apart, e.key)
	if _, is := s.index[e.key]; is {
		return
	}
	s.index[e.key] = len(s.list)
	s.list = append(s.list, e)
}

// drop takes out all from the n-th on.
func (s *snapshot) drop(n int) {
	for _, e := range s.list[n:] {
		delete(s.index, e.key)
	}
	s.list = s.list[:n]
}

// keep takes over what was known of a master; of a cluster that has told what its other masters have: of those
// masters of it that have not.
func (s *snapshot) keep(old *snapshot, at int, missed []string) {
	for _, e := range old.list {
		if e.at == at && (len(missed) == 0 || slices.Contains(missed, e.lock.Server)) {
			s.add(e)
		}
	}
	s.more = s.more || old.more
}

// or is an outage that goes on, with what is the matter now.
func (o outage) or(since time.Time, err error) outage {
	if !o.since.IsZero() {
		since = o.since
	}
	return outage{since, err, o.ofList}
}

// rowsAtOnce is for how many rows a master is asked in one go.
const rowsAtOnce = 100

// takeRows asks for locks that somebody looks at, and makes a list of them and of what was known.
func (p *poller) takeRows(ctx context.Context, rows []key) *snapshot {
	old, _ := p.now()
	s := &snapshot{
		taken: old.taken, next: old.next, more: old.more, apart: maps.Clone(old.apart), down: maps.Clone(old.down),
		index: make(map[key]int, len(old.list)), list: make([]*entry, 0, len(old.list)),
	}
	if s.apart == nil {
		s.apart, s.down = make(map[key]*entry), make(map[int]outage)
	}
	fresh := make(map[key]*entry)
	var worked time.Duration
	for at := range p.masters {
		took, err := p.takeSome(ctx, at, rows, old, fresh)
		worked = max(worked, took)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.down[at] = old.down[at].or(time.Now(), err)
		case took > 0 && !s.down[at].stays():
			delete(s.down, at)
		}
	}
	for _, e := range old.list {
		if f := fresh[e.key]; f != nil {
			e = f
			delete(fresh, e.key)
			if !e.listed() {
				s.apart[e.key] = e
				continue
			}
		}
		s.add(e)
	}
	maps.Copy(s.apart, fresh)
	p.mu.Lock()
	p.rows = time.Now().Add(max(p.opts.Every, pause(worked, p.opts.Share*ofRows)))
	p.mu.Unlock()
	return s
}

// takeSome asks one master for its part of some rows.
func (p *poller) takeSome(ctx context.Context, at int, rows []key, old *snapshot, fresh map[key]*entry) (worked time.Duration, err error) {
	var names []string
	for _, k := range rows {
		if k.at == at {
			names = append(names, k.name)
		}
	}
	from := time.Now()
	for len(names) > 0 {
		p.asks(at, true)
		n := min(rowsAtOnce, len(names))
		locks, err := p.masters[at].Several(ctx, names[:n])
		p.asks(at, false)
		for _, l := range locks {
			if l.Name == "" {
				continue // of a master of a cluster that has not answered
			}
			k := key{at, l.Name}
			fresh[k] = p.entry(at, l, old.find(k))
		}
		if err != nil {
			if answered(err) {
				worked = time.Since(from)
			}
			return worked, err
		}
		worked = time.Since(from)
		names = names[n:]
	}
	return worked, nil
}
