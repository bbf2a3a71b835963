package election

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/lua"
)

// A place of the queue outlasts a history, since places that end are the affair of package fair. So does a token.
const placeLasts, tokenLasts = 1000 * fidelity.Tick, 100 * fidelity.Tick

// history is one random history of an election, on both sides, with real subscribers for mailboxes and for an observer.
type history struct {
	*fidelity.Side
	keys
	terms terms
	gens  [maxCandidates]uint8
}

func begin(s *fidelity.Side, off model.Defence) fidelity.History {
	h := &history{Side: s, terms: terms{off: off}}
	for c := range h.terms.deaf {
		h.terms.deaf[c] = true
	}
	h.Listen(true, h.Key("changes"))
	return h
}

// TestElectionModelIsLikeTheScripts ties the model to the scripts: commands, time, mailboxes, operators; each rule matters.
func TestElectionModelIsLikeTheScripts(t *testing.T) {
	size := fidelity.Size{Histories: 50, Short: 20, Length: 80}
	fidelity.Like(t, "election model", size, begin, fidelity.Server(t), []string{
		"acquire 1", "acquire 0", "announce 1", "announce -1", "release 1", "release -1", "renew 1", "renew -1", "leader 1",
		"leader 0", "handed over: acquire", "handed over: release", "time passes", "keys lost", "lock deleted", "mailbox",
	}, map[string]model.Defence{
		"anybody announces": holderOnly, "in place of a later one": notOlder, "no end": saidEnds,
		"announced unheard": tellsAnnounce, "stays when released": releaseDeletes, "anybody's goes": releaseOwner,
		"released unheard": tellsRelease, "not renewed": renewSaid, "leads without the lock": leaderHolds,
		"an old token": newToken,
	})
}

func owner(id uint8) string {
	c, _ := ownerOf(id)
	return "client" + strconv.Itoa(c) + ":h" + strconv.Itoa(int(id))
}

// queue are the keys of the queue's scripts, and what they are told.
func (h *history) queue(args ...any) []any {
	return append([]any{h.Name, h.Key("token"), h.Key("queue"), h.Key("deadlines"), h.Key("channel")}, args...)
}

// Step takes a random step on both sides.
func (h *history) Step() string {
	t := &h.terms
	t.lease, t.claim, t.keep = 2+h.Few(3), 1+h.Few(2), 3+h.Few(3)
	lease, claim, keep := h.Millis(t.lease), h.Millis(t.claim), h.Millis(t.keep)
	c := h.Few(maxCandidates)
	id := c*gens + h.gens[c] + 1 // who the candidate is now
	before := h.token
	switch n := h.Few(40); {
	case n < 10:
		want := h.acquire(t, id)
		return h.run("acquire", before, want, lua.FairAcquire.Call(h.queue(owner(id), lease, tokenLasts.Milliseconds(), "0",
			placeLasts.Milliseconds(), claim, "PUBLISH")...))
	case n < 18:
		token := h.token
		if h.Few(3) == 0 { // from before
			id -= min(h.Few(2), h.gens[c])
			token -= min(h.Few(3), token)
		}
		if h.Real(token) == "" {
			return h.elsewise(n)
		}
		want := h.announce(t, id, token)
		return h.run("announce", before, want, lua.ElectionAnnounce.Call(h.Name, h.Key("said"), h.Key("changes"), owner(id),
			h.Real(token), "v w", keep, "PUBLISH"))
	case n < 24:
		want := h.release(t, id)
		if h.gens[c] < gens-1 {
			h.gens[c]++ // it campaigns as another
		}
		return h.run("release", before, want, lua.ElectionRelease.Call(h.queue(h.Key("said"), h.Key("changes"), owner(id),
			"PUBLISH", claim, tokenLasts.Milliseconds())...))
	case n < 29:
		want := h.renew(t, id)
		return h.run("renew", before, want,
			lua.ElectionRenew.Call(h.Name, h.Key("token"), h.Key("said"), owner(id), lease, keep))
	case n < 34:
		return h.run("leader", before, h.leader(t), lua.ElectionLeader.Call(h.Name, h.Key("said")))
	default:
		return h.elsewise(n)
	}
}

// run compares a reply, and the messages beside it. before is the token before.
func (h *history) run(what string, before uint8, want answer, call lua.Call) string {
	var values []any
	switch {
	case what == "acquire" && want.status == lua.Done:
		values = []any{fidelity.Token(want.token)}
	case what == "leader" && want.status == lua.Done:
		values = []any{owner(h.saidBy), h.Real(want.token), "v w", fidelity.Left(want.left)}
	case what == "announce", what == "release":
		values = []any{nil}
	}
	h.Run(what, call, want.status, values...)
	h.hear(what, want)
	if h.token != before && want.mail != 0 {
		return "handed over: " + what
	}
	return what + " " + strconv.Itoa(int(want.status))
}

// hear compares the messages to observers, and to mailboxes: "<owner's number> <token> <time of grant, us> <claim, ms>".
func (h *history) hear(what string, want answer) {
	var observers []string
	var mail []*redis.Message
	for _, m := range h.Heard() {
		if m.Channel == h.Key("changes") {
			observers = append(observers, m.Payload)
		} else {
			mail = append(mail, m)
		}
	}
	told := []string(nil)
	if want.told && what == "announce" {
		told = []string{h.Real(h.said)}
	} else if want.told {
		told = []string{"0"}
	}
	h.Same(what+" to observers", told, observers)
	if want.mail == 0 || len(mail) != 1 {
		h.Same(what+" to mailboxes", min(int(want.mail), 1), len(mail))
		return
	}
	client, number, _ := strings.Cut(owner(want.mail), ":")
	fields := strings.Fields(mail[0].Payload)
	require.Len(h.T, fields, 4)
	h.Same(what+" by", h.Key("channel")+":"+client, mail[0].Channel)
	h.Same(what+" to", number, fields[0])
	h.Same(what+", token", fidelity.Token(h.token), fields[1])
}

// elsewise is a step that is no command of ours.
func (h *history) elsewise(n uint8) string {
	switch {
	case n == 34 && h.Few(3) == 0:
		h.keys = keys{token: h.token}
		h.Lose(h.Name, h.Key("queue"), h.Key("deadlines"), h.Key("said"))
		return "keys lost"
	case n == 35 && h.Few(2) == 0:
		h.keys.owner, h.ttl = 0, 0
		h.Lose(h.Name)
		return "lock deleted"
	case n < 37:
		c := int(h.Few(maxCandidates))
		h.Listen(h.terms.deaf[c], h.Key("channel")+":client"+strconv.Itoa(c))
		h.terms.deaf[c] = !h.terms.deaf[c]
		return "mailbox"
	}
	h.tick()
	h.Elapse(h.Expected()...)
	return "time passes"
}

// Expected returns the keys. A hand-over that nobody hears of is seen at the token's first.
func (h *history) Expected() []fidelity.Key {
	queued := []string{}
	for _, id := range model.Under(h.keys.queue[:]) {
		queued = append(queued, owner(id))
	}
	return []fidelity.Key{
		fidelity.KeyIf(h.token != 0, h.Key("token"), fidelity.Token(h.token), fidelity.Some),
		fidelity.KeyIf(h.keys.owner != 0, h.Name, fidelity.Hash{owner(h.keys.owner): 1}, h.ttl),
		fidelity.KeyIf(h.said != 0, h.Key("said"), h.Real(h.said)+" "+owner(h.saidBy)+" v w", h.saidTTL),
		{Name: h.Key("queue"), Value: queued, TTL: fidelity.Some},
		{Name: h.Key("deadlines"), Value: fidelity.Unknown{}, TTL: fidelity.Some},
	}
}
