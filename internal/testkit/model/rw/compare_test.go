package rw

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// compare notes how a reply, and the messages beside it, differ from the model's.
func (r *replay) compare(kind string, want answer, got lua.Reply) {
	asks := strings.HasPrefix(kind, "read") || strings.HasPrefix(kind, "write")
	switch {
	case got.Status != want.status:
		r.differ("%s replied %d, the model %d", kind, got.Status, want.status)
	case asks && got.Status == lua.Denied:
		left := ticksLeft(time.Duration(got.Int(0)) * time.Millisecond)
		if got.Int(0) == -1 {
			left = endless
		}
		if left != want.left {
			r.differ("%s replied %d ticks, the model %d", kind, left, want.left)
		}
		r.compareTicket(want.ticket, got.Text(1))
	case asks && got.Status == lua.Done:
		token, err := strconv.ParseInt(got.Text(0), 10, 64)
		require.NoError(r.t, err)
		r.same(want.token, token)
	case got.Status == lua.Done && got.Text(0) != "":
		r.differ("%s replied %q", kind, got.Text(0))
	}
	heard := r.heard()
	if told := want.told && r.listening; len(heard) > 1 || told != (len(heard) == 1) || told && heard[0] != "1" {
		r.differ("%s sent %v; the model has told: %t", kind, heard, want.told)
	}
}

// compareTicket: a ticket is one that each token has passed which comes after it.
func (r *replay) compareTicket(want uint8, text string) {
	if want == 0 {
		if text != "" {
			r.differ("there is the ticket %q, and none in the model", text)
		}
		return
	}
	ticket, err := strconv.ParseInt(text, 10, 64)
	require.NoError(r.t, err)
	for model, real := range r.real {
		if (model > want-1) != (real > ticket) {
			r.differ("the ticket %d is %s at the server, where the token %d is %d", want, text, model, real)
		}
	}
	if r.wrong == "" {
		r.tickets[want] = text
	}
}

// heard are the messages that were sent so far: what a server sends by one connection comes in
// order, so all of them are before one that is sent now.
func (r *replay) heard() (list []string) {
	require.NoError(r.t, r.rdb.Publish(r.t.Context(), r.at.Name, "end").Err())
	for {
		m, err := r.ears.ReceiveMessage(r.t.Context())
		require.NoError(r.t, err)
		if m.Channel == r.at.Name {
			return list
		}
		list = append(list, m.Payload)
	}
}

// same notes that a token of the model's is this one at the server: one for one, and in the same
// order.
func (r *replay) same(model uint8, real int64) {
	for m, other := range r.real {
		if (m == model) != (other == real) || (m < model) != (other < real) {
			r.differ("token %d is %d at the server, where %d is %d", model, real, m, other)
		}
	}
	r.real[model] = real
}

func (r *replay) differ(format string, args ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, args...)
	}
}

// found are the keys at the server, as the model counts.
type found struct {
	hash                      map[string]string
	token                     int64
	ttl, tokenTTL, writersTTL uint8
	leases                    [requesters]uint8
	places                    map[string]uint8
	left                      string // the field of who has left the lock, which stays taken
	till                      int64  // until when, ms of the server's clock
}

// look asks for all keys in one go.
func (r *replay) look() (f found) {
	ctx, p := r.t.Context(), r.rdb.Pipeline()
	hash, token, now := p.HGetAll(ctx, r.at.Name), p.Get(ctx, r.at.Token), p.Time(ctx)
	writers := p.ZRangeWithScores(ctx, r.at.Writers, 0, -1)
	var ttls []*redis.DurationCmd
	for _, key := range r.all() {
		ttls = append(ttls, p.PTTL(ctx, key))
	}
	if _, err := p.Exec(ctx); !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
	}
	f.hash, f.places = hash.Val(), map[string]uint8{}
	for field, value := range f.hash {
		if ms, ok := strings.CutPrefix(value, "till"); ok {
			f.left = field
			f.till, _ = strconv.ParseInt(ms, 10, 64)
			f.hash[field] = tillTicks(int64(ticksLeft(max(time.UnixMilli(f.till).Sub(now.Val()), -2))))
		}
	}
	f.token, _ = token.Int64()
	f.ttl, f.tokenTTL, f.writersTTL = ticksLeft(ttls[0].Val()), ticksLeft(ttls[1].Val()), ticksLeft(ttls[2].Val())
	for i := range f.leases {
		f.leases[i] = ticksLeft(ttls[3+i].Val())
	}
	for _, z := range writers.Val() {
		left := time.UnixMilli(int64(z.Score)).Sub(now.Val())
		f.places[z.Member.(string)] = 1 + ticksLeft(max(left, -2))
	}
	return f
}

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	if r.wrong != "" {
		return r.wrong
	}
	f, k := r.look(), &r.model
	switch {
	case fmt.Sprint(f.hash) != fmt.Sprint(r.hash()):
		return fmt.Sprintf("the hash is %v, the model's %v", f.hash, r.hash())
	case f.ttl != k.ttl:
		return fmt.Sprintf("the hash lives for %d ticks, the model's for %d", f.ttl, k.ttl)
	case f.tokenTTL != k.tokenTTL:
		return fmt.Sprintf("the token's key lives for %d ticks, the model's for %d", f.tokenTTL, k.tokenTTL)
	case k.token != 0 && f.token != r.real[k.token], k.token == 0 && f.token != 0:
		return fmt.Sprintf("the token is %d, the model's %d", f.token, k.token)
	case f.writersTTL != k.keptFor:
		return fmt.Sprintf("the places live for %d ticks, the model's for %d", f.writersTTL, k.keptFor)
	}
	for id := uint8(1); id <= requesters; id++ {
		switch reader := k.readers[id-1]; {
		case f.leases[id-1] != reader.lease:
			return fmt.Sprintf("the lease of %s lasts for %d ticks, the model's for %d", r.owner(id), f.leases[id-1], reader.lease)
		case f.places[r.owner(id)] != k.places[id-1]:
			return fmt.Sprintf("the places are %v, the model's are %v", f.places, k.places)
		}
	}
	return ""
}

// hash is that of the model.
func (r *replay) hash() map[string]string {
	want := map[string]string{}
	k := &r.model
	if k.mode != nobody {
		want["mode"] = map[uint8]string{reading: "read", writing: "write"}[k.mode]
	}
	for i, reader := range k.readers {
		if reader.count > 0 {
			want[r.owner(uint8(i+1))] = strconv.Itoa(int(reader.count)) //nolint:gosec // few
		}
	}
	if k.writer != 0 {
		field := r.owner(k.writer) + ":write"
		if k.left {
			field = strings.Replace(field, ":h", ":h0", 1)
		}
		if want[field] = strconv.Itoa(int(k.count)); k.left {
			want[field] = tillTicks(int64(k.stay))
		}
	}
	return want
}

// tillTicks is the value of the field of who has left a lock that stays taken for so long.
func tillTicks(ticks int64) string { return "till " + strconv.FormatInt(ticks, 10) }
