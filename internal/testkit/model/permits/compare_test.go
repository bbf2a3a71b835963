package permits

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

func (r *replay) differ(format string, args ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, args...)
	}
}

// compare notes how a reply, and the messages beside it, differ from the model's.
func (r *replay) compare(what string, want answer, got lua.Reply, asked []string) {
	switch {
	case got.Status != want.status:
		r.differ("%s replied %d, the model %d", what, got.Status, want.status)
	case got.Status == lua.Denied:
		r.compareLeft(what, want.left, got.Int(0))
		r.compareWho(what, want.left, got.Text(3))
		_, err := strconv.ParseInt(got.Text(1), 10, 64)
		require.NoError(r.t, err)
	case want.token != 0:
		r.compareToken(want.token, got.Text(0))
	case what == "poll":
		r.comparePoll(want, got, asked)
	case got.Text(0) != "":
		r.differ("%s replied %q", what, got.Text(0))
	}
	heard := r.heard()
	for _, told := range want.mail[:want.mails] {
		if len(heard) == 0 {
			r.differ("%s did not send %+v", what, told)
			return
		}
		r.compareMail(told, heard[0])
		heard = heard[1:]
	}
	if want.others > 0 {
		if len(heard) == 0 || heard[0].Channel != r.channel || heard[0].Payload != strconv.Itoa(int(want.others)) {
			r.differ("%s sent %v, the model %d to others", what, heard, want.others)
			return
		}
		heard = heard[1:]
	}
	if len(heard) > 0 {
		r.differ("%s sent %v as well", what, heard)
	}
}

func (r *replay) compareToken(want uint8, text string) {
	token, err := strconv.ParseInt(text, 10, 64)
	require.NoError(r.t, err)
	r.same(want, token)
}

func (r *replay) compareLeft(what string, want uint8, got int64) {
	if want == none {
		want = placeTicks
	}
	if left := ticksLeft(time.Duration(got) * time.Millisecond); left != want {
		r.differ("%s replied %d ticks, the model %d", what, left, want)
	}
}

// compareWho: who has the permit that ends first is one of those whose permits do.
func (r *replay) compareWho(what string, left uint8, who string) {
	for _, p := range r.model.out {
		if p.n > 0 && p.left == left && (who == "" && p.owner == foreigner || r.owner(p.owner) == who) {
			return
		}
	}
	if left != none || who != "" {
		r.differ("%s named %q, and the model has %v", what, who, r.model.out)
	}
}

func (r *replay) comparePoll(want answer, got lua.Reply, asked []string) {
	r.compareLeft("poll", want.left, got.Int(0))
	var missing, given []string
	for i, owner := range asked {
		if want.missing&(1<<i) != 0 {
			missing = append(missing, owner)
		}
	}
	for _, owner := range requesters {
		if want.given&(1<<owner) != 0 {
			given = append(given, r.owner(owner))
		}
	}
	tell := got.Texts(6)
	if len(tell) != len(given)+len(missing) {
		r.differ("poll told %v, the model %v and %v", tell, given, missing)
		return
	}
	first := slices.Clone(tell[:len(given)])
	if len(given) == 0 {
		r.compareWho("poll", want.left, got.Text(2))
	} else if got.Text(2) != first[0] {
		r.differ("poll replied %v", got)
	}
	slices.Sort(first)
	slices.Sort(given)
	called := ""
	if want.foreign {
		called = "redisson"
	}
	if fmt.Sprint(first, tell[len(given):]) != fmt.Sprint(given, missing) || got.Text(3) != called ||
		got.Int(4) != int64(bit(want.heard)) || got.Int(5) != 0 {
		r.differ("poll replied %v, the model %v, %v, %q and %v", got, given, missing, called, want.heard)
	}
}

// compareMail compares "<number of the owner> <token> <time of the grant, us> <claim, ms>", or dashes
// where there are not so many.
func (r *replay) compareMail(want mail, got *redis.Message) {
	client, number, _ := strings.Cut(r.owner(want.owner), ":")
	fields := strings.Fields(got.Payload)
	if got.Channel != r.channel+":"+client || len(fields) != 4 || fields[0] != number || (want.token == 0) != (fields[1] == "-") {
		r.differ("%s was told %q, the model told %+v", got.Channel, got.Payload, want)
		return
	}
	if want.token == 0 {
		return
	}
	r.compareToken(want.token, fields[1])
	_, err := strconv.ParseInt(fields[2], 10, 64)
	require.NoError(r.t, err)
	claim, err := strconv.ParseInt(fields[3], 10, 64)
	require.NoError(r.t, err)
	r.compareLeft("the message", want.left+1, claim)
}

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	ctx := r.t.Context()
	free, err := r.rdb.Get(ctx, r.name).Int64()
	counted := !errors.Is(err, redis.Nil)
	if counted {
		require.NoError(r.t, err)
	}
	token, err := r.rdb.Get(ctx, r.token).Int64()
	if !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
	}
	if r.model.token != 0 && token != 0 { // a hand-over that nobody hears of is seen here first
		r.same(r.model.token, token)
	}
	switch tokenTTL := ticksLeft(r.rdb.PTTL(ctx, r.token).Val()); {
	case r.wrong != "":
		return r.wrong
	case counted != r.model.counted || counted && free != int64(r.model.free):
		return fmt.Sprintf("%d are free (%v), the model's %d (%v)", free, counted, r.model.free, r.model.counted)
	case tokenTTL != r.model.tokenTTL:
		return fmt.Sprintf("the token's key lives for %d ticks, the model's for %d", tokenTTL, r.model.tokenTTL)
	case (r.model.token == 0) != (token == 0):
		return fmt.Sprintf("the token is %d, the model's %d", token, r.model.token)
	}
	for _, differs := range []func() string{r.permitsDiffer, r.queueDiffers, r.endsDiffer} {
		if how := differs(); how != "" {
			return how
		}
	}
	return ""
}

// permitsDiffer compares who has what, until when.
func (r *replay) permitsDiffer() string {
	have, want := map[string]string{}, map[string]string{}
	for _, z := range r.rdb.ZRangeWithScores(r.t.Context(), r.permits, 0, -1).Val() {
		left := ticksLeft(max(time.Duration(int64(z.Score)-r.last)*time.Millisecond, -2))
		have[z.Member.(string)] = strconv.Itoa(int(left))
	}
	for _, p := range r.model.out {
		for i := range p.n {
			permit := r.owner(p.owner)
			if j := i + uint8(bit(p.torn)); j > 0 { //nolint:gosec // 0 or 1
				permit += "/" + strconv.Itoa(int(j)+1)
			}
			want[permit] = strconv.Itoa(int(p.left))
		}
	}
	if !maps.Equal(have, want) {
		return fmt.Sprintf("the permits are %v, the model's %v", have, want)
	}
	return ""
}

// queueDiffers compares the queue's three keys.
func (r *replay) queueDiffers() string {
	ctx := r.t.Context()
	queued := r.rdb.ZRange(ctx, r.queue, 0, -1).Val()
	have, want := map[string]string{}, map[string]string{}
	for _, z := range r.rdb.ZRangeWithScores(ctx, r.places, 0, -1).Val() {
		owner := z.Member.(string)
		switch {
		case z.Score > 0:
			have[owner] = strconv.Itoa(int(ticksLeft(max(time.Duration(int64(z.Score)-r.last)*time.Millisecond, -2))))
		case strings.Contains(owner, ":"): // else it is a client of which a claim has ended
			have[owner] = "handed"
		}
	}
	for owner, n := range r.rdb.HGetAll(ctx, r.wants).Val() {
		have[owner+" wants"] = n
	}
	for _, p := range r.model.out {
		if p.handed {
			want[r.owner(p.owner)] = "handed"
		}
	}
	for i, p := range r.model.queue {
		if (p.owner == 0) != (i >= len(queued)) || p.owner != 0 && queued[i] != r.owner(p.owner) {
			return fmt.Sprintf("in the queue are %v, the model's is %v", queued, r.model.queue)
		}
		if p.owner == 0 {
			break
		}
		want[queued[i]] = strconv.Itoa(int(p.left))
		if n := r.terms.wants(p.owner); n > 1 {
			want[queued[i]+" wants"] = strconv.Itoa(int(n))
		}
	}
	if !maps.Equal(have, want) {
		return fmt.Sprintf("the places are %v, the model's %v", have, want)
	}
	return ""
}

// endsDiffer: every key has an end. How far it is, the model does not say.
func (r *replay) endsDiffer() string {
	for _, key := range r.keys() {
		if r.rdb.PTTL(r.t.Context(), key).Val() == -1 {
			return key + " has no time to live"
		}
	}
	return ""
}
