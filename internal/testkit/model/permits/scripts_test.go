package permits

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// acquire is sem_acquire.lua.
func (k *keys) acquire(e *terms, owner uint8, again, place bool) (a answer) {
	k.count(e)
	n := e.wants(owner)
	granted := func() answer {
		a.status, a.token = lua.Done, k.nextToken(e)
		a.grant(owner, a.token, true)
		return a
	}
	if k.has(owner) && !e.Off.Has(line.OwnGrant) {
		p := k.of(owner)
		p.left = max(p.left, e.Lease)
		k.drop(owner)
		return granted()
	}
	if (again || place) && !e.Off.Has(takesOwn) {
		k.free += k.removeOwn(owner)
	}
	if n > k.all() && !e.Off.Has(onlySoMany) {
		k.drop(owner)
		a.status = line.Excess
		return a
	}
	first := k.Queue.Head()
	if n > k.free || first != 0 && first != owner && !e.Off.Has(sweepsFirst) {
		k.sweep(e)
	}
	present := uint8(line.Nobody)
	if place {
		present = e.Client(owner)
	}
	enough := func() bool { return n <= k.free || e.Off.Has(looksFree) }
	get := func() answer {
		k.hold(e, owner, e.Lease)
		if first != 0 {
			k.drop(owner)
		}
		return granted()
	}
	if enough() && (first == 0 || first == owner || e.Off.Has(line.AsksHead)) {
		a = get()
		if first != 0 && k.free > 0 && !e.Off.Has(handsRest) {
			k.handOut(e, present, &a)
		}
		return a
	}
	if place {
		k.enqueue(e, owner)
	}
	waits := false
	if k.free > 0 {
		waits = k.handOut(e, present, &a)
	}
	if i := a.grantTo(owner); i >= 0 { // all before it are out of reach, or have been served
		k.of(owner).left = e.Lease
		k.drop(owner)
		a.status, a.token, a.grants[i].asked = lua.Done, a.grants[i].token, true
		return a
	}
	if !waits && enough() { // all who wait are out of reach
		return get()
	}
	a.status, a.left = lua.Denied, k.nearest()
	return a
}

// grantTo is which of the grants of a script was to an owner, -1: none.
func (a *answer) grantTo(owner uint8) int {
	for i := range a.granted {
		if a.grants[i].owner == owner {
			return i
		}
	}
	return -1
}

// nearest is what is left of the lease that ends first; none: there is no lease.
const none = 254

func (k *keys) nearest() uint8 {
	first := uint8(none)
	for _, p := range k.out {
		if p.n > 0 {
			first = min(first, p.left)
		}
	}
	return first
}

// join is sem_join.lua. owners end with a zero.
func (k *keys) join(e *terms, owners line.Owners) (a answer) {
	k.count(e)
	for _, owner := range owners {
		if p := k.of(owner); owner != 0 && p != nil && p.n > 0 && !p.torn {
			return answer{status: lua.Done}
		}
	}
	if k.all() < 1 {
		return answer{status: lua.Done}
	}
	for _, owner := range owners {
		if owner != 0 {
			k.enqueue(e, owner)
		}
	}
	if !e.Off.Has(sweepsFirst) {
		k.sweep(e)
	}
	if k.free > 0 {
		k.handOut(e, e.Client(owners[0]), &a)
	}
	a.status, a.left = lua.Denied, k.nearest()
	return a
}

// release is sem_release.lua.
func (k *keys) release(e *terms, owner uint8) (a answer) {
	held := k.has(owner)
	n := k.removeOwn(owner)
	if !e.Off.Has(line.LeaverGone) {
		k.drop(owner)
	}
	counted := k.counted
	k.count(e)
	switch {
	case !counted:
	case n == 0 && e.Off.Has(countsGone):
		k.free++
	case n > 1 && e.Off.Has(countsAll):
		k.free++
	default:
		k.free += n
	}
	k.sweep(e)
	if !e.Off.Has(line.HandsOn) {
		k.handOut(e, line.Nobody, &a)
	}
	a.others = max(k.free, 0)
	if a.status = lua.Gone; held {
		a.status = lua.Done
	}
	return a
}

// poll is sem_poll.lua. owners end with a zero.
func (k *keys) poll(e *terms, c uint8, owners line.Owners) (a answer) {
	k.count(e)
	for i, owner := range owners {
		switch {
		case owner == 0:
		case k.counts(owner):
			k.enqueue(e, owner)
		case !e.Off.Has(line.TellsMissing):
			a.missing |= 1 << i
		}
	}
	for i, p := range model.Under(k.Queue[:]) {
		k.Queue[i].Stale = p.Stale && e.Client(p.Owner) != c
	}
	k.sweep(e)
	k.handOut(e, c, &a)
	a.status, a.left, a.heard = lua.Done, k.nearest(), e.Up.Has(c)
	for _, p := range k.out {
		switch {
		case p.owner == foreigner:
			a.foreign = true
		case p.handed && k.has(p.owner) && e.Client(p.owner) == c && !e.Off.Has(tellsGiven):
			a.given |= 1 << p.owner
		}
	}
	return a
}

// renew is sem_renew.lua.
func (k *keys) renew(e *terms, owner uint8) (a answer) {
	if !k.has(owner) {
		if e.Off.Has(renewsOwn) {
			p := k.entry(owner)
			p.n, p.left, p.torn = e.wants(owner), e.Lease, false
			return answer{status: lua.Done}
		}
		return answer{status: lua.Gone}
	}
	p := k.of(owner)
	p.left = max(p.left, e.Lease)
	if k.Token != 0 {
		k.TokenTTL = max(k.TokenTTL, e.Keep)
	}
	return answer{status: lua.Done}
}

// set is sem_set.lua.
func (k *keys) set(e *terms, permits int8) (a answer) {
	k.count(e)
	k.free += permits - k.all()
	if e.Off.Has(setsAll) {
		k.free = permits
	}
	k.sweep(e)
	k.handOut(e, line.Nobody, &a)
	a.status, a.others = lua.Done, max(k.free, 0)
	return a
}

// foreignTakes is what a client of Redisson sends for a permit. It takes back one permit whose lease
// has ended first, ended says whose. It reports whether it got one.
func (k *keys) foreignTakes(e *terms, ended uint8) bool {
	if p := k.of(ended); ended != 0 && p != nil {
		p.n--
		p.torn = p.n > 0
		k.free++
		k.tidy()
	}
	if !k.counted || k.free < 1 || k.of(foreigner) != nil {
		return false
	}
	k.free--
	p := k.entry(foreigner)
	p.n, p.left = 1, e.Lease
	return true
}

// foreignGives is what it sends to give it back.
func (k *keys) foreignGives() {
	if p := k.of(foreigner); p != nil {
		p.n = 0
		k.free++
		k.tidy()
	}
}

// tick is time that passes.
func (k *keys) tick() {
	k.Store.Tick()
	for i := range k.out {
		model.Less(&k.out[i].left)
	}
}

// endQueue is the end of the queue's keys.
func (k *keys) endQueue() {
	k.Queue = line.Queue{}
	for i := range k.out {
		k.out[i].handed = false
	}
	k.tidy()
}
