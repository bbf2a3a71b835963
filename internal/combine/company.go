package combine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Company is a known number of callers who begin together, each in a goroutine of its own. Their
// first commands to one server travel together, whatever else is under way: a [Combiner] alone
// never waits for company, and would send the first two of them by themselves.
//
// A guest who turns out to send nothing says so, by Leave. Nobody waits for longer than a moment for
// one who does neither.
type Company struct {
	mu      sync.Mutex // guards the rest; never held while something is sent
	missing int        // guests who have neither come nor left
	gone    bool       // the others are not waited for any more
	seats   map[*Combiner][]*seat
	timer   *time.Timer
}

// Guest is one of a company.
type Guest struct {
	company *Company
	here    bool // has come or left; guarded by the company's mu
}

type guestKey struct{}

// NewCompany is for so many guests.
func NewCompany(guests int) *Company { return &Company{missing: guests} }

// Guest makes one of the guests, and the context under which it sends.
func (p *Company) Guest(ctx context.Context) (context.Context, *Guest) {
	g := &Guest{company: p}
	return context.WithValue(ctx, guestKey{}, g), g
}

// Leave says that the guest sends nothing more. It may be called in any case.
func (g *Guest) Leave() {
	g.company.mu.Lock()
	defer g.company.mu.Unlock()
	g.arriveLocked()
}

// arriveLocked reports whether the guest had neither come nor left.
func (g *Guest) arriveLocked() bool {
	if g.here {
		return false
	}
	g.here = true
	if g.company.missing--; g.company.missing == 0 {
		defer g.company.departLocked()
	}
	return !g.company.gone
}

// join gives a command a seat among those of its company. It is nil for one that has no company, or
// not any more. The caller waits for its turn.
func (c *Combiner) join(ctx context.Context, cmd redis.Cmder, until time.Time) *seat {
	g, _ := ctx.Value(guestKey{}).(*Guest)
	if g == nil {
		return nil
	}
	p := g.company
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.here || p.gone {
		return nil
	}
	c.mu.Lock()
	s := c.seat(ctx, cmd, until)
	c.mu.Unlock()
	if p.seats == nil {
		p.seats = make(map[*Combiner][]*seat)
		p.timer = time.AfterFunc(c.patience, p.depart)
	}
	p.seats[c] = append(p.seats[c], s)
	g.arriveLocked()
	return s
}

// depart has those who have come sent.
func (p *Company) depart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.departLocked()
}

// departLocked tells the first at each server to send, with the others at its side.
func (p *Company) departLocked() {
	if p.gone {
		return
	}
	p.gone = true
	if p.timer != nil {
		p.timer.Stop()
	}
	for c, seats := range p.seats {
		c.depart(seats)
	}
	p.seats = nil
}

// depart tells the foremost of some seats to send, with the others at its side.
func (c *Combiner) depart(seats []*seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seats = slices.DeleteFunc(seats, func(s *seat) bool { return s.left })
	for len(seats) > 0 {
		n := min(len(seats), maxBatch)
		at := foremost(seats[:n])
		lead := seats[at]
		lead.others = append(append(lead.others, seats[:at]...), seats[at+1:n]...)
		seats = seats[n:]
		c.begin(lead)
		lead.turn <- true
	}
}
