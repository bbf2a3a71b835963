package latch

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

const (
	// In the scripts.
	countOnce   model.Defence = 1 << iota // count: a repeat counts nothing
	sameAnswer                            // count: and gets the reply of the first
	setAgain                              // set: a repeat gets the reply of the first
	deleteAgain                           // delete: a repeat takes nothing away that was set since
	idleKept                              // all: a call that found nothing to do is remembered too
	keptLong                              // all: for as long as repeats may come
	lateness                              // all: one that comes later than that refuses itself
	setOnce                               // set: a latch that is set is left as it is
	tellsZero                             // count: the last one is announced
	tellsDelete                           // delete: it is announced
	staySet                               // set: a latch has an end
	stayCount                             // count: which is put off
	stayLonger                            // count: and never brought nearer
	stayForeign                           // count: one of Redisson's has none, and gets none

	// In the client.
	freshCall  // each call has an id of its own
	hears      // a message makes the gate look
	looksFirst // it looks again when it listens
	looksAgain // and when it listens again
	looksEnd   // and when the latch would have ended
	looksRest  // and every half minute
	kicks      // and for those who join
	ownLook    // a look that was begun before says nothing to those
)

const (
	maxClients = 2
	perClient  = 2
	maxCalls   = maxClients * perClient
	maxWaiters = 2
)

// Kinds of calls.
const (
	set uint8 = iota + 1
	count
	remove
	kinds
)

var kindTexts = [kinds]string{set: "sets the latch", count: "counts down", remove: "deletes the latch"}

// request is one attempt of a call. Zero: none.
type request struct {
	call uint8 // number
	age  uint8 // ticks since it was sent
	kind uint8
	id   uint8 // by which the server remembers the call
}

// client is a process that calls.
type client struct {
	wishes uint8   // calls that it may still begin
	begun  uint8   // calls
	at     uint8   // server.None, server.Sent, server.Done
	op     request // the newest attempt
	age    uint8   // ticks since the first one
	said   uint8   // the reply
}

// What has become of a call that is known to those who check.
const (
	pending  uint8 = iota
	returned       // its caller has the answer
	unsure         // its caller knows nothing, or has died
)

// fate is what a call has done.
type fate struct {
	effects uint8
	idle    bool  // it has found nothing to do once
	left    uint8 // what its last effect has left, of a count
	end     uint8
}

// What a gate does.
const (
	closed  uint8 = iota // nobody waits, and nothing goes on
	looking              // a look is on its way to the server
	looked               // and back
	asleep
)

// gate looks for those of a client who wait.
type gate struct {
	at     uint8
	left   uint8 // the answer of a look
	lasts  uint8
	timer  uint8 // ticks until it looks without a reason, while it sleeps
	wake   bool  // the token of the subscription
	joined bool  // the token of those who join and leave
	link   model.Link
	anew   bool // it was subscribed before
	mail   bool // a message is on its way
}

// waiter is one call of Wait.
type waiter struct {
	wishes uint8
	waits  bool
	some   bool // the look under way is for it too
	opened bool // since it came there was a moment in which no latch was set
}

type state struct {
	wrong model.Broken
	keys
	due     uint8 // ticks for which the latch lasts at least, by the words that were heard
	foreign bool  // it was set by Redisson

	clients [maxClients]client
	net     [2]request // that nobody waits for, in order
	fates   [maxCalls]fate
	gate    gate
	waiters [maxWaiters]waiter

	// What may still come.
	faults, crashes, breaks, leaves, other, redisson, untold uint8
}

type steps = model.Steps[state]

// settle drops what no later step depends on.
func (m *latching) settle(s *state) bool {
	if s.count == 0 {
		for i := range s.waiters {
			s.waiters[i].opened = s.waiters[i].waits
		}
		s.due, s.foreign = 0, false
	}
	for i := range s.fates {
		call := uint8(i) //nolint:gosec // few
		if s.fates[i].end == pending || model.Count(s.net[:], func(r request) bool { return r.call == call }) > 0 {
			continue
		}
		s.fates[i] = fate{}
		if !m.off.Has(freshCall) { // nobody asks for it any more
			s.calls[i] = memory{}
		}
	}
	return true
}

// keys are what a latch is at the server, in ticks; TestLatchModelIsLikeTheScripts runs them beside the scripts.
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

// run executes a request, by latch_set.lua, latch_count.lua or latch_delete.lua.
func (k *keys) run(t *terms, r request) answer {
	if r.age > t.limit && !t.off.Has(lateness) {
		return answer{status: lua.Late}
	}
	again, idle, said := countOnce, k.count == 0, k.calls[r.id].said
	switch r.kind {
	case set:
		again, idle = setAgain, k.count > 0 && !t.off.Has(setOnce)
	case remove:
		again = deleteAgain
	case count:
		if t.off.Has(sameAnswer) {
			said = k.count
		}
	}
	if k.calls[r.id].left > 0 && !t.off.Has(again) {
		return answer{status: lua.Done, n: said}
	}
	if idle {
		if !t.off.Has(idleKept) {
			k.remember(t, r, 0)
		}
		return answer{status: lua.Done}
	}
	switch r.kind {
	case set:
		k.remember(t, r, 1)
		return k.set(t)
	case count:
		k.remember(t, r, k.count-1)
		return k.countDown(t)
	}
	k.remember(t, r, 1)
	k.count, k.ttl = 0, 0
	return answer{status: lua.Done, n: 1, did: true, told: !t.off.Has(tellsDelete)}
}

// remember is part/call.lua.
func (k *keys) remember(t *terms, r request, said uint8) {
	kept := 2*(t.limit-min(r.age, t.limit)) + t.more
	if t.off.Has(keptLong) {
		kept = 1
	}
	k.calls[r.id] = memory{kept, said}
}

func (k *keys) set(t *terms) answer {
	k.count, k.ttl = t.count, t.stay
	if t.off.Has(staySet) {
		k.ttl = model.Endless
	}
	return answer{status: lua.Done, n: 1, did: true, told: true}
}

func (k *keys) countDown(t *terms) answer {
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
