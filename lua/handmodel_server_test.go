package lua_test

import "github.com/holdfast-go/holdfast/lua"

// handKeys are what a lock that is handed on within clients is at the server, time in ticks. Its methods say in Go what the
// scripts say in Lua; TestHandModelIsLikeTheScripts runs both side by side. What the scripts do without names and blocks is
// the other model's.
type handKeys struct {
	owner uint8 // field of the hash, 0: no hash
	count uint8
	ttl   uint8
	token uint16
	clock uint16 // 0: it is ahead of every token
}

// names are those by which a holder may be known; zero: none.
type names [2]uint8

func (n names) has(owner uint8) bool { return owner != 0 && (n[0] == owner || n[1] == owner) }

// handAnswer is a reply.
type handAnswer struct {
	status   lua.Status
	lo, hi   uint16 // tokens of a grant; hi is 0 if that is one
	left     uint8  // of a refusal
	listened bool   // of a pass that released: somebody
}

// reserve is how both scripts that grant make tokens: a block only while the clock is ahead.
func (k *handKeys) reserve(off handDefence, block uint16) (lo, hi uint16) {
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
func (k *handKeys) acquire(off handDefence, owner, lease uint8, again bool, block uint16) handAnswer {
	switch {
	case k.owner == 0:
	case !again || k.owner != owner:
		return handAnswer{status: lua.Denied, left: k.ttl}
	case k.token != 0:
		k.ttl = max(k.ttl, lease)
		return handAnswer{status: lua.Done, lo: k.token}
	}
	lo, hi := k.reserve(off, block)
	k.owner, k.count, k.ttl = owner, 1, lease
	if hi == lo {
		hi = 0
	}
	return handAnswer{status: lua.Done, lo: lo, hi: hi}
}

// pass is pass.lua; others says whether somebody else listens.
func (k *handKeys) pass(off handDefence, n names, lease uint8, block uint16, others bool) handAnswer {
	switch {
	case !n.has(k.owner):
		return handAnswer{status: lua.Gone}
	case others:
		k.owner, k.count, k.ttl = 0, 0, 0
		return handAnswer{status: lua.Denied, listened: true}
	}
	lo, hi := k.reserve(off, block)
	k.ttl = max(k.ttl, lease)
	return handAnswer{status: lua.Done, lo: lo, hi: hi}
}

// release is release.lua.
func (k *handKeys) release(n names) handAnswer {
	if !n.has(k.owner) {
		return handAnswer{status: lua.Gone}
	}
	k.owner, k.count, k.ttl = 0, 0, 0
	return handAnswer{status: lua.Done}
}

// recount is recount.lua.
func (k *handKeys) recount(n names, count, lease uint8) handAnswer {
	if !n.has(k.owner) {
		return handAnswer{status: lua.Gone}
	}
	k.count, k.ttl = count, max(k.ttl, lease)
	return handAnswer{status: lua.Done}
}

// renew is renew.lua; name is the new one or 0.
func (k *handKeys) renew(n names, name, lease uint8) handAnswer {
	if !n.has(k.owner) {
		return handAnswer{status: lua.Gone}
	}
	if name != 0 {
		k.owner = name
	}
	k.ttl = max(k.ttl, lease)
	return handAnswer{status: lua.Done}
}

// tick is time that passes.
func (k *handKeys) tick() {
	if k.ttl != 0 {
		if k.ttl--; k.ttl == 0 {
			k.owner, k.count = 0, 0
		}
	}
}
