package holdfastweb

import (
	"context"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

// again is how soon a server is asked that did not answer.
const again = 2 * time.Second

// takeList goes through all keys of all masters. Of a master that does not answer the locks of before
// stay.
func (p *poller) takeList(ctx context.Context) *snapshot {
	old, _ := p.now()
	s := &snapshot{index: make(map[key]int), apart: maps.Clone(old.apart), down: make(map[int]outage), taken: old.taken}
	var worked time.Duration // of the master that worked longest
	failed := false
	for at := range p.masters {
		from := time.Now()
		took, err := p.takeMaster(ctx, at, old, s)
		worked = max(worked, took)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			failed = true
			s.down[at] = old.down[at].or(from, err)
			s.keep(old, at)
		}
	}
	now := time.Now()
	rest := max(p.opts.Every, pause(worked, p.opts.Share*ofList))
	if failed {
		rest = max(min(rest, again), pause(worked, p.opts.Share*ofList))
	}
	if len(s.down) < len(p.masters) {
		s.taken = now
	}
	s.next = now.Add(rest)
	return s
}

// takeMaster adds what one master has, and says for how long it worked at most: until its last answer.
func (p *poller) takeMaster(ctx context.Context, at int, old, s *snapshot) (worked time.Duration, err error) {
	from := time.Now()
	p.asks(true)
	defer p.asks(false)
	begin := len(s.list)
	for l, err := range p.masters[at].Locks(ctx, inspect.Query{
		Match: p.opts.Match, Redisson: p.opts.Redisson, Answered: func() { p.asks(true) }, // and owes the next one
	}) {
		if err != nil {
			if answered(err) {
				worked = time.Since(from)
			}
			s.drop(begin)
			return worked, err
		}
		worked = time.Since(from)
		p.asks(true)
		if len(s.list) >= p.opts.MaxLocks {
			s.more = true
			break
		}
		s.add(newEntry(at, l, time.Now(), old.find(key{at, l.Name})))
	}
	return time.Since(from), nil
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

// keep takes over what was known of a master.
func (s *snapshot) keep(old *snapshot, at int) {
	for _, e := range old.list {
		if e.at == at {
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
	return outage{since, err.Error()}
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
		case took > 0:
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
		p.asks(true)
		n := min(rowsAtOnce, len(names))
		locks, err := p.masters[at].Several(ctx, names[:n])
		p.asks(false)
		if err != nil {
			if answered(err) {
				worked = time.Since(from)
			}
			return worked, err
		}
		worked = time.Since(from)
		for _, l := range locks {
			k := key{at, l.Name}
			fresh[k] = newEntry(at, l, time.Now(), old.find(k))
		}
		names = names[n:]
	}
	return worked, nil
}
