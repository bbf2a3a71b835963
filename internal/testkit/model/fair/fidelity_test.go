package fair

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// requesters are whose requests a history is made of, two of them each of two clients, and one of a
// third.
var requesters = []uint8{
	line.OwnerID(0, 0), line.OwnerID(0, 1), line.OwnerID(1, 0), line.OwnerID(2, 0), line.OwnerID(2, 1),
}

// history is one random history of a lock, on the model's server and on a real one.
type history struct {
	line.History
	keys
	token, queue, deadlines string
}

func begin(s *fidelity.Side, off model.Defence) fidelity.History {
	h := &history{token: s.Key("token"), queue: s.Key("queue"), deadlines: s.Key("deadlines")}
	h.History = line.History{
		Side: s, Terms: &terms{Off: off, Home: of{0, 1, 2}}, Channel: s.Key("channel"),
		Keys: []string{s.Name, h.token, h.queue, h.deadlines},
	}
	h.Clock = 1
	return h
}

// TestFairModelIsLikeTheScripts ties the model to the scripts: one that differs in a rule is told from them.
func TestFairModelIsLikeTheScripts(t *testing.T) {
	fidelity.Like(t, "fair model", fidelity.Size{Histories: 80, Length: 80}, begin, fidelity.Server(t), []string{
		"acquire 1", "acquire 0", "acquire again 1", "acquire again 0", "place 1", "place 0", "join 1", "join 0",
		"release 1", "release -1", "poll 1", "renew 1", "renew -1", "handed over: acquire", "handed over: place",
		"handed over: join", "handed over: release", "handed over: poll", "handed over, unheard",
		"time passes", "keys lost", "token ahead", "mailbox", "queue ends",
	}, map[string]model.Defence{
		"count of listeners": line.HeedsCount, "keeps its place": line.KeepsPlace, "asks, so is there": asksIsThere,
		"claim ends": line.ClaimEnds, "claim is short": line.ClaimIsShort, "leaver is gone": line.LeaverGone, "hands on": line.HandsOn,
		"frees its own": freesOwn, "asks for the head": line.AsksHead, "its own grant": line.OwnGrant, "one place": line.OncePlaced,
		"puts off": line.Refreshes, "tells who has none": line.TellsMissing, "ends a run": runEnds, "tokens of a run": runTokens,
		"served are gone": servedGone,
	})
}

// Step takes a random step on both sides.
func (h *history) Step() string {
	e := h.Terms
	e.Lease, e.Claim, e.Place = 2+h.Few(3), 1+h.Few(3), 2+h.Few(3)
	e.Keep = 2 * e.Lease
	owner := requesters[h.Few(len(requesters))]
	n := h.Few(75)
	if h.owner == 0 && h.Queue[0].Owner != 0 && h.Few(2) == 0 { // seldom, and then scripts hand over
		n = []uint8{0, 5, 32, 68}[h.Few(4)]
	}
	before := h.Token
	var c line.Command
	var want answer
	switch {
	case n < 25:
		c, want = h.ask(n, owner)
	case n < 32:
		c, want = h.leave(owner)
	case n < 39:
		c, want = h.look()
	case n < 44:
		want = h.renew(e, owner)
		c = line.Command{What: "renew", Values: []any{nil},
			Call: lua.Renew.Call(h.Name, h.token, h.Owner(owner), h.Millis(e.Lease), h.Millis(e.Keep))}
	case n >= 68:
		c, want = h.together(owner)
	default:
		return h.elsewise(n)
	}
	c.Status, c.Handed = want.status, h.Token != before
	if want.mail.Owner != 0 {
		c.Mail = append(c.Mail, want.mail)
	}
	c.Behind = func(m line.Mail) (next string) {
		for i := range m.Run.Size() {
			next += " h" + strconv.Itoa(int(m.Run[i]))
		}
		return next
	}
	_, branch := h.Execute(&c)
	return branch
}

// call is that of a script which has all keys of the lock, and names of owners behind the rest.
func (h *history) call(s *lua.Script, owners []uint8, args ...any) lua.Call {
	return s.Call(slices.Concat([]any{h.Name, h.token, h.queue, h.deadlines, h.Channel}, args, h.Among(owners))...)
}

// ask is an attempt to get the lock.
func (h *history) ask(n, owner uint8) (c line.Command, want answer) {
	e, again, place := h.Terms, "0", int64(0)
	switch {
	case n < 5:
		c.What = "acquire"
	case n < 10:
		c.What, again = "acquire again", "1"
	default:
		c.What, place = "place", h.Millis(e.Place)
	}
	want = h.acquire(e, owner, again == "1", place > 0)
	c.Call = h.call(lua.FairAcquire, nil, h.Owner(owner), h.Millis(e.Lease), h.Millis(e.Keep), again, place,
		h.Millis(e.Claim), "PUBLISH")
	if c.Values = []any{fidelity.Token(want.token)}; want.status == lua.Denied {
		c.Values = h.refusal(want)
	}
	return c, want
}

// refusal is what is told to an owner that is refused: how long the lock is held, the server's time, that
// nobody of Redisson's has to do with it, and the holder.
func (h *history) refusal(want answer) []any {
	return []any{fidelity.Left(want.left), fidelity.Other{}, 0, h.Owner(h.owner)}
}

// leave is a release, or the end of a wait.
func (h *history) leave(owner uint8) (c line.Command, want answer) {
	e := h.Terms
	if h.owner != 0 && h.Few(2) == 0 {
		owner = h.owner
	}
	var had line.Run
	for _, other := range requesters {
		if other != owner && e.Client(other) == e.Client(owner) && h.Few(3) == 0 {
			had.Push(other)
		}
	}
	c.What, want, c.Values = "release", h.release(e, owner, had), []any{nil}
	c.Call = h.call(lua.FairRelease, had[:had.Size()], h.Owner(owner), "PUBLISH", h.Millis(e.Claim), h.Millis(e.Keep))
	return c, want
}

// look is a poll of a random client for some of its owners.
func (h *history) look() (c line.Command, want answer) {
	e, client := h.Terms, h.Few(3)
	var asked []uint8
	for _, owner := range requesters {
		if e.Client(owner) == client && h.Few(2) == 0 {
			asked = append(asked, owner)
		}
	}
	var owners line.Owners
	copy(owners[:], asked)
	c.What, want = "poll", h.poll(e, client, owners)
	c.Call = h.call(lua.FairPoll, asked, line.ClientName(client), "PUBLISH", h.Millis(e.Claim), h.Millis(e.Keep),
		h.Millis(e.Place))
	holder := ""
	if want.holder != 0 {
		holder = h.Owner(want.holder)
	}
	c.Values = []any{fidelity.Left(want.left), fidelity.Other{}, holder, "", model.Bit(want.heard), fidelity.Other{}}
	for i, owner := range asked {
		if want.missing&(1<<i) != 0 {
			c.Values = append(c.Values, h.Owner(owner))
		}
	}
	c.Values = append(c.Values, nil)
	return c, want
}

// together asks for places of all owners of a client.
func (h *history) together(owner uint8) (c line.Command, want answer) {
	e := h.Terms
	owners := slices.DeleteFunc(slices.Clone(requesters),
		func(other uint8) bool { return e.Client(other) != e.Client(owner) })
	h.Rnd.Shuffle(len(owners), func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
	c.What, want = "join", h.join(e, owners...)
	c.Call = h.call(lua.FairJoin, owners, h.Millis(e.Place), "9000000000000000", h.Millis(e.Claim), "PUBLISH",
		h.Millis(e.Keep))
	if want.status == lua.Denied {
		c.Values = h.refusal(want)
	}
	return c, want
}

// elsewise is a step that is no command of ours.
func (h *history) elsewise(n uint8) string {
	switch {
	case n == 44:
		h.keys = keys{Store: line.Store{Clock: h.Clock}}
		h.Lose(h.Keys...)
		return "keys lost"
	case n == 45 && h.Token != 0 && h.Token < 100: // as after the clock was set back
		h.Token += 100
		h.Ahead(h.token, h.Token)
		return "token ahead"
	case n < 50:
		h.Toggle(h.Few(3))
		return "mailbox"
	case n < 60 && h.Queue.Over():
		h.Queue = line.Queue{}
		h.Lose(h.queue, h.deadlines)
		return "queue ends"
	}
	h.tick()
	h.Elapse(fidelity.Key{Name: h.Name}, fidelity.Key{Name: h.token}, fidelity.Key{Name: h.deadlines})
	// The hour for which the queue outlives its places is not shortened: "queue ends" is its end.
	require.NoError(h.T, h.RDB.PExpire(h.T.Context(), h.deadlines, h.RDB.PTTL(h.T.Context(), h.queue).Val()).Err())
	return "time passes"
}

// Expected returns the keys. That the queue's have an end that is far is enough.
func (h *history) Expected() []fidelity.Key {
	queue, want := []string(nil), map[string]uint8{}
	for _, p := range model.Under(h.Queue[:]) {
		queue = append(queue, h.Owner(p.Owner))
		want[h.Owner(p.Owner)] = p.Left
	}
	have, lives := h.Places(h.deadlines, h.queue)
	maps.DeleteFunc(have, func(_ string, left uint8) bool { return left == model.Endless })
	if !maps.Equal(have, want) || len(queue) > 0 && slices.Min(lives[:]) < 45*time.Minute {
		h.Differ("the places are %v, the model's %v; the queue's keys live for %v", have, want, lives)
	}
	return []fidelity.Key{
		fidelity.KeyIf(h.owner != 0, h.Name, fidelity.Hash{h.Owner(h.owner): 1}, h.ttl),
		fidelity.KeyIf(h.Token != 0, h.token, fidelity.Token(h.Token), h.TokenTTL),
		{Name: h.queue, Value: queue, TTL: fidelity.Some},
	}
}
