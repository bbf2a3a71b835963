package live

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

// Rate is how many grants there are in a second, as far as looks at the fencing token tell.
//
// A token that differs from the one before means that there was a grant, and not how many. So looks
// count one each, which is all of them as long as grants come more rarely than looks. Where each of the
// last looks found another token, grants come faster than that. A token of this library is the time of
// its grant, so the looks tell how long ago the last grant was: on average half of the time between two
// grants, if these come evenly. The rate is then said from that, and is a guess: half of it is too
// little where grants come at random. Tokens that are no times, as Redisson's are, grow by one with each
// grant, and the difference is the number.
//
// Not seen are grants without a token (of Redisson's locks that are not fenced, of a re-entry), and what
// goroutines of one client hand to each other.
type Rate struct {
	PerSecond float64
	Known     bool // there were looks enough, within the last half minute
	Guessed   bool // from how long ago the last grant was
}

const (
	rateSpan  = 30 * time.Second // looks that are older do not count
	rateLooks = 32               // at most
	guessFrom = 4                // so many looks in a row must have found another token
	apart     = 150 * time.Millisecond
	ahead     = time.Second // of the server's clock: tokens may be a little, where a client has reserved some
)

// glance is what one look says of grants.
type glance struct {
	at     time.Time // by the server's clock
	token  uint64
	grants uint64        // at least so many since the look before
	age    time.Duration // of the last grant, if the token is its time; else negative
}

// track is the glances at one name, the oldest first.
type track []glance

// see adds a look. One that comes soon after the last says little, and is left out.
func (t track) see(l *inspect.Lock) track {
	g := glance{at: l.At, token: l.Token, age: -1}
	if n := len(t); n > 0 {
		last := t[n-1]
		if l.At.Sub(last.at) < apart && l.Token >= last.token {
			return t
		}
		if l.Token < last.token { // it was gone in between
			return track{g}
		}
		granted := time.UnixMicro(int64(l.Token)) //nolint:gosec // tokens are below 2^53
		switch {
		case l.Token == last.token:
		case granted.After(last.at) && granted.Before(l.At.Add(ahead)):
			g.grants, g.age = 1, max(l.At.Sub(granted), 0)
		default:
			g.grants = l.Token - last.token
		}
	}
	t = append(t, g)
	first := slices.IndexFunc(t, func(g glance) bool { return l.At.Sub(g.at) <= rateSpan })
	return slices.Clone(t[max(first, len(t)-rateLooks):])
}

// rate is what the glances amount to.
func (t track) rate() Rate {
	if len(t) < 2 {
		return Rate{}
	}
	var grants uint64
	var ages time.Duration
	guess := len(t) > guessFrom
	for _, g := range t[1:] {
		grants += g.grants
		ages += max(g.age, 0)
		guess = guess && g.age >= 0
	}
	n := len(t) - 1
	r := Rate{PerSecond: float64(grants) / t[n].at.Sub(t[0].at).Seconds(), Known: true}
	if guess {
		if faster := float64(n) / (2 * max(ages, time.Millisecond).Seconds()); faster > r.PerSecond {
			r.PerSecond, r.Guessed = faster, true
		}
	}
	return r
}
