package rw

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/lua"
)

// requesters is how many owners a history is made of.
const requesters = 4

// history is one random history of a lock, on the model's server and on a real one.
type history struct {
	*fidelity.Side
	server
	off       model.Defence
	at        keys.ReadWrite
	listening bool             // somebody is, on the lock's channel, as waiters do
	ahead     bool             // the last token was ahead of the clock; once is enough
	tickets   map[uint8]string // what the model's tickets are at the server
}

func begin(s *fidelity.Side, off model.Defence) fidelity.History {
	return &history{
		Side: s, server: server{clock: 1}, off: off, at: keys.ForReadWrite(s.Name), tickets: map[uint8]string{1: "0"},
	}
}

// TestReadWriteModelIsLikeTheScripts ties the model to the scripts: one that differs in a rule is told from them.
func TestReadWriteModelIsLikeTheScripts(t *testing.T) {
	size := fidelity.Size{Histories: 60, Short: 25, Length: 80}
	fidelity.Like(t, "model of the read-write lock", size, begin, fidelity.Server(t), []string{
		"read 1", "read 0", "read with a ticket 1", "read with a ticket 0", "read late -2", "read by another name 1",
		"read by another name 0", "write 1", "write 0", "write again 1", "write again 0", "write, with a place 1",
		"write, with a place 0", "write late -2", "release write 1", "release write -1", "release read 1", "release read -1",
		"leave 1", "leave -1", "recount write 1", "recount write -1", "renew write 1", "renew write -1", "renew read 1",
		"renew read -1", "recount read 1", "recount read -1", "force 1", "force -1", "told by release write",
		"told by release read", "told by leave", "told by force", "time passes", "keys lost", "token ahead", "listens",
	}, map[string]model.Defence{
		"who writes": readSeesWriter, "who waits": readerWaits, "ticket": ticketCounts, "who reads": whoReadsPasses,
		"token of a read": readToken, "count of a late read": readCountKept, "lease of a late read": readLeaseKept,
		"lease of the hash": hashLasts, "no lease": leaseOfGrant, "late": lateness, "readers": writeSeesReaders,
		"dead readers": deadReaders, "again": againFlag, "token": tokenGrows, "place": placeTaken,
		"place at the grant": placeAtGrant, "place of a leaver": placeWithdrawn, "last place": placeTold,
		"place that is over": overIsNone, "owner": releaseOwner, "writer's end": writeTold, "downgrade": downgrade,
		"mode": downgradeMode, "reader's end": readTold, "others": othersStay, "dead others": othersLooked,
		"absolute": absolute, "brings back": renewExists, "shortens": renewKeeps, "stays": leaveStays,
		"leaver's end": leaveTold, "name": leaveRenames, "seen": forceSeen,
		"another name": siblings, "stay's end": stayEnds, "stay": staySaid, "stay after a read": stayShortens,
	})
}

func owner(id uint8) string { return "client" + strconv.Itoa(int(id%2)) + ":h" + strconv.Itoa(int(id)) }

// terms are those of a random command.
type terms struct {
	id, lease, count     uint8
	owner, reader, field string // the owner, its lease, and its field if it writes
	ms, tokenMS          int64
}

func (h *history) terms() terms {
	id, lease, count := 1+h.Few(requesters), 2+h.Few(3), 1+h.Few(3)
	if h.mode != nobody && h.Few(2) == 0 { // else most commands would come from somebody who has nothing
		for !h.reads(id) && h.writer != id {
			id = 1 + id%requesters
		}
	}
	return terms{
		id: id, lease: lease, count: count, owner: owner(id), reader: h.at.Reader(owner(id)), field: owner(id) + ":write",
		ms: h.Millis(lease), tokenMS: h.Millis(2 * lease),
	}
}

// Step takes a random step on both sides.
func (h *history) Step() string {
	n := h.Few(60)
	if n >= 46 {
		return h.elsewise(n)
	}
	e := h.terms()
	before := h.token
	what, call, want := h.orders(n, &e)
	if n < 20 {
		what, call, want = h.asks(n, &e)
	}
	if h.token != before {
		h.clock++ // no two grants are of one microsecond
	}
	var values []any
	switch asks := n < 20; {
	case asks && want.status == lua.Denied:
		values = []any{fidelity.Left(want.left)}
	case asks && want.status == lua.Done:
		values = []any{fidelity.Token(want.token)}
	case want.status == lua.Done:
		values = []any{nil}
	}
	got := h.Run(what, call, want.status, values...)
	if n < 20 && want.status == lua.Denied && got.Status == lua.Denied {
		h.compareTicket(want.ticket, got.RwRefusal().Ticket)
	}
	told := want.told && h.listening
	if h.HearIf(told, what, h.at.Channel, "1"); told {
		return "told by " + what
	}
	return what + " " + strconv.Itoa(int(want.status))
}

// asks are attempts to get the lock.
func (h *history) asks(n uint8, e *terms) (what string, call lua.Call, want answer) {
	ticket, until, again, place := uint8(0), "9000000000000000", "0", uint8(0)
	writes := n >= 9
	switch {
	case n < 1 || n >= 19:
		what, until, want = " late", "1", answer{status: lua.Late}
	case !writes && h.Few(2) == 0:
		what, ticket = " with a ticket", h.ticket()
	case writes && h.Few(3) == 0:
		what, again = " again", "1"
	case writes && h.Few(2) == 0:
		what, place = ", with a place", 1+h.Few(4)
	}
	executed := until != "1" || h.off.Has(lateness)
	if writes {
		kept := int64(0)
		if place > 0 {
			kept = h.Millis(place)
		}
		if executed {
			want = h.write(h.off, e.id, e.lease, place, again == "1")
		}
		call = lua.RwWrite.Call(h.at.Name, h.at.Token, h.at.Writers, e.owner, e.ms, e.tokenMS, again, until, kept)
		return "write" + what, call, want
	}
	beside, as := uint8(0), ""
	if h.Few(3) == 0 {
		what += " by another name"
		beside = 1 + h.Few(requesters)
		if h.writer != 0 && h.Few(2) == 0 {
			beside = h.writer
		}
		as = owner(beside)
	}
	if executed {
		want = h.read(h.off, e.id, e.lease, ticket, beside)
	}
	call = lua.RwRead.Call(h.at.Name, h.at.Token, h.at.Writers, e.reader, e.owner, e.ms, e.tokenMS, until,
		h.tickets[ticket], as)
	return "read" + what, call, want
}

// orders are the commands of those who have the lock, or may have it, and of operators.
func (h *history) orders(n uint8, e *terms) (what string, call lua.Call, want answer) {
	const publish = "PUBLISH"
	name, channel := h.at.Name, h.at.Channel
	switch {
	case n < 20:
		return "", call, want
	case n < 25:
		return "release write", lua.RwWriteRelease.Call(name, channel, h.at.Writers, e.owner, publish),
			h.releaseWrite(h.off, e.id)
	case n < 30:
		return "release read", lua.RwReadRelease.Call(name, channel, e.reader, e.owner, publish),
			h.releaseRead(h.off, e.id, h.listening)
	case n < 33:
		rest := 1 + h.Few(3)
		if stands := h.taken(0); h.mode == writing && rest == stands || rest == h.readers[e.id-1].lease {
			rest = h.ttl + 1 // else it would depend on the millisecond which of them is the longer one
		}
		return "leave", lua.RwLeave.Call(name, channel, e.owner, h.Millis(rest), publish), h.leave(h.off, e.id, rest)
	case n < 36:
		return "recount write", lua.Recount.Call(name, e.field, e.count, e.ms), h.recountWrite(h.off, e.id, e.count, e.lease)
	case n < 39:
		return "renew write", lua.Renew.Call(name, h.at.Token, e.field, e.ms, e.tokenMS), h.renewWrite(h.off, e.id, e.lease)
	case n < 44:
		if what = "recount read"; n < 41 {
			what, e.count = "renew read", 0
		}
		return what, lua.RwReadRenew.Call(name, h.at.Token, e.reader, e.owner, e.ms, e.tokenMS, e.count),
			h.renewRead(h.off, e.id, e.lease, e.count)
	}
	other := 1 + h.Few(requesters)
	return "force", lua.RwForce.Call(name, channel, "-", publish, e.owner, owner(other)),
		h.force(h.off, 1<<(e.id-1)|1<<(other-1))
}

// ticket is one that somebody was given.
func (h *history) ticket() uint8 {
	var known []uint8
	for ticket := range h.tickets {
		known = append(known, ticket)
	}
	slices.Sort(known)
	return known[h.Few(len(known))]
}

// compareTicket: a ticket is one that each token has passed which comes after it.
func (h *history) compareTicket(want uint8, text string) {
	if want == 0 {
		h.Same("a refusal", "", text)
		return
	}
	ticket, err := strconv.ParseInt(text, 10, 64)
	require.NoError(h.T, err)
	if h.Splits(want-1, ticket) {
		h.tickets[want] = text
	}
}

// elsewise is a step that is no command of ours.
func (h *history) elsewise(n uint8) string {
	switch {
	case n == 46:
		h.server = server{clock: h.clock}
		h.Lose(fidelity.Names(h.Expected())...)
		return "keys lost"
	case n == 47 && h.token != 0 && !h.ahead:
		h.ahead = true
		h.token += 100
		h.Ahead(h.at.Token, h.token)
		return "token ahead"
	case n < 50 && (!h.listening || h.Few(3) == 0):
		h.listening = !h.listening
		h.Listen(h.listening, h.at.Channel)
		return "listens"
	}
	h.tick()
	h.Elapse(h.Expected()...)
	return "time passes"
}

// Expected returns the keys of the lock.
func (h *history) Expected() (list []fidelity.Key) {
	hash, places := fidelity.Hash{"mode": map[uint8]string{reading: "read", writing: "write"}[h.mode]}, fidelity.Until{}
	for id := uint8(1); id <= requesters; id++ {
		r := h.readers[id-1]
		list = append(list, fidelity.KeyIf(r.lease > 0, h.at.Reader(owner(id)), fidelity.Other{}, r.lease))
		if r.count > 0 {
			hash[owner(id)] = int(r.count)
		}
		if h.places[id-1] > 0 {
			places[owner(id)] = h.places[id-1] - 1
		}
	}
	if h.writer != 0 && h.left {
		hash[strings.Replace(owner(h.writer)+":write", ":h", ":h0", 1)] = fidelity.Till(h.stay)
	} else if h.writer != 0 {
		hash[owner(h.writer)+":write"] = int(h.count)
	}
	return append(list, fidelity.KeyIf(h.mode != nobody, h.at.Name, hash, h.ttl),
		fidelity.KeyIf(h.token != 0, h.at.Token, fidelity.Token(h.token), h.tokenTTL),
		fidelity.KeyIf(len(places) > 0, h.at.Writers, places, h.keptFor))
}
