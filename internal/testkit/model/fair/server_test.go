package fair

import (
	"slices"

	"github.com/holdfast-go/holdfast/lua"
)

const endless = 255

// keys are what a fair lock is at the server, with time in ticks: the server half of the model. Its
// methods say in Go what the scripts say in Lua; TestFairModelIsLikeTheScripts runs both side by
// side. Redisson's waiters are left out, and so are counts: an owner here holds once.
type keys struct {
	owner    uint8 // field of the hash, 0: no hash
	ttl      uint8 // of the hash; endless: none
	token    uint8 // 0: no such key
	tokenTTL uint8
	clock    uint8 // of the server
	queue    [maxPlaces]place
}

// terms are what scripts are given, and what the server knows beside the keys.
type terms struct {
	off                       defence
	home                      [maxWaiters]uint8 // whose client's a waiter is
	up                        set               // clients that listen
	lease, claim, place, keep uint8
}

const nobody = 255

func (e *terms) client(owner uint8) uint8 {
	w, _ := waiterOf(owner)
	return e.home[w]
}

// answer is a reply, and the message that went out beside it.
type answer struct {
	status  lua.Status
	token   uint8 // of a grant
	left    uint8 // of the lock: of a refusal, or of a poll's reply
	holder  uint8 // of a poll's reply
	heard   bool  // of a poll's reply: somebody listens for the client
	missing uint8 // of a poll's reply: one bit for each of the owners that it was sent with
	mail    mail
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

func (k *keys) drop(owner uint8) {
	if i := k.at(owner); i >= 0 {
		copy(k.queue[i:], k.queue[i+1:])
		k.queue[maxPlaces-1] = place{}
	}
}

func (k *keys) head() uint8 {
	for k.queue[0].owner != 0 && k.queue[0].left == 0 {
		k.drop(k.queue[0].owner)
	}
	return k.queue[0].owner
}

// enqueue leaves out whoever has no room within the bounds; the scenarios have room enough.
func (k *keys) enqueue(e *terms, owner uint8) {
	if k.at(owner) >= 0 && !e.off.has(oncePlaced) {
		return
	}
	for i := range k.queue {
		if k.queue[i].owner == 0 {
			k.queue[i] = place{owner, e.place}
			return
		}
	}
}

// nextToken is greater than the last and no less than the clock, which goes on: no two grants are
// of one microsecond.
func (k *keys) nextToken() {
	k.token = max(k.token+1, k.clock)
	k.clock++
}

// run is the one of part/queue.lua: those of a client from the i-th place on.
func (k *keys) run(e *terms, c uint8, i int) (r run) {
	for n := 0; n < maxRun && i < maxPlaces && k.queue[i].owner != 0; i++ {
		if e.client(k.queue[i].owner) != c {
			if e.off.has(runEnds) {
				continue
			}
			break
		}
		r[n] = k.queue[i].owner
		n++
	}
	return r
}

// reserve takes as many tokens behind the last one as there are in a run.
func (k *keys) reserve(e *terms, r run) {
	if !e.off.has(runTokens) {
		k.token += r.size()
		k.clock = max(k.clock, k.token+1)
	}
}

// hold writes a grant.
func (k *keys) hold(e *terms, owner, lease uint8) {
	k.nextToken()
	k.tokenTTL = e.keep
	k.owner, k.ttl = owner, lease
}

// grant is the one of part/queue.lua.
func (k *keys) grant(e *terms, present uint8) (told mail) {
	if k.head() == 0 {
		return told
	}
	var deaf set
	for i := 0; i < maxPlaces && k.queue[i].owner != 0; i++ {
		p := k.queue[i]
		c := e.client(p.owner)
		switch {
		case p.left == 0 || deaf.has(c):
		case e.up.has(c) || e.off.has(heedsCount) || c == present && !e.off.has(asksIsThere):
			k.drop(p.owner)
			inTime := k.token < k.clock
			k.hold(e, p.owner, e.claim)
			first := k.token
			var r run
			if inTime {
				r = k.run(e, c, i)
				k.reserve(e, r)
			}
			switch {
			case e.off.has(claimEnds):
				k.ttl = endless
			case e.off.has(claimIsShort):
				k.ttl = e.lease
			}
			if e.up.has(c) {
				told = mail{owner: p.owner, token: first, left: e.claim - 1, run: r}
			}
			return told
		default:
			deaf.put(c, true)
			if e.off.has(keepsPlace) {
				k.drop(p.owner)
				i--
			}
		}
	}
	return told
}

// acquire is fair_acquire.lua.
func (k *keys) acquire(e *terms, owner uint8, again, place bool) (a answer) {
	held := k.owner != 0
	if held && (again || place) && k.owner == owner && !e.off.has(ownGrant) {
		if k.token == 0 {
			k.nextToken()
			k.tokenTTL = e.keep
		}
		k.ttl = max(k.ttl, e.lease)
		k.drop(owner)
		return answer{status: lua.Done, token: k.token}
	}
	if !held {
		if first := k.head(); first == 0 || first == owner || e.off.has(asksHead) {
			k.drop(owner)
			k.hold(e, owner, e.lease)
			return answer{status: lua.Done, token: k.token}
		}
	}
	if place {
		k.enqueue(e, owner)
	}
	if !held {
		present := uint8(nobody)
		if place {
			present = e.client(owner)
		}
		a.mail = k.grant(e, present)
		if k.owner == 0 { // all who wait are out of reach
			k.drop(owner)
			k.hold(e, owner, e.lease)
			return answer{status: lua.Done, token: k.token}
		}
		if place && k.owner == owner {
			k.ttl = e.lease
			a.status, a.token = lua.Done, k.token
			return a
		}
	}
	a.status, a.left = lua.Denied, k.ttl
	return a
}

// join is fair_join.lua.
func (k *keys) join(e *terms, owners ...uint8) (a answer) {
	if slices.Contains(owners, k.owner) {
		return answer{status: lua.Done}
	}
	for _, owner := range owners {
		k.enqueue(e, owner)
	}
	if k.owner == 0 {
		if a.mail = k.grant(e, e.client(owners[0])); k.owner == 0 {
			a.status = lua.Done
			return a
		}
	}
	a.status, a.left = lua.Denied, k.ttl
	return a
}

// release is fair_release.lua.
func (k *keys) release(e *terms, owner uint8, served run) (a answer) {
	held := k.owner == owner || k.owner != 0 && e.off.has(freesOwn)
	if held {
		k.owner, k.ttl = 0, 0
	} else if !e.off.has(leaverGone) {
		k.drop(owner)
	}
	for _, had := range served {
		if !e.off.has(servedGone) {
			k.drop(had)
		}
	}
	if k.owner == 0 && k.queue[0].owner != 0 && !e.off.has(leaverHandsOn) {
		a.mail = k.grant(e, nobody)
	}
	if a.status = lua.Gone; held {
		a.status = lua.Done
	}
	return a
}

// poll is fair_poll.lua. owners end with a zero.
func (k *keys) poll(e *terms, c uint8, owners [maxWaiters]uint8) (a answer) {
	for i, owner := range owners {
		if owner == 0 {
			break
		}
		at := k.at(owner)
		if at < 0 && !e.off.has(reportsMissing) {
			a.missing |= 1 << i
		}
		if at >= 0 && !e.off.has(refreshes) {
			k.queue[at].left = max(k.queue[at].left, e.place)
		}
	}
	if k.owner == 0 && k.queue[0].owner != 0 {
		a.mail = k.grant(e, c)
	}
	k.head()
	a.status, a.left, a.holder, a.heard = lua.Done, k.ttl, k.owner, e.up.has(c)
	return a
}

// renew is renew.lua.
func (k *keys) renew(e *terms, owner uint8) (a answer) {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	if k.ttl <= e.lease { // of equal ticks a later lease ends later
		k.ttl = e.lease
		if k.token != 0 {
			k.tokenTTL = e.keep
		}
	}
	return answer{status: lua.Done}
}

// tick is time that passes.
func (k *keys) tick() {
	if k.ttl != 0 && k.ttl != endless {
		if k.ttl--; k.ttl == 0 {
			k.owner = 0
		}
	}
	if k.tokenTTL != 0 && k.tokenTTL != endless {
		if k.tokenTTL--; k.tokenTTL == 0 {
			k.token = 0
		}
	}
	for i := range k.queue {
		less(&k.queue[i].left)
	}
}

// over reports whether the queue's keys may end by themselves: no place in it counts any more. When
// they do is long after.
func (k *keys) over() bool {
	for _, p := range k.queue {
		if p.left > 0 {
			return false
		}
	}
	return k.queue[0].owner != 0
}

func less(ticks *uint8) {
	if *ticks > 0 {
		*ticks--
	}
}
