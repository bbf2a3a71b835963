package server

import (
	"math"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// history is one random history of a lock: of one server, or of one master of several.
type history struct {
	*fidelity.Side
	Keys
	off    model.Defence
	master bool
	ahead  bool // the last token was ahead of the clock; once is enough, for the model does not know how far
	waits  bool // somebody waits for the lock elsewhere
	hears  bool // the owners' client hears calls
	token  string
}

const life = 100 * 1000 * 1000 // of a token's key, ms, where the model does not say

func ofServer(s *fidelity.Side, off model.Defence) fidelity.History {
	return &history{Side: s, Keys: Keys{Clock: 1}, off: off, token: s.Key("token")}
}

func ofMaster(s *fidelity.Side, off model.Defence) fidelity.History {
	return &history{Side: s, off: off, master: true, token: s.Key("token")}
}

var size = fidelity.Size{Histories: 60, Length: 60}

// TestServerIsLikeTheScripts: replies, messages and keys are the same at every step; a model that differs in one rule is found.
func TestServerIsLikeTheScripts(t *testing.T) {
	fidelity.Like(t, "lock at a server", size, ofServer, fidelity.Server(t), []string{
		"acquire 1", "acquire 0", "acquire again 1", "acquire again 0", "pass 1", "pass 0", "pass -1", "recount 1",
		"recount -1", "release 1", "release -1", "renew 1", "renew -1", "time passes", "keys lost", "token ahead", "waits",
		"hears", "called",
	}, map[string]model.Defence{
		"again": AgainFlag, "absolute": Absolute, "release": ReleaseOwner, "renew": RenewOwner,
		"brings back": RenewExists, "shortens": RenewKeeps, "no lease": GrantEnds, "only the clock": LastToken,
		"only the last": ClockToken, "again keeps": AgainKeeps, "a block is not reserved": Reserved,
		"nobody is ever heard": nobodyWaits, "somebody always is": somebodyWaits, "a block has one token more": longBlock,
		"every block is a single token": noBlock, "nobody is called": noCalls,
	})
}

// TestMasterIsLikeTheScripts is the same for votes.
func TestMasterIsLikeTheScripts(t *testing.T) {
	fidelity.Like(t, "lock at a master", size, ofMaster, fidelity.Server(t), []string{
		"vote 1", "vote 0", "vote again 1", "vote late -2", "release 1", "release -1", "renew 1", "renew -1",
		"time passes", "keys lost", "hash lost",
	}, map[string]model.Defence{
		"votes twice": VotesOnce, "shortens": VoteKeeps, "no lease": GrantEnds, "token as proposed": AboveLast,
		"releases": ReleaseOwner, "brings back": RenewExists, "votes late": Lateness,
	})
}

// Rules of the histories for that control, beside those of the scripts.
const (
	nobodyWaits model.Defence = Own << iota
	somebodyWaits
	longBlock
	noBlock
	noCalls
)

// owner is a field of the hash. The first two are of a client that wants to be called.
func owner(id uint8) string {
	client, letter := "1", "k"
	if id > 2 {
		client, letter = "2", "h"
	}
	return "client" + client + ":" + letter + strconv.Itoa(int(id))
}

func (h *history) channel() string { return "redisson_lock__channel:{" + h.Name + "}" }

// Step takes a random step on both sides.
func (h *history) Step() string {
	id, count, lease := 1+h.Few(4), 1+h.Few(3), 2+h.Few(3)
	ms, tokenMS := h.Millis(lease), h.Millis(2*lease)
	if h.master {
		tokenMS = life
	}
	run := func(what string, call lua.Call, want Answer) string {
		h.Run(what, call, want.Status)
		return told(what, want)
	}
	switch n := h.Few(46); {
	case n < 18 && h.master:
		return h.vote(id, count, lease, ms)
	case n < 12:
		return h.acquire(id, lease, n < 6, ms, tokenMS)
	case n < 18:
		return h.pass(id, lease, ms, tokenMS)
	case n < 24 && !h.master:
		return run("recount", lua.Recount.Call(h.Name, owner(id), count, ms), h.Recount(h.off, id, count, lease))
	case n < 29:
		a := h.Release(h.off, id)
		defer h.HearIf(a.Status == lua.Done && h.waits, "release", h.channel(), "0")
		return run("release", lua.Release.Call(h.Name, h.channel(), owner(id), "PUBLISH"), a)
	case n < 35:
		return run("renew", lua.Renew.Call(h.Name, h.token, owner(id), ms, tokenMS), h.Renew(h.off, id, lease))
	default:
		return h.elsewise(n)
	}
}

// block is how many tokens are asked for, and how many the model believes that are.
func (h *history) block() (asked, believed uint8) {
	asked = 1 + h.Few(3)
	switch {
	case h.off.Has(longBlock):
		return asked, asked + 1
	case h.off.Has(noBlock):
		return asked, 1
	}
	return asked, asked
}

// goesOn lets the model's clock go on with every grant, as the real one does, by more than a block.
func (h *history) goesOn() {
	if h.Token < 100 {
		h.Clock = max(h.Clock, h.Token+1)
	}
}

func (h *history) acquire(id, lease uint8, again bool, ms, tokenMS int64) string {
	block, believed := h.block()
	a := h.Acquire(h.off, id, lease, believed, again)
	what, flag := "acquire", "0"
	if again {
		what, flag = "acquire again", "1"
	}
	call := lua.Acquire.Call(h.Name, h.token, owner(id), ms, tokenMS, flag, block)
	h.goesOn()
	if a.Status == lua.Denied {
		h.Run(what, call, a.Status, fidelity.Left(a.Left))
		calls := h.hears && a.Holder <= 2 && id > 2
		if h.HearIf(calls && !h.off.Has(noCalls), what, h.channel()+":client1", "1"); calls {
			return "called"
		}
		return told(what, a)
	}
	got := h.Run(what, call, a.Status, fidelity.Token(a.Token))
	last := got.Grant().Last
	if a.To == a.Token { // the token once more, or nothing
		last = got.Grant().Token
	}
	h.Same(what, fidelity.Token(a.To), last)
	return told(what, a)
}

// told names a branch.
func told(what string, a Answer) string { return what + " " + strconv.Itoa(int(a.Status)) }

func (h *history) pass(id, lease uint8, ms, tokenMS int64) string {
	block, believed := h.block()
	waits := h.waits && !h.off.Has(nobodyWaits) || h.off.Has(somebodyWaits)
	a := h.Pass(h.off, id, lease, believed, waits)
	h.goesOn()
	call := lua.Pass.Call(h.Name, h.token, h.channel(), owner(id), ms, tokenMS, "PUBLISH", block)
	switch a.Status {
	case lua.Done:
		h.Run("pass", call, a.Status, fidelity.Token(a.Token), fidelity.Token(a.To))
	case lua.Denied:
		h.Run("pass", call, a.Status, 1)
		h.HearIf(waits, "pass", h.channel(), "0")
	default:
		h.Run("pass", call, a.Status)
	}
	return told("pass", a)
}

// vote: tokens are the same on both sides, for clients propose them.
func (h *history) vote(id, count, lease uint8, ms int64) string {
	token, late := 1+h.Few(40), h.Few(16) == 0
	what, until := "vote", int64(math.MaxInt64)
	if late {
		what, until = "vote late", 1
	}
	a := h.Vote(h.off, id, count, lease, token, late)
	if a.Again && !late {
		what = "vote again"
	}
	var values []any
	switch before := int(a.Before); {
	case a.Status == lua.Denied:
		values = []any{fidelity.Left(a.Left), owner(a.Holder), before}
	case a.Again:
		values = []any{int(a.Token), 1}
	case a.Status == lua.Done:
		values = []any{int(a.Token), 0, before}
	}
	h.Run(what, lua.Vote.Call(h.Name, h.token, owner(id), ms, life, count, int(token), until), a.Status, values...)
	return told(what, a)
}

// elsewise is a step that is no command of ours.
func (h *history) elsewise(n uint8) string {
	switch {
	case n == 35:
		h.Keys = Keys{Clock: h.Clock}
		h.Lose(h.Name, h.token)
		return "keys lost"
	case n == 36 && h.master:
		h.free()
		h.Lose(h.Name)
		return "hash lost"
	case n == 36 && h.Token != 0 && !h.ahead:
		h.ahead = true
		h.Token += 100
		h.Ahead(h.token, h.Token)
		return "token ahead"
	case n < 39 && !h.master:
		h.waits = !h.waits
		h.Listen(h.waits, h.channel())
		return "waits"
	case n < 41 && !h.master:
		h.hears = !h.hears
		h.Listen(h.hears, h.channel()+":client1")
		return "hears"
	}
	h.Tick()
	h.Elapse(h.Expected()...)
	return "time passes"
}

// Expected returns the keys of the lock.
func (h *history) Expected() []fidelity.Key {
	token := fidelity.KeyIf(h.Token != 0, h.token, fidelity.Token(h.Token), h.TokenTTL)
	if h.master {
		token = fidelity.KeyIf(h.Token != 0, h.token, int(h.Token), fidelity.Some)
	}
	return []fidelity.Key{
		fidelity.KeyIf(h.Owner != 0, h.Name, fidelity.Hash{owner(h.Owner): int(h.Count)}, h.TTL),
		token,
	}
}
