package latch

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// keys are what a latch is at the server, with time in ticks: the server half of the model. Its
// methods say in Go what the scripts say in Lua; TestLatchModelIsLikeTheScripts runs both.
type keys struct {
	count uint8 // 0: no key
	ttl   uint8 // model.Endless: none
	calls [maxCalls]memory
}

// memory is a call that the server remembers.
type memory struct {
	left uint8 // ticks; 0: it does not
	said uint8
}

// terms are what a request says beside what it asks for, in ticks.
type terms struct {
	off   model.Defence
	limit uint8 // until when a request may be executed, from when it was sent
	more  uint8 // how much longer repeats may come
	count uint8 // to set
	stay  uint8
}

// answer is a reply.
type answer struct {
	status lua.Status
	n      uint8
	did    bool // it changed the latch
	told   bool // a message was sent
}

// run executes a request.
func (k *keys) run(t *terms, r request) answer {
	if r.age > t.limit && !t.off.Has(lateness) {
		return answer{status: lua.Late}
	}
	switch r.kind {
	case set:
		return k.set(t, r)
	case count:
		return k.countDown(t, r)
	}
	return k.remove(t, r)
}

// remember is part/call.lua.
func (k *keys) remember(t *terms, r request, said uint8) {
	kept := 2*(t.limit-min(r.age, t.limit)) + t.more
	if t.off.Has(keptLong) {
		kept = 1
	}
	k.calls[r.id] = memory{kept, said}
}

// set is latch_set.lua.
func (k *keys) set(t *terms, r request) answer {
	if c := k.calls[r.id]; c.left > 0 && !t.off.Has(setAgain) {
		return answer{status: lua.Done, n: c.said}
	}
	if k.count > 0 && !t.off.Has(setOnce) {
		if !t.off.Has(idleKept) {
			k.remember(t, r, 0)
		}
		return answer{status: lua.Done}
	}
	k.remember(t, r, 1)
	k.count, k.ttl = t.count, t.stay
	if t.off.Has(staySet) {
		k.ttl = model.Endless
	}
	return answer{status: lua.Done, n: 1, did: true, told: true}
}

// countDown is latch_count.lua.
func (k *keys) countDown(t *terms, r request) answer {
	if k.calls[r.id].left > 0 && !t.off.Has(countOnce) {
		return answer{status: lua.Done, n: k.count}
	}
	if k.count == 0 {
		if !t.off.Has(idleKept) {
			k.remember(t, r, 1)
		}
		return answer{status: lua.Done}
	}
	k.remember(t, r, 1)
	switch {
	case k.ttl == model.Endless && !t.off.Has(stayForeign), t.off.Has(stayCount):
	case k.ttl == model.Endless, k.ttl < t.stay, t.off.Has(stayLonger):
		k.ttl = t.stay
	}
	if k.count--; k.count > 0 {
		return answer{status: lua.Done, n: k.count, did: true}
	}
	k.ttl = 0
	return answer{status: lua.Done, did: true, told: !t.off.Has(tellsZero)}
}

// remove is latch_delete.lua.
func (k *keys) remove(t *terms, r request) answer {
	if c := k.calls[r.id]; c.left > 0 && !t.off.Has(deleteAgain) {
		return answer{status: lua.Done, n: c.said}
	}
	if k.count == 0 {
		if !t.off.Has(idleKept) {
			k.remember(t, r, 0)
		}
		return answer{status: lua.Done}
	}
	k.remember(t, r, 1)
	k.count, k.ttl = 0, 0
	return answer{status: lua.Done, n: 1, did: true, told: !t.off.Has(tellsDelete)}
}

// tick is time that passes. It reports whether the latch has ended.
func (k *keys) tick() (ended bool) {
	if ended = model.Less(&k.ttl); ended {
		k.count = 0
	}
	for i := range k.calls {
		if c := &k.calls[i]; model.Less(&c.left) {
			c.said = 0
		}
	}
	return ended
}

// redissonCounts is what Redisson's countDown does. told: a message was sent.
func (k *keys) redissonCounts() (told bool) {
	if k.count > 1 {
		k.count--
		return false
	}
	told = k.count == 1
	k.count, k.ttl = 0, 0
	return told
}
