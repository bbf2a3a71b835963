// Package server is the server half that the models plain, handoff, keep and quorum share: a lock at one server. It says in Go
// what acquire.lua, pass.lua, recount.lua, release.lua, renew.lua and vote.lua say in Lua. Its tests run both side by side.
//
// Left out: head starts, fields of Redisson's, and keys of another type.
package server

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// Keys are what a lock is at the server, with time in ticks.
type Keys struct {
	Owner    uint8 // field of the hash; 0: there is no hash
	Count    uint8 // its value
	TTL      uint8 // of the hash; model.Endless: none
	Token    uint8 // the last one; 0: no such key
	TokenTTL uint8 // where there is a clock; else the token's key stands for ever
	Clock    uint8 // of the server; 0: it is ahead of every token
}

// Defences of the scripts. A model's own begin at Own.
const (
	AgainFlag    model.Defence = 1 << iota // acquire: a repeated attempt gets the outcome of the first
	AgainKeeps                             // acquire: a repeated attempt never shortens
	GrantEnds                              // acquire, vote: a grant has a time to live
	ClockToken                             // acquire: a token is no less than the clock
	LastToken                              // acquire: a token is greater than the last
	Reserved                               // acquire, pass: the tokens of a block are reserved
	Lateness                               // acquire, vote: one that comes late refuses itself
	Absolute                               // recount: counts are absolute
	ReleaseOwner                           // release: only by the owner
	RenewOwner                             // renew: only of the owner's
	RenewExists                            // renew: never brings the key back
	RenewKeeps                             // renew: never shortens
	VotesOnce                              // vote: who has it keeps it
	VoteKeeps                              // vote: never shortens
	AboveLast                              // vote: a token is greater than the last
	Own
)

// Answer is a reply: a status and what comes behind it.
type Answer struct {
	Status   lua.Status
	Token    uint8 // of a grant, the first one
	To       uint8 // the last one
	Left     uint8 // of a refusal
	Holder   uint8 // of a refusal: whose client is called
	Listened bool  // of a pass that released: somebody
	Again    bool  // of a vote: the owner held it before
	Before   uint8 // of a vote that is fresh, the last token before; of one that is refused, the last token
}

// The states of a client's call. From Done on, the answer has not reached the client.
const (
	None uint8 = iota
	Sent
	Done
	Denied
	Gone
)

// Stands returns the state of a call with this answer.
func (a Answer) Stands() uint8 {
	switch a.Status {
	case lua.Denied:
		return Denied
	case lua.Gone:
		return Gone
	}
	return Done
}

// Acquire is acquire.lua for block tokens.
func (k *Keys) Acquire(off model.Defence, owner, lease, block uint8, again bool) Answer {
	repeated := again && k.Owner == owner && !off.Has(AgainFlag)
	switch {
	case k.Owner != 0 && !repeated:
		return Answer{Status: lua.Denied, Left: k.TTL, Holder: k.Owner}
	case repeated && k.Token != 0:
		if k.TTL < lease || off.Has(AgainKeeps) {
			k.TTL = lease
		}
		return Answer{Status: lua.Done, Token: k.Token, To: k.Token}
	} // repeated, but the token was evicted: as if it were free
	token, to := k.reserve(off, lease, block)
	k.Owner, k.Count, k.TTL = owner, 1, lease
	if off.Has(GrantEnds) {
		k.TTL = model.Endless
	}
	return Answer{Status: lua.Done, Token: token, To: to}
}

// reserve makes tokens, as in both scripts that grant: a block only while the clock is ahead.
func (k *Keys) reserve(off model.Defence, lease, block uint8) (token, to uint8) {
	token = k.Token + 1
	switch {
	case k.Clock > k.Token && !off.Has(ClockToken):
		token = k.Clock
	case k.Clock != 0:
		block = 1
	}
	if off.Has(LastToken) {
		token = max(k.Clock, 1)
	}
	to = token + block - 1
	if k.Token = to; off.Has(Reserved) {
		k.Token = token
	}
	k.keepToken(lease)
	return token, to
}

func (k *Keys) keepToken(lease uint8) {
	if k.Clock != 0 {
		k.TokenTTL = 2 * lease
	}
}

// Pass is pass.lua. others: somebody else listens.
func (k *Keys) Pass(off model.Defence, owner, lease, block uint8, others bool) Answer {
	switch {
	case k.Owner != owner:
		return Answer{Status: lua.Gone}
	case others:
		k.free()
		return Answer{Status: lua.Denied, Listened: true}
	}
	token, to := k.reserve(off, lease, block)
	k.TTL = max(k.TTL, lease)
	return Answer{Status: lua.Done, Token: token, To: to}
}

func (k *Keys) free() { k.Owner, k.Count, k.TTL = 0, 0, 0 }

// Recount is recount.lua.
func (k *Keys) Recount(off model.Defence, owner, count, lease uint8) Answer {
	if k.Owner != owner {
		return Answer{Status: lua.Gone}
	}
	k.TTL = max(k.TTL, lease)
	switch {
	case !off.Has(Absolute):
		k.Count = count
	case count > 1: // with two levels the second is reached from the first, and left for it
		k.Count++
	default:
		k.Count--
	}
	return Answer{Status: lua.Done}
}

// Release is release.lua.
func (k *Keys) Release(off model.Defence, owner uint8) Answer {
	if k.Owner != owner && (!off.Has(ReleaseOwner) || k.Owner == 0) {
		return Answer{Status: lua.Gone}
	}
	k.free()
	return Answer{Status: lua.Done}
}

// Renew is renew.lua.
func (k *Keys) Renew(off model.Defence, owner, lease uint8) Answer {
	switch {
	case k.Owner == owner:
	case k.Owner != 0 && off.Has(RenewOwner):
	case k.Owner == 0 && off.Has(RenewExists):
		k.Owner, k.Count = owner, 1
	default:
		return Answer{Status: lua.Gone}
	}
	if k.TTL <= lease || off.Has(RenewKeeps) { // of equal ticks a later lease ends later
		if k.TTL = lease; k.Token != 0 {
			k.keepToken(lease)
		}
	}
	return Answer{Status: lua.Done}
}

// Vote is vote.lua. A token of 0 is of a model that leaves tokens out.
func (k *Keys) Vote(off model.Defence, owner, count, lease, token uint8, late bool) Answer {
	if late && !off.Has(Lateness) {
		return Answer{Status: lua.Late}
	}
	if k.Owner != 0 && k.Owner != owner && !off.Has(VotesOnce) {
		return Answer{Status: lua.Denied, Left: k.TTL, Holder: k.Owner, Before: k.Token}
	}
	again, last := k.Owner == owner, k.Token
	switch {
	case last == 0 || last < token || off.Has(AboveLast):
	case again:
		token = last
	default:
		token = last + 1
	}
	if again && !off.Has(VoteKeeps) {
		lease = max(lease, k.TTL)
	}
	if off.Has(GrantEnds) {
		lease = model.Endless
	}
	k.Owner, k.Count, k.TTL, k.Token = owner, count, lease, token
	if again {
		last = 0
	}
	return Answer{Status: lua.Done, Token: token, Again: again, Before: last}
}

// Tick is time that passes.
func (k *Keys) Tick() {
	if model.Less(&k.TTL) {
		k.free()
	}
	if model.Less(&k.TokenTTL) {
		k.Token = 0
	}
}
