package permits

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// keys are what a semaphore is at the server, in ticks; TestPermitsModelIsLikeTheScripts runs them beside the scripts.
type keys struct {
	line.Store
	counted bool // the server knows how many permits are free
	free    int8
	out     [maxOut]permit // in the order of owners
}

// terms are what scripts are given, and what the server knows beside the keys.
type terms struct {
	line.Terms
	want    line.Owners // how many permits a waiter wants
	permits int8        // how many there are if the server knows of none yet
	fresh   uint32      // owners that were heard of in this script
}

func (e *terms) wants(owner uint8) int8 {
	w, _ := line.WaiterOf(owner)
	return int8(e.want[w]) //nolint:gosec // a few
}

// answer is a reply, and what went out beside it.
type answer struct {
	status  lua.Status
	token   uint8 // of a grant
	left    uint8 // until the first lease of a permit ends: of a refusal, or of a poll's reply
	heard   bool  // of a poll's reply: somebody listens for the client
	foreign bool  // of a poll's reply: a client of Redisson has a permit
	given   uint32
	missing uint8 // of a poll's reply: one bit for each of the owners that it was sent with
	others  int8  // what Redisson's clients are told to be free, 0: nothing
	mail    [maxGrants]line.Mail
	mails   int
	grants  [maxGrants]grant // what judges have to know: to whom this script gave permits, in order
	granted int
}

// grant is one that a script made.
type grant struct {
	owner, token uint8
	asked        bool
}

func (a *answer) grant(owner, token uint8, asked bool) {
	a.grants[a.granted] = grant{owner, token, asked}
	a.granted++
}

func (a *answer) tell(to line.Mail) {
	a.mail[a.mails] = to
	a.mails++
}

// of is what an owner has, nil: nothing.
func (k *keys) of(owner uint8) *permit {
	for i := range k.out {
		if k.out[i].owner == owner {
			return &k.out[i]
		}
	}
	return nil
}

// has tells whether an owner has permits.
func (k *keys) has(owner uint8) bool {
	p := k.of(owner)
	return p != nil && p.n > 0 && !p.torn && p.left > 0
}

// entry is what an owner has, made if there is none. The bounds have room for it.
func (k *keys) entry(owner uint8) *permit {
	if p := k.of(owner); p != nil {
		return p
	}
	model.Put(k.out[:], permit{owner: owner})
	return k.of(owner)
}

// tidy takes out entries of which nothing is left.
func (k *keys) tidy() {
	model.Change(k.out[:], func(p permit) (permit, bool) {
		if p.n == 0 {
			p.left, p.torn = 0, false
		}
		return p, p.n > 0 || p.handed
	})
}

// card is how many permits are out, with those whose leases have ended.
func (k *keys) card() (n int8) {
	for _, p := range k.out {
		n += p.n
	}
	return n
}

func (k *keys) all() int8 { return k.free + k.card() }

// count is the one of part/permits.lua. A number that is not written means nothing to later scripts.
func (k *keys) count(e *terms, anytime bool) {
	if !k.counted {
		k.counted, k.free = !anytime || k.card() > 0 || k.Queue[0].Owner != 0, e.permits-k.card()
	}
}

// removeOwn is the take of part/permits.lua.
func (k *keys) removeOwn(owner uint8) (n int8) {
	if p := k.of(owner); p != nil && !p.torn {
		n = p.n
		p.n, p.left = 0, 0
		k.tidy()
	}
	return n
}

// sweep is the one of part/permits.lua.
func (k *keys) sweep(e *terms) {
	for i := range k.out {
		p := &k.out[i]
		if p.n == 0 || p.left > 0 {
			continue
		}
		if !e.Off.Has(countsEnded) {
			k.free += p.n
		}
		if p.handed && !p.torn {
			p.handed = false
			k.lapse(e, e.Client(p.owner))
		}
		p.n = 0
	}
	k.tidy()
}

// lapse notes that a client let a claim end: those of its places count for nothing that were there before.
func (k *keys) lapse(e *terms, c uint8) {
	for i := range model.Under(k.Queue[:]) {
		if p := &k.Queue[i]; e.Client(p.Owner) == c && e.fresh&(1<<p.Owner) == 0 {
			p.Stale = !e.Off.Has(silentPassed)
		}
	}
}

func (k *keys) unmark(owner uint8) {
	if p := k.of(owner); p != nil {
		p.handed = false
		k.tidy()
	}
}

// drop is the one of part/permits.lua.
func (k *keys) drop(owner uint8) {
	k.Queue.Drop(owner)
	k.unmark(owner)
}

// counts tells whether an owner's place does.
func (k *keys) counts(owner uint8) bool {
	i := k.Queue.At(owner)
	return i >= 0 && k.Queue[i].Left > 0
}

func (k *keys) enqueue(e *terms, owner uint8) {
	e.fresh |= 1 << owner
	k.unmark(owner)
	switch {
	case e.Off.Has(line.OncePlaced):
		k.Queue.Add(owner, e.Place)
	case !k.counts(owner):
		k.Queue.Drop(owner)
		k.Queue.Add(owner, e.Place)
	case !e.Off.Has(line.Refreshes):
		i := k.Queue.At(owner)
		k.Queue[i].Left, k.Queue[i].Stale = e.Place, false
	}
}

// nextToken is greater than the last.
func (k *keys) nextToken(e *terms) uint8 {
	last := k.Token
	k.NextToken(&e.Terms)
	if last != 0 && e.Off.Has(newTokens) {
		k.Token = last
	}
	return k.Token
}

// hold is the one of part/permits.lua.
func (k *keys) hold(e *terms, owner, lease uint8) {
	p := k.entry(owner)
	n := e.wants(owner)
	added := n
	if !e.Off.Has(countsNew) {
		added -= p.n
	}
	k.free -= added
	p.n, p.left, p.torn = n, lease, false
}

// hears tells whether a place is that of somebody who can be told.
func (k *keys) hears(e *terms, p line.Place, present uint8) bool {
	c := e.Client(p.Owner)
	return c == present || (e.Up.Has(c) || e.Off.Has(line.HeedsCount)) && !p.Stale
}

// handOut is the grant of part/permits.lua.
func (k *keys) handOut(e *terms, present uint8, a *answer) (waits bool) {
	if k.Queue.Head() == 0 {
		return false
	}
	for i := 0; i < line.MaxPlaces && k.Queue[i].Owner != 0; {
		if a.granted > 0 && k.free < 1 && !e.Off.Has(handsFree) {
			return true
		}
		p := k.Queue[i]
		n := e.wants(p.Owner)
		switch {
		case p.Left == 0:
			k.drop(p.Owner)
			continue
		case !k.hears(e, p, present):
			if e.Off.Has(line.KeepsPlace) {
				k.drop(p.Owner)
			} else {
				i++
			}
			continue
		case n > k.free:
			k.sweep(e)
		}
		switch {
		case n > k.all() && !e.Off.Has(manyDropped):
			k.drop(p.Owner)
			if e.Up.Has(e.Client(p.Owner)) && !e.Off.Has(manyTold) {
				a.tell(line.Mail{Owner: p.Owner})
			}
		case n > k.free && !e.Off.Has(handsFree):
			if !e.Off.Has(inOrder) {
				return true
			}
			waits = true
			i++
		default:
			k.hand(e, p.Owner, a)
		}
	}
	return waits
}

// hand is the one of part/permits.lua.
func (k *keys) hand(e *terms, owner uint8, a *answer) {
	k.hold(e, owner, e.ClaimLasts())
	k.Queue.Drop(owner)
	k.of(owner).handed = true
	token := k.nextToken(e)
	a.grant(owner, token, false)
	if e.Up.Has(e.Client(owner)) {
		a.tell(line.Mail{Owner: owner, Token: token, Left: e.Claim - 1})
	}
}
