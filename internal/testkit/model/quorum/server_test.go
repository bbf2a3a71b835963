package quorum

import "github.com/holdfast-go/holdfast/lua"

const endless = 255 // as a time to live: none

// keys are what one master of a quorum lock has, time in ticks. Its methods say in Go what the
// scripts say in Lua; TestVoteModelIsLikeTheScripts runs both side by side.
type keys struct {
	owner uint8 // field of the hash, 0: no hash
	count uint8
	ttl   uint8
	token uint8 // 0: none
}

// answer is a reply.
type answer struct {
	status lua.Status
	token  uint8 // of a grant
	last   uint8 // of a fresh grant: the last token before; of a refusal: the last token
	again  bool  // of a grant: the owner held it before
	left   uint8 // of a refusal
	holder uint8 // of a refusal
}

// vote is vote.lua. Proposals of 0 are of a model that leaves tokens out. late is that it comes
// later than it may be executed.
func (k *keys) vote(off defence, owner, count, lease, token uint8, late bool) answer {
	if late && !off.has(lateness) {
		return answer{status: lua.Late}
	}
	if k.owner != 0 && k.owner != owner && !off.has(votesOnce) {
		return answer{status: lua.Denied, left: k.ttl, holder: k.owner, last: k.token}
	}
	again, last := k.owner == owner, k.token
	switch {
	case last == 0 || last < token || off.has(aboveLast):
	case again:
		token = last
	default:
		token = last + 1
	}
	if again && !off.has(keepsLease) {
		lease = max(lease, k.ttl)
	}
	if off.has(grantEnds) {
		lease = endless
	}
	*k = keys{owner, count, lease, token}
	if again {
		last = 0
	}
	return answer{status: lua.Done, token: token, again: again, last: last}
}

// release is release.lua.
func (k *keys) release(off defence, owner uint8) answer {
	if k.owner != owner && (!off.has(freesOwner) || k.owner == 0) {
		return answer{status: lua.Gone}
	}
	k.owner, k.count, k.ttl = 0, 0, 0
	return answer{status: lua.Done}
}

// renew is renew.lua. A quorum lock's owner has one name.
func (k *keys) renew(off defence, owner, lease uint8) answer {
	switch {
	case k.owner == owner:
	case k.owner == 0 && off.has(renewPure):
		k.owner, k.count = owner, 1
	default:
		return answer{status: lua.Gone}
	}
	k.ttl = max(k.ttl, lease)
	return answer{status: lua.Done}
}

// tick is time that passes. The token's key outlives every lease; what its end would do, a loss of
// all keys does too.
func (k *keys) tick() {
	if k.ttl != 0 && k.ttl != endless {
		if k.ttl--; k.ttl == 0 {
			k.owner, k.count = 0, 0
		}
	}
}
