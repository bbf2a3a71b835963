package handoff

import "github.com/holdfast-go/holdfast/lua"

const endless = 255 // as a time to live: none

// keys are what a lock that is handed on within clients is at the server, time in ticks. Its
// methods say in Go what the scripts say in Lua; TestHandModelIsLikeTheScripts runs both side by
// side.
type keys struct {
	owner uint8 // field of the hash, 0: no hash
	count uint8
	ttl   uint8
	token uint16
	clock uint16 // 0: it is ahead of every token
}

// answer is a reply.
type answer struct {
	status   lua.Status
	lo, hi   uint16 // tokens of a grant; hi is 0 if that is one
	left     uint8  // of a refusal
	listened bool   // of a pass that released: somebody
}

// reserve is how both scripts that grant make tokens: a block only while the clock is ahead.
func (k *keys) reserve(off defence, block uint16) (lo, hi uint16) {
	lo = k.token + 1
	if k.clock > k.token {
		lo = k.clock
	} else if k.clock != 0 {
		block = 1
	}
	hi = lo + block - 1
	k.token = hi
	if off.has(reserved) {
		k.token = lo
	}
	return lo, hi
}

// acquire is acquire.lua.
func (k *keys) acquire(off defence, owner, lease uint8, again bool, block uint16) answer {
	switch {
	case k.owner == 0:
	case !again || k.owner != owner:
		return answer{status: lua.Denied, left: k.ttl}
	case k.token != 0:
		k.ttl = max(k.ttl, lease)
		return answer{status: lua.Done, lo: k.token}
	}
	lo, hi := k.reserve(off, block)
	k.owner, k.count, k.ttl = owner, 1, lease
	if hi == lo {
		hi = 0
	}
	return answer{status: lua.Done, lo: lo, hi: hi}
}

// pass is pass.lua; others says whether somebody else listens.
func (k *keys) pass(off defence, owner, lease uint8, block uint16, others bool) answer {
	switch {
	case k.owner != owner:
		return answer{status: lua.Gone}
	case others:
		k.owner, k.count, k.ttl = 0, 0, 0
		return answer{status: lua.Denied, listened: true}
	}
	lo, hi := k.reserve(off, block)
	k.ttl = max(k.ttl, lease)
	return answer{status: lua.Done, lo: lo, hi: hi}
}

// release is release.lua.
func (k *keys) release(owner uint8) answer {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	k.owner, k.count, k.ttl = 0, 0, 0
	return answer{status: lua.Done}
}

// recount is recount.lua.
func (k *keys) recount(owner, count, lease uint8) answer {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	k.count, k.ttl = count, max(k.ttl, lease)
	return answer{status: lua.Done}
}

// renew is renew.lua.
func (k *keys) renew(owner, lease uint8) answer {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	k.ttl = max(k.ttl, lease)
	return answer{status: lua.Done}
}

// tick is time that passes.
func (k *keys) tick() {
	if k.ttl != 0 {
		if k.ttl--; k.ttl == 0 {
			k.owner, k.count = 0, 0
		}
	}
}
