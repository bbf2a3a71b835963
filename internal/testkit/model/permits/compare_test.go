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

	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
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
		(got.Int(4) == 1) != want.heard || got.Int(5) != 0 {
		r.differ("poll replied %v, the model %v, %v, %q and %v", got, given, missing, called, want.heard)
	}
}

// compareMail compares "<number of the owner> <token> <time of the grant, us> <claim, ms>", with how
// many behind that if they are several, or dashes where there are not so many.
func (r *replay) compareMail(want line.Mail, got *redis.Message) {
	client, number, _ := strings.Cut(r.owner(want.Owner), ":")
	fields := strings.Fields(got.Payload)
	if n := r.terms.wants(want.Owner); n > 1 && want.Token != 0 && len(fields) == 5 && fields[4] == strconv.Itoa(int(n)) {
		fields = fields[:4]
	}
	if got.Channel != r.channel+":"+client || len(fields) != 4 || fields[0] != number || (want.Token == 0) != (fields[1] == "-") {
		r.differ("%s was told %q, the model told %+v", got.Channel, got.Payload, want)
		return
	}
	if want.Token == 0 {
		return
	}
	r.compareToken(want.Token, fields[1])
	_, err := strconv.ParseInt(fields[2], 10, 64)
	require.NoError(r.t, err)
	claim, err := strconv.ParseInt(fields[3], 10, 64)
	require.NoError(r.t, err)
	r.compareLeft("the message", want.Left+1, claim)
}

// seen is what the server has, read at once.
type seen struct {
	free, token             *redis.StringCmd
	permits, queue, places  *redis.ZSliceCmd
	wants                   *redis.MapStringStringCmd
	ends                    []*redis.DurationCmd // of the keys
	tokenEnds               *redis.DurationCmd
	counted                 bool
	freeNumber, tokenNumber int64
}

func (r *replay) look() seen {
	ctx, pipe := r.t.Context(), r.rdb.Pipeline()
	s := seen{
		free: pipe.Get(ctx, r.name), token: pipe.Get(ctx, r.token), tokenEnds: pipe.PTTL(ctx, r.token),
		permits: pipe.ZRangeWithScores(ctx, r.permits, 0, -1), queue: pipe.ZRangeWithScores(ctx, r.queue, 0, -1),
		places: pipe.ZRangeWithScores(ctx, r.places, 0, -1), wants: pipe.HGetAll(ctx, r.wants),
	}
	for _, key := range r.keys() {
		s.ends = append(s.ends, pipe.PTTL(ctx, key))
	}
	if _, err := pipe.Exec(ctx); !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
	}
	number := func(c *redis.StringCmd) (n int64, known bool) {
		n, err := c.Int64()
		if errors.Is(err, redis.Nil) {
			return 0, false
		}
		require.NoError(r.t, err)
		return n, true
	}
	s.freeNumber, s.counted = number(s.free)
	s.tokenNumber, _ = number(s.token)
	return s
}

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	s := r.look()
	if r.model.Token != 0 && s.tokenNumber != 0 { // a hand-over that nobody hears of is seen here first
		r.same(r.model.Token, s.tokenNumber)
	}
	switch tokenTTL := ticksLeft(s.tokenEnds.Val()); {
	case r.wrong != "":
		return r.wrong
	case s.counted != r.model.counted || s.counted && s.freeNumber != int64(r.model.free):
		return fmt.Sprintf("%d are free (%v), the model's %d (%v)", s.freeNumber, s.counted, r.model.free, r.model.counted)
	case tokenTTL != r.model.TokenTTL:
		return fmt.Sprintf("the token's key lives for %d ticks, the model's for %d", tokenTTL, r.model.TokenTTL)
	case (r.model.Token == 0) != (s.tokenNumber == 0):
		return fmt.Sprintf("the token is %d, the model's %d", s.tokenNumber, r.model.Token)
	}
	if how := r.permitsDiffer(&s); how != "" {
		return how
	}
	if how := r.queueDiffers(&s); how != "" {
		return how
	}
	for i, key := range r.keys() { // every key has an end; how far it is, the model does not say
		if s.ends[i].Val() == -1 {
			return key + " has no time to live"
		}
	}
	return ""
}

// left is for how many ticks something lasts until a moment of the server's.
func (r *replay) left(until float64) string {
	return strconv.Itoa(int(ticksLeft(max(time.Duration(int64(until)-r.now)*time.Millisecond, -2))))
}

// permitsDiffer compares who has what, until when.
func (r *replay) permitsDiffer(s *seen) string {
	have, want := map[string]string{}, map[string]string{}
	for _, z := range s.permits.Val() {
		have[z.Member.(string)] = r.left(z.Score)
	}
	for _, p := range r.model.out {
		for i := range p.n {
			permit := r.owner(p.owner)
			if p.torn {
				i++
			}
			if i > 0 {
				permit += "/" + strconv.Itoa(int(i)+1)
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
func (r *replay) queueDiffers(s *seen) string {
	have, want := map[string]string{}, map[string]string{}
	for _, z := range s.places.Val() {
		owner := z.Member.(string)
		switch {
		case z.Score > 0:
			have[owner] = r.left(z.Score)
		case strings.Contains(owner, ":"): // else it is a client of which a claim has ended
			have[owner] = "handed"
		}
	}
	for owner, n := range s.wants.Val() {
		have[owner+" wants"] = n
	}
	for _, p := range r.model.out {
		if p.handed {
			want[r.owner(p.owner)] = "handed"
		}
	}
	queued := s.queue.Val()
	for i, p := range r.model.Queue {
		if (p.Owner == 0) != (i >= len(queued)) || p.Owner != 0 && queued[i].Member != r.owner(p.Owner) {
			return fmt.Sprintf("in the queue are %v, the model's is %v", queued, r.model.Queue)
		}
		if p.Owner == 0 {
			break
		}
		owner := r.owner(p.Owner)
		want[owner] = strconv.Itoa(int(p.Left))
		if n := r.terms.wants(p.Owner); n > 1 {
			want[owner+" wants"] = strconv.Itoa(int(n))
		}
	}
	if !maps.Equal(have, want) {
		return fmt.Sprintf("the places are %v, the model's %v", have, want)
	}
	return ""
}
