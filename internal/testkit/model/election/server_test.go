package election

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// keys are what an election is at the server, with time in ticks: the server half of the model. Its
// methods say in Go what the scripts say in Lua; TestElectionModelIsLikeTheScripts runs both.
type keys struct {
	owner   uint8 // 0: nobody has the lock
	ttl     uint8
	token   uint8 // the last that was granted
	queue   [maxCandidates]uint8
	said    uint8 // the token of an announcement; 0: none
	saidBy  uint8
	saidTTL uint8
}

// terms are times in ticks, and who can be reached.
type terms struct {
	off                model.Defence
	lease, claim, keep uint8
	deaf               [maxCandidates]bool
}

// answer is a reply.
type answer struct {
	status lua.Status
	token  uint8 // of a grant, and of the leader
	left   uint8 // of the leader's lease
	told   bool  // observers were
	mail   uint8 // the owner to whom the lock was handed
}

// acquire is fair_acquire.lua for one who waits.
func (k *keys) acquire(t *terms, owner uint8) (a answer) {
	switch {
	case k.owner == owner:
		k.ttl = max(k.ttl, t.lease)
		k.leave(owner)
		return answer{status: lua.Done, token: k.token}
	case k.owner == 0 && (k.queue[0] == 0 || k.queue[0] == owner):
		k.hold(t, owner, t.lease)
		return answer{status: lua.Done, token: k.token}
	}
	for i := range k.queue {
		if k.queue[i] == owner {
			break
		}
		if k.queue[i] == 0 {
			k.queue[i] = owner
			break
		}
	}
	if k.owner == 0 {
		a.mail = k.grant(t, owner)
		if k.owner == owner { // it is told by the answer
			k.ttl = t.lease
			a.status, a.token = lua.Done, k.token
		}
	}
	return a
}

// hold writes a grant.
func (k *keys) hold(t *terms, owner, lease uint8) {
	k.leave(owner)
	k.owner, k.ttl = owner, lease
	if !t.off.Has(newToken) || k.token == 0 {
		k.token++
	}
}

// grant hands a free lock to the first who can be reached, or who asks.
func (k *keys) grant(t *terms, asks uint8) (to uint8) {
	for _, owner := range k.queue {
		if owner == 0 {
			return 0
		}
		if c, _ := ownerOf(owner); !t.deaf[c] || owner == asks {
			k.hold(t, owner, t.claim)
			if t.deaf[c] {
				return 0
			}
			return owner
		}
	}
	return 0
}

// leave takes an owner out of the queue.
func (k *keys) leave(owner uint8) {
	for i := range k.queue {
		if k.queue[i] == owner {
			copy(k.queue[i:], k.queue[i+1:])
			k.queue[len(k.queue)-1] = 0
			return
		}
	}
}

// announce is election_announce.lua.
func (k *keys) announce(t *terms, owner, token uint8) answer {
	if k.owner != owner && !t.off.Has(holderOnly) || k.said > token && !t.off.Has(notOlder) {
		return answer{status: lua.Gone}
	}
	k.said, k.saidBy, k.saidTTL = token, owner, t.keep
	if t.off.Has(saidEnds) {
		k.saidTTL = model.Endless
	}
	return answer{status: lua.Done, told: !t.off.Has(tellsAnnounce)}
}

// release is election_release.lua.
func (k *keys) release(t *terms, owner uint8) answer {
	a := answer{status: lua.Gone}
	held := k.owner == owner
	if held || t.off.Has(releaseOwner) {
		if !t.off.Has(releaseDeletes) {
			k.said, k.saidBy, k.saidTTL = 0, 0, 0
		}
		a.told = held && !t.off.Has(tellsRelease)
	}
	k.leave(owner)
	if held {
		a.status = lua.Done
		k.owner, k.ttl = 0, 0
	}
	if k.owner == 0 {
		a.mail = k.grant(t, 0)
	}
	return a
}

// renew is election_renew.lua.
func (k *keys) renew(t *terms, owner uint8) answer {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	if k.said != 0 && !t.off.Has(renewSaid) {
		k.saidTTL = max(k.saidTTL, t.keep)
	}
	k.ttl = max(k.ttl, t.lease)
	return answer{status: lua.Done}
}

// leader is election_leader.lua.
func (k *keys) leader(t *terms) answer {
	if k.said == 0 || k.owner != k.saidBy && !t.off.Has(leaderHolds) {
		return answer{status: lua.Denied}
	}
	return answer{status: lua.Done, token: k.said, left: k.ttl}
}

// tick is time that passes.
func (k *keys) tick() {
	if model.Less(&k.ttl) {
		k.owner = 0
	}
	if model.Less(&k.saidTTL) {
		k.said, k.saidBy = 0, 0
	}
}
