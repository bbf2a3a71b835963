package permits

import "github.com/holdfast-go/holdfast/lua"

// excess is a reply that there are not so many permits.
const excess lua.Status = 100

// endless is a lease without an end.
const endless = 255

// keys are what a semaphore is at the server, with time in ticks: the server half of the model. Its
// methods say in Go what the scripts say in Lua; TestPermitsModelIsLikeTheScripts runs both side by
// side.
type keys struct {
	counted  bool // the server knows how many permits are free
	free     int8
	out      [maxOut]permit // in the order of owners
	queue    [maxPlaces]place
	token    uint8 // 0: no such key
	tokenTTL uint8
	clock    uint8 // of the server
}

// terms are what scripts are given, and what the server knows beside the keys.
type terms struct {
	off                       defence
	home                      [maxWaiters]uint8 // whose client's a waiter is
	want                      [maxWaiters]uint8 // how many permits it wants
	up                        set               // clients that listen
	permits                   uint8             // how many there are if the server knows of none yet
	lease, claim, place, keep uint8
	fresh                     uint32 // owners that were heard of in this script
}

const nobody = 255

func (e *terms) client(owner uint8) uint8 {
	if owner == foreigner {
		return nobody
	}
	w, _ := waiterOf(owner)
	return e.home[w]
}

func (e *terms) wants(owner uint8) uint8 {
	w, _ := waiterOf(owner)
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
	mail    [maxGrants]mail
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

func (a *answer) tell(to mail) {
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
		if !e.off.has(countsEnded) {
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
		if p := &k.queue[i]; p.owner != 0 && e.client(p.owner) == c && e.fresh&(1<<p.owner) == 0 {
			p.stale = !e.off.has(silentPassed)
		}
	}
}

// at is where an owner stands in the queue, -1: nowhere.
func (k *keys) at(owner uint8) int {
	for i, p := range k.queue {
		if p.owner == owner && owner != 0 {
			return i
		}
	}
	return -1
}

func (k *keys) unqueue(owner uint8) {
	if i := k.at(owner); i >= 0 {
		copy(k.queue[i:], k.queue[i+1:])
		k.queue[maxPlaces-1] = place{}
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
	k.unqueue(owner)
	k.unmark(owner)
}

func (k *keys) head() uint8 {
	for k.queue[0].owner != 0 && k.queue[0].left == 0 {
		k.unqueue(k.queue[0].owner)
	}
	return k.queue[0].owner
}

// counts tells whether an owner's place does.
func (k *keys) counts(owner uint8) bool {
	i := k.at(owner)
	return i >= 0 && k.queue[i].left > 0
}

// enqueue leaves out whoever has no room within the bounds; the scenarios have room enough.
func (k *keys) enqueue(e *terms, owner uint8) {
	e.fresh |= 1 << owner
	k.unmark(owner)
	if k.counts(owner) && !e.off.has(oncePlaced) {
		if i := k.at(owner); !e.off.has(refreshes) {
			k.queue[i].left, k.queue[i].stale = e.place, false
		}
		return
	}
	if !e.off.has(oncePlaced) {
		k.unqueue(owner)
	}
	for i := range k.queue {
		if k.queue[i].owner == 0 {
			k.queue[i] = place{owner: owner, left: e.place}
			return
		}
	}
}

// nextToken is greater than the last and no less than the clock, which goes on: no two grants are
// of one microsecond.
func (k *keys) nextToken(e *terms) uint8 {
	if k.token == 0 || !e.off.has(newTokens) {
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
	if !e.off.has(countsNew) {
		added -= p.n
	}
	k.free -= int8(added) //nolint:gosec // a few
	p.n, p.left, p.torn = n, lease, false
}

// hears tells whether a place is that of somebody who can be told.
func (k *keys) hears(e *terms, p place, present uint8) bool {
	c := e.client(p.owner)
	return c == present || (e.up.has(c) || e.off.has(heedsCount)) && !p.stale
}

// handOut is the grant of part/permits.lua.
func (k *keys) handOut(e *terms, present uint8, a *answer) (waits bool) {
	if k.head() == 0 {
		return false
	}
	for i := 0; i < maxPlaces && k.queue[i].owner != 0; {
		if a.granted > 0 && k.free < 1 && !e.off.has(handsFree) {
			return true
		}
		p := k.queue[i]
		n := int8(e.wants(p.owner)) //nolint:gosec // a few
		switch {
		case p.left == 0:
			k.drop(p.owner)
			continue
		case !k.hears(e, p, present):
			if e.off.has(keepsPlace) {
				k.drop(p.owner)
			} else {
				i++
			}
			continue
		case n > k.free:
			k.sweep(e)
		}
		switch {
		case n > k.all() && !e.off.has(manyDropped):
			k.drop(p.owner)
			if e.up.has(e.client(p.owner)) && !e.off.has(manyTold) {
				a.tell(mail{owner: p.owner})
			}
		case n > k.free && !e.off.has(handsFree):
			if !e.off.has(inOrder) {
				return true
			}
			waits = true
			i++
		default:
			k.hand(e, p.owner, a)
		}
	}
	return waits
}

// hand is the one of part/permits.lua.
func (k *keys) hand(e *terms, owner uint8, a *answer) {
	claim := e.claim
	switch {
	case e.off.has(claimEnds):
		claim = endless
	case e.off.has(claimIsShort):
		claim = e.lease
	}
	k.hold(e, owner, claim)
	k.unqueue(owner)
	k.of(owner).handed = true
	token := k.nextToken(e)
	a.grant(owner, token, false)
	if e.up.has(e.client(owner)) {
		a.tell(mail{owner: owner, token: token, left: e.claim - 1})
	}
}
