package permits

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// endless is a lease without an end.
const endless = 255

// keys are what a semaphore is at the server, with time in ticks: the server half of the model. Its
// methods say in Go what the scripts say in Lua; TestPermitsModelIsLikeTheScripts runs both side by
// side.
type keys struct {
	counted  bool // the server knows how many permits are free
	free     int8
	out      [maxOut]permit // in the order of owners
	queue    line.Queue
	token    uint8 // 0: no such key
	tokenTTL uint8
	clock    uint8 // of the server
}

// terms are what scripts are given, and what the server knows beside the keys.
type terms struct {
	off                       defence
	home                      line.Owners // whose client's a waiter is
	want                      line.Owners // how many permits it wants
	up                        line.Set    // clients that listen
	permits                   uint8       // how many there are if the server knows of none yet
	lease, claim, place, keep uint8
	fresh                     uint32 // owners that were heard of in this script
}

const nobody = 255

func (e *terms) client(owner uint8) uint8 {
	if owner == foreigner {
		return nobody
	}
	w, _ := line.WaiterOf(owner)
	return e.home[w]
}

func (e *terms) wants(owner uint8) uint8 {
	w, _ := line.WaiterOf(owner)
	return e.want[w]
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
	i := maxOut - 1
	for ; i > 0 && (k.out[i-1].owner == 0 || k.out[i-1].owner > owner); i-- {
		k.out[i] = k.out[i-1]
	}
	k.out[i] = permit{owner: owner}
	return &k.out[i]
}

// tidy takes out entries of which nothing is left.
func (k *keys) tidy() {
	n := 0
	for _, p := range k.out {
		if p.owner != 0 && (p.n > 0 || p.handed) {
			if p.n == 0 {
				p.left, p.torn = 0, false
			}
			k.out[n] = p
			n++
		}
	}
	for ; n < maxOut; n++ {
		k.out[n] = permit{}
	}
}

// card is how many permits are out, with those whose leases have ended.
func (k *keys) card() (n int8) {
	for _, p := range k.out {
		n += int8(p.n) //nolint:gosec // a few
	}
	return n
}

func (k *keys) all() int8 { return k.free + k.card() }

// count is the one of part/permits.lua.
func (k *keys) count(e *terms) {
	if !k.counted {
		k.counted, k.free = true, int8(e.permits)-k.card() //nolint:gosec // a few
	}
}

// begin is what each script does first.
func (k *keys) begin(e *terms) { e.fresh = 0 }

// removeOwn is the take of part/permits.lua.
func (k *keys) removeOwn(owner uint8) (n int8) {
	if p := k.of(owner); p != nil && !p.torn {
		n = int8(p.n) //nolint:gosec // a few
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
		if !e.off.Has(countsEnded) {
			k.free += int8(p.n) //nolint:gosec // a few
		}
		if p.handed && !p.torn {
			p.handed = false
			k.lapse(e, e.client(p.owner))
		}
		p.n = 0
	}
	k.tidy()
}

// lapse notes that a client let a claim end: those of its places count for nothing that were there
// before.
func (k *keys) lapse(e *terms, c uint8) {
	for i := range k.queue {
		if p := &k.queue[i]; p.Owner != 0 && e.client(p.Owner) == c && e.fresh&(1<<p.Owner) == 0 {
			p.Stale = !e.off.Has(silentPassed)
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
	k.queue.Drop(owner)
	k.unmark(owner)
}

// counts tells whether an owner's place does.
func (k *keys) counts(owner uint8) bool {
	i := k.queue.At(owner)
	return i >= 0 && k.queue[i].Left > 0
}

func (k *keys) enqueue(e *terms, owner uint8) {
	e.fresh |= 1 << owner
	k.unmark(owner)
	switch {
	case e.off.Has(oncePlaced):
		k.queue.Add(owner, e.place)
	case !k.counts(owner):
		k.queue.Drop(owner)
		k.queue.Add(owner, e.place)
	case !e.off.Has(refreshes):
		i := k.queue.At(owner)
		k.queue[i].Left, k.queue[i].Stale = e.place, false
	}
}

// nextToken is greater than the last and no less than the clock, which goes on: no two grants are
// of one microsecond.
func (k *keys) nextToken(e *terms) uint8 {
	if k.token == 0 || !e.off.Has(newTokens) {
		k.token = max(k.token+1, k.clock)
	}
	k.clock++
	k.tokenTTL = e.keep
	return k.token
}

// hold is the one of part/permits.lua.
func (k *keys) hold(e *terms, owner, lease uint8) {
	p := k.entry(owner)
	n := e.wants(owner)
	added := n
	if !e.off.Has(countsNew) {
		added -= p.n
	}
	k.free -= int8(added) //nolint:gosec // a few
	p.n, p.left, p.torn = n, lease, false
}

// hears tells whether a place is that of somebody who can be told.
func (k *keys) hears(e *terms, p line.Place, present uint8) bool {
	c := e.client(p.Owner)
	return c == present || (e.up.Has(c) || e.off.Has(heedsCount)) && !p.Stale
}

// handOut is the grant of part/permits.lua.
func (k *keys) handOut(e *terms, present uint8, a *answer) (waits bool) {
	if k.queue.Head() == 0 {
		return false
	}
	for i := 0; i < line.MaxPlaces && k.queue[i].Owner != 0; {
		if a.granted > 0 && k.free < 1 && !e.off.Has(handsFree) {
			return true
		}
		p := k.queue[i]
		n := int8(e.wants(p.Owner)) //nolint:gosec // a few
		switch {
		case p.Left == 0:
			k.drop(p.Owner)
			continue
		case !k.hears(e, p, present):
			if e.off.Has(keepsPlace) {
				k.drop(p.Owner)
			} else {
				i++
			}
			continue
		case n > k.free:
			k.sweep(e)
		}
		switch {
		case n > k.all() && !e.off.Has(manyDropped):
			k.drop(p.Owner)
			if e.up.Has(e.client(p.Owner)) && !e.off.Has(manyTold) {
				a.tell(line.Mail{Owner: p.Owner})
			}
		case n > k.free && !e.off.Has(handsFree):
			if !e.off.Has(inOrder) {
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
	claim := e.claim
	switch {
	case e.off.Has(claimEnds):
		claim = endless
	case e.off.Has(claimIsShort):
		claim = e.lease
	}
	k.hold(e, owner, claim)
	k.queue.Drop(owner)
	k.of(owner).handed = true
	token := k.nextToken(e)
	a.grant(owner, token, false)
	if e.up.Has(e.client(owner)) {
		a.tell(line.Mail{Owner: owner, Token: token, Left: e.claim - 1})
	}
}
