package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// fair is what a row expects of a queue. An owner stands there with the moment when its place ends:
// "c:h1@9000" that many milliseconds after the row was prepared, "c:h1+15000" after the script ran.
// Both are exact.
type fair struct {
	queue string // the owners in order
	life  int64  // time to live of both keys as in "ttl:"; forever: none, as Redisson leaves them
	// whose channels are listened to; all: that of the lock; rw: that of a read-write lock;
	// observers: that of the election; latch: that of the latch; permits: that of the semaphore, and
	// permits:u the mailbox of a client there
	listen string
	broken bool // the two keys do not tell the same, and are not looked at
	// what was heard there, in the order of listen: "d:1/1000" the mailbox's client, number and
	// claim, "d:1/1000/h2/h3" the others of the run behind that; "r:7:0"
	told string
}

const (
	forever = -1
	// longLife is what rows give a queue that no script need put off.
	longLife = 8000000
)

// waiting are the commands that make a queue, as it looks after a script of the library.
func waiting(owners ...string) string { return "; " + queueOf(owners...) + lifeOf(longLife) }

func lifeOf(ms int) string { return fmt.Sprintf("; PEXPIRE QUEUE %d; PEXPIRE ENDS %d", ms, ms) }

// queueOf are the commands that make a queue as Redisson does, without a time to live.
func queueOf(owners ...string) string {
	var commands []string
	for _, o := range owners {
		owner, at, _ := strings.Cut(o, "@")
		commands = append(commands, "RPUSH QUEUE "+owner, "ZADD ENDS @"+at+" "+owner)
	}
	return strings.Join(commands, "; ")
}

// moment replaces "@5" by the time in milliseconds that is 5 after start, and does so behind "till".
func moment(word string, start int64) string {
	if word == "LAPSED" { // the same, of a semaphore's
		return text(500 - float64(start))
	}
	if word == "ENDED" { // the end of a claim, half a second before start
		return text(float64(start) - 500 - 9e15)
	}
	if said, ok := strings.CutPrefix(word, "said:"); ok {
		return strings.ReplaceAll(said, "/", " ")
	}
	till, after, ok := strings.Cut(word, "@")
	if !ok || till != "" && till != "till" {
		return word
	}
	ms, err := strconv.ParseFloat(after, 64)
	if err != nil {
		return word
	}
	return till + text(float64(start)+ms)
}

// text is a score without an exponent.
func text(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

// ears hear what is published to some owners or clients.
type ears struct {
	of   []string
	subs []*redis.PubSub
}

func (f fair) hear(ctx context.Context, rdb *redis.Client) (*ears, error) {
	e := &ears{of: strings.Fields(f.listen)}
	for _, of := range e.of {
		sub := rdb.Subscribe(ctx, channelOf(of))
		e.subs = append(e.subs, sub)
		if _, err := sub.Receive(ctx); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	return e, nil
}

func channelOf(of string) string {
	switch of {
	case "all":
		return scriptChannel
	case "rw":
		return scriptRwChannel
	case "latch":
		return scriptLatchChannel
	case "permits":
		return scriptSemChannel
	case "observers":
		return scriptElection
	}
	if client, ok := strings.CutPrefix(of, "permits:"); ok {
		return scriptSemChannel + ":" + client
	}
	return scriptChannel + ":" + of
}

func (e *ears) close() error {
	var errs []error
	for _, sub := range e.subs {
		errs = append(errs, sub.Close())
	}
	return errors.Join(errs...)
}

// checkTold compares what was heard. The fields of a grant that are no constants must be the token
// of the key and the server's time.
func (f fair) checkTold(ctx context.Context, rdb *redis.Client, e *ears, span clock) error {
	var told []string
	for i, of := range e.of {
		const last = "last"
		if err := rdb.Publish(ctx, channelOf(of), last).Err(); err != nil {
			return err
		}
		for {
			msg, err := e.subs[i].ReceiveMessage(ctx)
			if err != nil {
				return err
			}
			if msg.Payload == last {
				break
			}
			said := of + ":" + msg.Payload
			if strings.HasSuffix(msg.Payload, " - - -") { // it is told to ask
				said = of + ":" + strings.TrimSuffix(msg.Payload, " - -")
				said = strings.ReplaceAll(said, " ", "/")
			} else if fields := strings.Split(msg.Payload, " "); len(fields) >= 4 {
				first, _ := strconv.ParseInt(fields[1], 10, 64)
				token := rdb.Get(ctx, scriptToken).Val()
				run := len(fields) - 4
				if run == 1 && !strings.HasPrefix(fields[4], "h") {
					run = 0 // it is how many permits
				}
				last := strconv.FormatInt(first+int64(run), 10)
				if strings.HasPrefix(of, "permits:") && plus(last, "2") == token {
					last = token // a permit of two that were handed out
				}
				if last != token || !span.spans(fields[2]) {
					return fmt.Errorf("heard %q; the token is %s, the time %v", msg.Payload, token, span)
				}
				said = of + ":" + strings.Join(append([]string{fields[0]}, fields[3:]...), "/")
			}
			told = append(told, said)
		}
	}
	if got := strings.Join(told, " "); got != f.told {
		return fmt.Errorf("told: %q, want %q", got, f.told)
	}
	return nil
}

// checkQueue compares the order, every deadline and the time to live of the two keys.
func (r row) checkQueue(ctx context.Context, rdb *redis.Client, after dataset, span clock) error {
	if r.broken {
		return nil
	}
	got, err := rdb.ZRangeWithScores(ctx, scriptEnds, 0, -1).Result()
	if err != nil {
		return err
	}
	list, err := rdb.LRange(ctx, scriptQueue, 0, -1).Result()
	if err != nil {
		return err
	}
	got, handed := slices.DeleteFunc(got, func(z redis.Z) bool { return z.Score < 0 }), len(got)
	if handed -= len(got); handed > 0 && len(list) == 0 {
		if d := after[scriptEnds]; d.ttl > 0 {
			delete(after, scriptEnds) // it has an end, and nobody waits
		}
	}
	want := strings.Fields(r.queue)
	if len(got) != len(want) || len(list) != len(want) {
		return fmt.Errorf("queue %v, deadlines %v, want %q", list, got, r.queue)
	}
	for i, w := range want {
		owner, from, to := deadline(w, span)
		at := slices.IndexFunc(got, func(z redis.Z) bool { return z.Member == owner })
		if list[i] != owner || at < 0 {
			return fmt.Errorf("queue %v, deadlines %v, want %q", list, got, r.queue)
		}
		if score := got[at].Score; score < from || score > to || math.Mod(score, 1) != math.Mod(from, 1) {
			return fmt.Errorf("the place of %s ends at %s, want %s to %s", owner, text(score), text(from), text(to))
		}
	}
	for _, key := range []string{scriptQueue, scriptEnds} {
		d, exists := after[key]
		if exists && r.life == forever && d.ttl < 0 {
			delete(after, key) // withTTL need not mind
			continue
		}
		if exists && !near(r.life, d.ttl.Milliseconds()) {
			return fmt.Errorf("%s: time to live %v, want %d ms", key, d.ttl, r.life)
		}
	}
	return nil
}

// deadline takes a word of fair.queue apart: the owner, and between what its score must be.
func deadline(word string, span clock) (owner string, from, to float64) {
	owner, after, exact := strings.Cut(word, "@")
	if exact {
		ms, _ := strconv.ParseFloat(after, 64)
		return owner, float64(span.start) + ms, float64(span.start) + ms
	}
	owner, after, _ = strings.Cut(word, "+")
	ms, _ := strconv.ParseFloat(after, 64)
	return owner, float64(span.from/1000) + ms, float64(span.to/1000) + ms
}
