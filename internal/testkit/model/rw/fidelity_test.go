package rw

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// tickLength is far longer than a test, so that real time does not matter: a tick is what replay
// takes off.
const tickLength = 1000 * time.Second

// requesters is how many owners a history is made of.
const requesters = 4

// replay is one random history, run on the model's keys and, by the scripts, on those of a real
// server.
type replay struct {
	t         *testing.T
	rdb       *redis.Client
	ears      *redis.PubSub
	listening bool // on the lock's channel, as waiters do
	rnd       *rand.Rand
	model     server
	off       defence
	at        keys.ReadWrite
	real      map[uint8]int64  // what the model's tokens are at the server
	tickets   map[uint8]string // and its tickets
	wrong     string           // how the last reply, or message, differs
	steps     []string         // so far, for whoever has to understand a difference
}

// TestReadWriteModelIsLikeTheScripts ties the model to the scripts: random histories of commands,
// of time and of what operators do, with every reply, every message and all keys compared after
// every step.
func TestReadWriteModelIsLikeTheScripts(t *testing.T) {
	const histories, length = 60, 80
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is as good
	t.Logf("seed %d", seed)
	rdb := redistest.Shared(t).Client(t)
	seen := map[string]int{}
	for h := range uint64(histories) {
		r := newReplay(t, rdb, seed+h, 0)
		for range length {
			seen[r.step()]++
			require.Empty(t, r.difference(), "history %d: %v", h, r.steps)
		}
		r.end()
	}
	t.Logf("proof: model of the read-write lock: %d steps are like the scripts': %v", histories*length, seen)
	for _, branch := range []string{
		"read 1", "read 0", "read with a ticket 1", "read with a ticket 0", "read late -2", "read by another name 1", "read by another name 0", "write 1", "write 0",
		"write again 1", "write again 0", "write, with a place 1", "write, with a place 0", "write late -2",
		"release write 1", "release write -1", "release read 1", "release read -1", "leave 1", "leave -1",
		"recount write 1", "recount write -1", "renew write 1", "renew write -1",
		"renew read 1", "renew read -1", "recount read 1", "recount read -1", "force 1", "force -1", "told by release write",
		"told by release read", "told by leave", "told by force", "time passes", "keys lost", "token ahead", "listens",
	} {
		require.Positive(t, seen[branch], "%q was never compared: %v", branch, seen)
	}
}

// TestReadWriteModelUnlikeTheScripts is the control: a model that differs in one rule is told from
// the scripts.
func TestReadWriteModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for what, off := range map[string]defence{
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
	} {
		t.Run(what, func(t *testing.T) {
			for h := range uint64(200) {
				if newReplay(t, rdb, h, off).differs(80) {
					return
				}
			}
			t.Error("no difference was found")
		})
	}
}

func (r *replay) differs(length int) bool {
	defer r.end()
	for range length {
		r.step()
		if r.difference() != "" {
			return true
		}
	}
	return false
}

func newReplay(t *testing.T, rdb *redis.Client, seed uint64, off defence) *replay {
	name := t.Name() + strconv.FormatUint(seed, 36)
	r := &replay{
		t: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // for tests
		model: server{clock: 1}, off: off, at: keys.ForReadWrite(name),
		real: map[uint8]int64{}, tickets: map[uint8]string{1: "0"},
	}
	r.ears = rdb.Subscribe(t.Context(), name)
	r.subscribed("subscribe", name)
	return r
}

// end leaves nothing behind.
func (r *replay) end() {
	require.NoError(r.t, r.ears.Close())
	require.NoError(r.t, r.rdb.Del(r.t.Context(), r.all()...).Err())
}

// all are the keys at the server.
func (r *replay) all() []string {
	all := []string{r.at.Name, r.at.Token, r.at.Writers}
	for id := uint8(1); id <= requesters; id++ {
		all = append(all, r.at.Reader(r.owner(id)))
	}
	return all
}

func (r *replay) owner(id uint8) string {
	return "client" + strconv.Itoa(int(id%2)) + ":h" + strconv.Itoa(int(id))
}

// millis is a number of ticks for a script. Rounded up these are whole ticks. Of two times of equal
// ticks the later one is longer, or else it would depend on the millisecond which of them a script
// takes for the longer one.
func (r *replay) millis(ticks uint8) int64 {
	return (time.Duration(ticks)*tickLength - tickLength/2).Milliseconds() + 10*int64(len(r.steps))
}

func (r *replay) few(n int) uint8 { return uint8(r.rnd.IntN(n)) } //nolint:gosec // a few

// step takes a random step on both sides and returns what it was, with the status of its reply.
func (r *replay) step() string {
	n := r.rnd.IntN(60)
	if n >= 46 {
		what := r.elsewise(n)
		r.steps = append(r.steps, what)
		return what
	}
	before := r.model.token
	what, call, want := r.command(n)
	if r.model.token != before {
		r.model.clock++ // no two grants are of one microsecond
	}
	got, err := lua.Run(r.t.Context(), r.rdb, call)
	require.NoError(r.t, err)
	r.steps = append(r.steps, fmt.Sprintf("%s: %d", what, got.Status))
	kind, _, _ := strings.Cut(what, ":")
	r.compare(kind, want, got)
	if want.told && r.listening {
		return "told by " + kind
	}
	return fmt.Sprintf("%s %d", kind, got.Status)
}

// terms are those of a random command.
type terms struct {
	id, lease, count             uint8
	owner, reader, field         string // the owner, its lease, and its field if it writes
	ms, tokenMS                  int64
	name, token, writers, listen string
}

func (r *replay) terms() terms {
	k := &r.model
	id, lease, count := 1+r.few(requesters), 2+r.few(3), 1+r.few(3)
	if k.mode != nobody && r.few(2) == 0 { // else most commands would come from somebody who has nothing
		for !k.reads(id) && k.writer != id {
			id = 1 + id%requesters
		}
	}
	owner := r.owner(id)
	return terms{
		id: id, lease: lease, count: count, owner: owner, reader: r.at.Reader(owner), field: owner + ":write",
		ms: r.millis(lease), tokenMS: 2*tickLength.Milliseconds()*int64(lease) - tickLength.Milliseconds()/2,
		name: r.at.Name, token: r.at.Token, writers: r.at.Writers, listen: r.at.Channel,
	}
}

// command is a random command, as text, for the server and by the model.
func (r *replay) command(n int) (what string, call lua.Call, want answer) {
	e := r.terms()
	if n < 20 {
		what, call, want = r.asks(n, &e)
	} else {
		what, call, want = r.orders(n, &e)
	}
	return fmt.Sprintf("%s: %s, lease %d", what, e.owner, e.lease), call, want
}

// asks are attempts to get the lock.
func (r *replay) asks(n int, e *terms) (what string, call lua.Call, want answer) {
	k, off := &r.model, r.off
	ticket, until, again, place := uint8(0), "9000000000000000", "0", uint8(0)
	write := n >= 9
	switch {
	case n < 1 || n >= 19:
		what, until, want = " late", "1", answer{status: lua.Late}
	case !write && r.few(2) == 0:
		what, ticket = " with a ticket", r.ticket()
	case write && r.few(3) == 0:
		what, again = " again", "1"
	case write && r.few(2) == 0:
		what, place = ", with a place", 1+r.few(4)
	}
	if write {
		kept := int64(0)
		if place > 0 {
			kept = r.millis(place)
		}
		if until != "1" || off.has(lateness) {
			want = k.write(off, e.id, e.lease, place, again == "1")
		}
		return "write" + what, lua.RwWrite.Call(e.name, e.token, e.writers, e.owner, e.ms, e.tokenMS, again, until, kept), want
	}
	beside, as := uint8(0), ""
	if r.few(3) == 0 {
		what += " by another name"
		beside = 1 + r.few(requesters)
		if k.writer != 0 && r.few(2) == 0 {
			beside = k.writer
		}
		as = r.owner(beside)
	}
	if until != "1" || off.has(lateness) {
		want = k.read(off, e.id, e.lease, ticket, beside)
	}
	call = lua.RwRead.Call(e.name, e.token, e.writers, e.reader, e.owner, e.ms, e.tokenMS, until, r.tickets[ticket], as)
	return "read" + what, call, want
}

// orders are the commands of those who have the lock, or may have it, and of operators.
func (r *replay) orders(n int, e *terms) (what string, call lua.Call, want answer) {
	k, off := &r.model, r.off
	const publish = "PUBLISH"
	switch {
	case n < 25:
		return "release write", lua.RwWriteRelease.Call(e.name, e.listen, e.writers, e.owner, publish),
			k.releaseWrite(off, e.id)
	case n < 30:
		return "release read", lua.RwReadRelease.Call(e.name, e.listen, e.reader, e.owner, publish),
			k.releaseRead(off, e.id, r.listening)
	case n < 33:
		rest := 1 + r.few(3)
		if stands := k.taken(0); k.mode == writing && rest == stands || rest == k.readers[e.id-1].lease {
			rest = k.ttl + 1 // else it would depend on the millisecond which of them is the longer one
		}
		return "leave", lua.RwLeave.Call(e.name, e.listen, e.owner, r.millis(rest), publish), k.leave(off, e.id, rest)
	case n < 36:
		return "recount write", lua.Recount.Call(e.name, e.field, e.count, e.ms), k.recountWrite(off, e.id, e.count, e.lease)
	case n < 39:
		return "renew write", lua.Renew.Call(e.name, e.token, e.field, e.ms, e.tokenMS), k.renewWrite(off, e.id, e.lease)
	case n < 44:
		if what = "recount read"; n < 41 {
			what, e.count = "renew read", 0
		}
		return what, lua.RwReadRenew.Call(e.name, e.token, e.reader, e.owner, e.ms, e.tokenMS, e.count),
			k.renewRead(off, e.id, e.lease, e.count)
	}
	other := 1 + r.few(requesters)
	return "force", lua.RwForce.Call(e.name, e.listen, "-", publish, e.owner, r.owner(other)),
		k.force(off, 1<<(e.id-1)|1<<(other-1))
}

// ticket is one that somebody was given.
func (r *replay) ticket() uint8 {
	n := r.rnd.IntN(len(r.tickets))
	for t := uint8(1); t < endless; t++ {
		if _, ok := r.tickets[t]; !ok {
			continue
		}
		if n == 0 {
			return t
		}
		n--
	}
	return 1
}

// elsewise is a step that is no command of ours.
func (r *replay) elsewise(n int) string {
	ctx := r.t.Context()
	switch {
	case n == 46:
		r.model = server{clock: r.model.clock}
		require.NoError(r.t, r.rdb.Del(ctx, r.all()...).Err())
		return "keys lost"
	case n == 47 && r.model.token != 0 && r.model.token < 100: // as after the clock was set back
		r.model.token += 100
		last, err := r.rdb.Get(ctx, r.at.Token).Int64()
		require.NoError(r.t, err)
		last += int64(time.Hour / time.Microsecond)
		require.NoError(r.t, r.rdb.Set(ctx, r.at.Token, last, redis.KeepTTL).Err())
		r.same(r.model.token, last)
		return "token ahead"
	case n < 50 && (!r.listening || r.few(3) == 0):
		r.toggle()
		return "listens"
	}
	r.tick()
	return "time passes"
}

// toggle lets somebody listen, or no longer.
func (r *replay) toggle() {
	kind, change := "subscribe", r.ears.Subscribe
	if r.listening {
		kind, change = "unsubscribe", r.ears.Unsubscribe
	}
	require.NoError(r.t, change(r.t.Context(), r.at.Channel))
	r.subscribed(kind, r.at.Channel)
	r.listening = !r.listening
}

// subscribed waits for the server's word.
func (r *replay) subscribed(kind, channel string) {
	for {
		got, err := r.ears.Receive(r.t.Context())
		require.NoError(r.t, err)
		if s, ok := got.(*redis.Subscription); ok && s.Kind == kind && s.Channel == channel {
			return
		}
	}
}

// tick takes a tick off all times to live, and off all places.
func (r *replay) tick() {
	r.model.tick()
	f := r.look()
	ctx, p := r.t.Context(), r.rdb.Pipeline()
	if f.left != "" {
		p.HSet(ctx, r.at.Name, f.left, "till"+strconv.FormatInt(f.till-tickLength.Milliseconds(), 10))
	}
	for owner := range f.places {
		p.ZIncrBy(ctx, r.at.Writers, -float64(tickLength.Milliseconds()), owner)
	}
	for i, left := range append([]uint8{f.ttl, f.tokenTTL, f.writersTTL}, f.leases[:]...) {
		switch key := r.all()[i]; {
		case left == 1:
			p.Del(ctx, key)
		case left > 1 && left != endless:
			p.PExpire(ctx, key, time.Duration(left-1)*tickLength-tickLength/2)
		}
	}
	_, err := p.Exec(ctx)
	require.NoError(r.t, err)
}

func ticksLeft(left time.Duration) uint8 {
	switch {
	case left == -1:
		return endless
	case left < 0:
		return 0
	}
	return uint8((left + tickLength - 1) / tickLength) //nolint:gosec // a few
}
