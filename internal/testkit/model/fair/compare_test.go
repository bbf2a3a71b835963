package fair

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// compare notes how a reply, and the messages beside it, differ from the model's.
func (r *replay) compare(what string, want answer, got lua.Reply, asked []string) {
	asks := what != "release" && what != "renew" && what != "poll"
	switch {
	case got.Status != want.status:
		r.differ("%s replied %d, the model %d", what, got.Status, want.status)
	case asks && got.Status == lua.Denied:
		r.compareLeft(what, want.left, got.Int(0))
		_, err := strconv.ParseInt(got.Text(1), 10, 64)
		require.NoError(r.t, err)
	case what == "join":
	case asks:
		r.compareToken(want.token, got.Text(0))
	case what == "poll":
		r.comparePoll(want, got, asked)
	case got.Text(0) != "":
		r.differ("%s replied %q", what, got.Text(0))
	}
	heard := r.heard()
	switch {
	case want.mail.Owner == 0 && len(heard) == 0:
	case want.mail.Owner == 0 || len(heard) != 1:
		r.differ("%s sent %v, the model %+v", what, heard, want.mail)
	default:
		r.compareMail(want.mail, heard[0])
	}
}

func (r *replay) compareToken(want uint8, text string) {
	token, err := strconv.ParseInt(text, 10, 64)
	require.NoError(r.t, err)
	r.same(want, token)
}

func (r *replay) compareLeft(what string, want uint8, got int64) {
	left := ticksLeft(time.Duration(got) * time.Millisecond)
	if got == -1 {
		left = model.Endless
	}
	if left != want {
		r.differ("%s replied %d ticks, the model %d", what, left, want)
	}
}

func (r *replay) comparePoll(want answer, got lua.Reply, asked []string) {
	r.compareLeft("poll", want.left, got.Int(0))
	holder := ""
	if want.holder != 0 {
		holder = r.owner(want.holder)
	}
	var missing []string
	for i, owner := range asked {
		if want.missing&(1<<i) != 0 {
			missing = append(missing, owner)
		}
	}
	if got.Text(2) != holder || got.Text(3) != "" || (got.Int(4) == 1) != want.heard ||
		fmt.Sprint(got.Texts(6)) != fmt.Sprint(missing) {
		r.differ("poll replied %v, the model %s, %v and %v", got, holder, want.heard, missing)
	}
}

// compareMail compares "<number of the owner> <token> <time of the grant, us> <claim, ms> <number of the next in the run>...".
func (r *replay) compareMail(want line.Mail, got *redis.Message) {
	client, number, _ := strings.Cut(r.owner(want.Owner), ":")
	fields := strings.Fields(got.Payload)
	require.GreaterOrEqual(r.t, len(fields), 4)
	var next []string
	for i := range want.Run.Size() {
		_, other, _ := strings.Cut(r.owner(want.Run[i]), ":")
		next = append(next, other)
	}
	if fmt.Sprint(next) != fmt.Sprint(fields[4:]) {
		r.differ("%s was told of the run %v, the model of %v", got.Channel, fields[4:], next)
		return
	}
	if got.Channel != r.channel+":"+client || fields[0] != number {
		r.differ("%s was told %q, not %s", got.Channel, got.Payload, r.owner(want.Owner))
		return
	}
	r.compareToken(want.Token, fields[1])
	_, err := strconv.ParseInt(fields[2], 10, 64)
	require.NoError(r.t, err)
	claim, err := strconv.ParseInt(fields[3], 10, 64)
	require.NoError(r.t, err)
	r.compareLeft("the message", want.Left+1, claim)
}

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	ctx := r.t.Context()
	hash, err := r.rdb.HGetAll(ctx, r.name).Result()
	require.NoError(r.t, err)
	want := map[string]string{}
	if r.model.owner != 0 {
		want[r.owner(r.model.owner)] = "1"
	}
	token, err := r.rdb.Get(ctx, r.token).Int64()
	if !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
	}
	if r.model.Token != 0 && token != 0 { // a hand-over that nobody hears of is seen here first
		r.same(r.model.Token, token)
	}
	switch ttl, tokenTTL := ticksLeft(r.rdb.PTTL(ctx, r.name).Val()), ticksLeft(r.rdb.PTTL(ctx, r.token).Val()); {
	case r.wrong != "":
		return r.wrong
	case fmt.Sprint(hash) != fmt.Sprint(want):
		return fmt.Sprintf("the hash is %v, the model's %v", hash, want)
	case ttl != r.model.ttl:
		return fmt.Sprintf("the hash lives for %d ticks, the model's for %d", ttl, r.model.ttl)
	case tokenTTL != r.model.TokenTTL:
		return fmt.Sprintf("the token's key lives for %d ticks, the model's for %d", tokenTTL, r.model.TokenTTL)
	case (r.model.Token == 0) != (token == 0):
		return fmt.Sprintf("the token is %d, the model's %d", token, r.model.Token)
	}
	return r.queueDiffers()
}

// queueDiffers compares the queue's two keys. That these have an end is enough: polls put it
// off, by more than the ticks of a place that is in real time one of seconds.
func (r *replay) queueDiffers() string {
	ctx := r.t.Context()
	now := r.rdb.Time(ctx).Val()
	queued := r.rdb.LRange(ctx, r.queue, 0, -1).Val()
	scores := map[string]float64{}
	for _, z := range r.rdb.ZRangeWithScores(ctx, r.deadlines, 0, -1).Val() {
		if z.Score > 0 { // else it was handed the lock
			scores[z.Member.(string)] = z.Score
		}
	}
	if len(scores) != len(queued) {
		return fmt.Sprintf("in the queue are %v, with deadlines %v", queued, scores)
	}
	for i, p := range r.model.Queue {
		if (p.Owner == 0) != (i >= len(queued)) || p.Owner != 0 && queued[i] != r.owner(p.Owner) {
			return fmt.Sprintf("in the queue are %v, the model's is %v", queued, r.model.Queue)
		}
		if p.Owner == 0 {
			break
		}
		left := time.UnixMilli(int64(scores[queued[i]])).Sub(now)
		if n := ticksLeft(max(left, -2)); n != p.Left {
			return fmt.Sprintf("the place of %s counts for %d ticks, the model's for %d", queued[i], n, p.Left)
		}
	}
	for _, key := range []string{r.queue, r.deadlines} {
		if left := r.rdb.PTTL(ctx, key).Val(); len(queued) > 0 && left < 45*time.Minute {
			return fmt.Sprintf("%s lives for %v", key, left)
		}
	}
	return ""
}
