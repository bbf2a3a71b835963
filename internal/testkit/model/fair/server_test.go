package fair

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
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
	queue    line.Queue
}

// terms are what scripts are given, and what the server knows beside the keys.
type terms struct {
	off                       defence
	home                      line.Owners // whose client's a waiter is
	up                        line.Set    // clients that listen
	lease, claim, place, keep uint8
}

const nobody = 255

func (e *terms) client(owner uint8) uint8 {
	w, _ := line.WaiterOf(owner)
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
	mail    line.Mail
}

func (k *keys) enqueue(e *terms, owner uint8) {
	if k.queue.At(owner) < 0 || e.off.Has(oncePlaced) {
		k.queue.Add(owner, e.place)
	}
}

// nextToken is greater than the last and no less than the clock, which goes on: no two grants are
// of one microsecond.
func (k *keys) nextToken() {
	k.token = max(k.token+1, k.clock)
	k.clock++
}

// run is the one of part/queue.lua: those of a client from the i-th place on.
func (k *keys) run(e *terms, c uint8, i int) (r line.Run) {
	for n := 0; n < line.MaxRun && i < line.MaxPlaces && k.queue[i].Owner != 0; i++ {
		if e.client(k.queue[i].Owner) != c {
			if e.off.Has(runEnds) {
				continue
			}
			break
		}
		r[n] = k.queue[i].Owner
		n++
	}
	return r
}

// reserve takes as many tokens behind the last one as there are in a run.
func (k *keys) reserve(e *terms, r line.Run) {
	if !e.off.Has(runTokens) {
		k.token += r.Size()
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
func (k *keys) grant(e *terms, present uint8) (told line.Mail) {
	if k.queue.Head() == 0 {
		return told
	}
	var deaf line.Set
	for i := 0; i < line.MaxPlaces && k.queue[i].Owner != 0; i++ {
		p := k.queue[i]
		c := e.client(p.Owner)
		switch {
		case p.Left == 0 || deaf.Has(c):
		case e.up.Has(c) || e.off.Has(heedsCount) || c == present && !e.off.Has(asksIsThere):
			k.queue.Drop(p.Owner)
			inTime := k.token < k.clock
			k.hold(e, p.Owner, e.claim)
			first := k.token
			var r line.Run
			if inTime {
				r = k.run(e, c, i)
				k.reserve(e, r)
			}
			switch {
			case e.off.Has(claimEnds):
				k.ttl = endless
			case e.off.Has(claimIsShort):
				k.ttl = e.lease
			}
			if e.up.Has(c) {
				told = line.Mail{Owner: p.Owner, Token: first, Left: e.claim - 1, Run: r}
			}
			return told
		default:
			deaf.Put(c, true)
			if e.off.Has(keepsPlace) {
				k.queue.Drop(p.Owner)
				i--
			}
		}
	}
	return told
}

// acquire is fair_acquire.lua.
func (k *keys) acquire(e *terms, owner uint8, again, place bool) (a answer) {
	held := k.owner != 0
	if held && (again || place) && k.owner == owner && !e.off.Has(ownGrant) {
		if k.token == 0 {
			k.nextToken()
			k.tokenTTL = e.keep
		}
		k.ttl = max(k.ttl, e.lease)
		k.queue.Drop(owner)
		return answer{status: lua.Done, token: k.token}
	}
	if !held {
		if first := k.queue.Head(); first == 0 || first == owner || e.off.Has(asksHead) {
			k.queue.Drop(owner)
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
			k.queue.Drop(owner)
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
func (k *keys) release(e *terms, owner uint8, served line.Run) (a answer) {
	held := k.owner == owner || k.owner != 0 && e.off.Has(freesOwn)
	if held {
		k.owner, k.ttl = 0, 0
	} else if !e.off.Has(leaverGone) {
		k.queue.Drop(owner)
	}
	for _, had := range served {
		if !e.off.Has(servedGone) {
			k.queue.Drop(had)
		}
	}
	if k.owner == 0 && k.queue[0].Owner != 0 && !e.off.Has(leaverHandsOn) {
		a.mail = k.grant(e, nobody)
	}
	if a.status = lua.Gone; held {
		a.status = lua.Done
	}
	return a
}

// poll is fair_poll.lua. owners end with a zero.
func (k *keys) poll(e *terms, c uint8, owners line.Owners) (a answer) {
	for i, owner := range owners {
		if owner == 0 {
			break
		}
		at := k.queue.At(owner)
		if at < 0 && !e.off.Has(reportsMissing) {
			a.missing |= 1 << i
		}
		if at >= 0 && !e.off.Has(refreshes) {
			k.queue[at].Left = max(k.queue[at].Left, e.place)
		}
	}
	if k.owner == 0 && k.queue[0].Owner != 0 {
		a.mail = k.grant(e, c)
	}
	k.queue.Head()
	a.status, a.left, a.holder, a.heard = lua.Done, k.ttl, k.owner, e.up.Has(c)
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
	k.queue.Tick()
}
