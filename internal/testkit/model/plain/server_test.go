package plain

import "github.com/holdfast-go/holdfast/lua"

// keys are what a lock is at the server, with time in ticks: the server half of the model. Its
// methods say in Go what the scripts say in Lua; TestModelIsLikeTheScripts runs both side by side.
type keys struct {
	owner    uint8 // field of the hash, 0: no hash
	count    uint8 // its value
	ttl      uint8 // of the hash; endless: none
	token    uint8 // 0: no such key
	tokenTTL uint8
	clock    uint8 // of the server; 0: tokens are not in question, and their key stands for ever
}

const endless = 255

// answer is a reply: a status and what comes behind it.
type answer struct {
	status lua.Status
	token  uint8 // of a grant
	left   uint8 // of a refusal
}

// acquire is acquire.lua.
func (k *keys) acquire(off defence, owner, lease uint8, again bool) answer {
	repeated := again && k.owner == owner && !off.has(againFlag)
	switch {
	case k.owner != 0 && !repeated:
		return answer{status: lua.Denied, left: k.ttl}
	case repeated && k.token != 0:
		if k.ttl < lease || off.has(againKeeps) {
			k.ttl = lease
		}
		return answer{status: lua.Done, token: k.token}
	} // repeated, but the token was evicted: as if it were free
	token := max(k.token+1, k.clock)
	switch {
	case off.has(clockToken):
		token = k.token + 1
	case off.has(lastToken):
		token = max(k.clock, 1)
	}
	k.owner, k.count, k.ttl = owner, 1, lease
	if off.has(leaseOfGrant) {
		k.ttl = endless
	}
	k.token = token
	if k.clock != 0 {
		k.tokenTTL = 2 * lease
	}
	return answer{status: lua.Done, token: token}
}

// recount is recount.lua.
func (k *keys) recount(off defence, owner, count, lease uint8) answer {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	k.ttl = max(k.ttl, lease)
	switch {
	case !off.has(absolute):
		k.count = count
	case count > 1: // with two levels the second is reached from the first, and left for it
		k.count++
	default:
		k.count--
	}
	return answer{status: lua.Done}
}

// release is release.lua.
func (k *keys) release(off defence, owner uint8) answer {
	if k.owner != owner && (!off.has(releaseOwner) || k.owner == 0) {
		return answer{status: lua.Gone}
	}
	k.owner, k.count, k.ttl = 0, 0, 0
	return answer{status: lua.Done}
}

// renew is renew.lua.
func (k *keys) renew(off defence, owner, lease uint8) answer {
	switch {
	case k.owner == owner:
	case k.owner != 0 && off.has(renewOwner):
	case k.owner == 0 && off.has(renewExists):
		k.owner, k.count = owner, 1
	default:
		return answer{status: lua.Gone}
	}
	if k.ttl <= lease || off.has(renewKeeps) { // of equal ticks a later lease ends later
		k.ttl = lease
		if k.token != 0 && k.clock != 0 {
			k.tokenTTL = 2 * lease
		}
	}
	return answer{status: lua.Done}
}

// tick is time that passes.
func (k *keys) tick() {
	if k.ttl != 0 && k.ttl != endless {
		if k.ttl--; k.ttl == 0 {
			k.owner, k.count = 0, 0
		}
	}
	if k.tokenTTL != 0 {
		if k.tokenTTL--; k.tokenTTL == 0 {
			k.token = 0
		}
	}
}
