// Package grantrate tells how many grants of a lock there are in a second, from looks at its fencing
// token.
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
package grantrate

import (
	"fmt"
	"slices"
	"time"
)

// Rate is how many grants there are in a second, as far as it is known.
type Rate struct {
	PerSecond float64
	Known     bool // the looks of the last half minute were enough, and close enough together
	Guessed   bool // from how long ago the last grant was
}

// String is a rate in at most seven columns: "-" where it is not known, and "~" before a guess.
func (r Rate) String() string {
	about := ""
	if r.Guessed {
		about = "~"
	}
	switch {
	case !r.Known:
		return "-"
	case r.PerSecond == 0:
		return "0"
	case r.PerSecond < 10:
		return fmt.Sprintf("%s%.2g", about, max(r.PerSecond, 0.01))
	}
	return fmt.Sprintf("%s%.0f", about, r.PerSecond)
}

// Span is how old a look may be that counts.
const Span = 30 * time.Second

const (
	mostLooks = 32
	guessFrom = 4 // so many looks in a row must have found another token
	apart     = 150 * time.Millisecond
	far       = 5 * time.Second
	ahead     = time.Second // of the server's clock: tokens may be a little, where a client has reserved some
)

// Track is the looks at one lock, the oldest first. It does not change.
type Track []look

// look is what one look says of grants.
type look struct {
	at     time.Time // by the server's clock
	token  uint64
	grants uint64        // at least so many since the look before
	age    time.Duration // of the last grant, if the token is its time; else negative
}

// See adds a look: the last token, and when that was, by the server's clock. A look that comes soon after
// the one before says little, and is left out. One that comes long after it and finds another time as the
// token says nothing of how many grants there were in between, so that the track begins anew.
func (t Track) See(at time.Time, token uint64) Track {
	g := look{at: at, token: token, age: -1}
	if n := len(t); n > 0 {
		last := t[n-1]
		if at.Sub(last.at) < apart && token >= last.token {
			return t
		}
		if token < last.token { // it was gone in between
			return Track{g}
		}
		granted := time.UnixMicro(int64(token)) //nolint:gosec // tokens are below 2^53
		switch {
		case token == last.token:
		case !granted.After(last.at) || !granted.Before(at.Add(ahead)):
			g.grants = token - last.token
		case at.Sub(last.at) > far:
			return Track{g}
		default:
			g.grants, g.age = 1, max(at.Sub(granted), 0)
		}
	}
	t = append(t, g)
	first := slices.IndexFunc(t, func(g look) bool { return at.Sub(g.at) <= Span })
	return slices.Clone(t[max(first, len(t)-mostLooks):])
}

// Rate is what the looks amount to. It is not known while each of a few looks has found another token:
// there may be one grant between two of them, or a thousand.
func (t Track) Rate() Rate {
	if len(t) < 2 {
		return Rate{}
	}
	var grants uint64
	var ages time.Duration
	each := true // has found another token, which is a time
	for _, g := range t[1:] {
		grants += g.grants
		ages += max(g.age, 0)
		each = each && g.age >= 0
	}
	n := len(t) - 1
	r := Rate{PerSecond: float64(grants) / t[n].at.Sub(t[0].at).Seconds(), Known: true}
	if !each {
		return r
	}
	if n < guessFrom {
		return Rate{}
	}
	if faster := float64(n) / (2 * max(ages, time.Millisecond).Seconds()); faster > r.PerSecond {
		r.PerSecond, r.Guessed = faster, true
	}
	return r
}
