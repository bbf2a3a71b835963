package integration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

type sender func(ctx context.Context, rdb lua.Processor, c lua.Call) (lua.Reply, error)

// clock is the server's time: when the row was prepared in ms, before the call and when its keys were looked at in us.
type clock struct{ start, from, to int64 }

// check runs the row on an empty server and tells what differs, again if it took so long that places may have ended.
func (r row) check(ctx context.Context, rdb *redis.Client, script *lua.Script, send sender) error {
	for {
		span, err := r.once(ctx, rdb, script, send)
		if span.passed() < 500 {
			return err
		}
	}
}

func (r row) once(ctx context.Context, rdb *redis.Client, script *lua.Script, send sender) (span clock, err error) {
	before, listen := cutWord(r.given, "LISTEN")
	was := keyspaceOf(before, nil)
	if span.start, span.from, err = was.put(ctx, rdb); err != nil {
		return span, err
	}
	ears, err := hear(ctx, rdb, strings.Fields(listen))
	if err != nil {
		return span, err
	}
	defer func() { err = errors.Join(err, ears.close()) }()
	reply, sent := send(ctx, rdb, r.call(script))
	now, at, err := lookAt(ctx, rdb)
	span.to = at
	if err := errors.Join(err, r.checkReply(reply, sent, span)); err != nil {
		return span, err
	}
	after, want := cutWord(r.after, "TOLD")
	told, err := ears.told(ctx, rdb, span)
	if err == nil && told != want {
		err = fmt.Errorf("told: %q, want %q", told, want)
	}
	return span, errors.Join(err, keyspaceOf(after, was).check(now, span, textAt(reply, 1)))
}

// cutWord takes the listeners, or what they were told, out of a state.
func cutWord(text, word string) (rest, of string) {
	rest, of, _ = strings.Cut(text, word+"(")
	return rest, strings.TrimSuffix(of, ")")
}

// check compares all keys. last is the last token of the reply.
func (s keyspace) check(now keyspace, span clock, last string) error {
	if want, got := slices.Sorted(maps.Keys(s)), slices.Sorted(maps.Keys(now)); !slices.Equal(want, got) {
		return fmt.Errorf("the keys are %q, want %q", got, want)
	}
	for key, want := range s {
		got := now[key]
		if want.kind != got.kind || len(want.of) != len(got.of) || !want.matches(key, got, span, last) {
			return fmt.Errorf("%s: %s %q, want %s %q", key, got.kind, got.of, want.kind, want.of)
		}
		if !span.near(want.ttl, got.ttl) {
			return fmt.Errorf("%s: time to live %d, want %d ms", key, got.ttl, want.ttl)
		}
	}
	return nil
}

// near reports whether a time to live is what was set, less what has passed since.
func (c clock) near(want, got int64) bool {
	if want < 0 {
		return got == want
	}
	return want-c.passed() <= got && got <= want
}

// passed is for how many ms the row has lasted, rounded up.
func (c clock) passed() int64 { return c.to/1000 + 1 - c.start }

func (v value) matches(key string, got value, span clock, last string) bool {
	switch v.kind {
	case "string":
		return span.matches(v.of[0], got.of[0], last)
	case "zset":
		for i := 0; i < len(v.of); i += 2 {
			j := i
			if key == scriptEnds { // in the order of the queue
				for j = 0; j < len(got.of) && got.of[j] != v.of[i]; j += 2 {
				}
			}
			if j >= len(got.of) || got.of[j] != v.of[i] || !span.matchesScore(key, v.of[i+1], got.of[j+1]) {
				return false
			}
		}
		return true
	case "hash":
		for i := 0; i < len(v.of); i += 2 {
			j := slices.Index(got.of, v.of[i])
			for j%2 == 1 { // a value that looks like the field
				j += 1 + slices.Index(got.of[j+1:], v.of[i])
			}
			if j < 0 || !span.matches(v.of[i+1], got.of[j+1], last) {
				return false
			}
		}
		return true
	}
	return slices.Equal(v.of, got.of)
}

// matches compares a text.
func (c clock) matches(want, got, last string) bool {
	n, err := strconv.ParseInt(strings.TrimPrefix(got, "till"), 10, 64)
	switch {
	case want == "clock":
		return err == nil && c.from <= n && n <= c.to
	case want == "run":
		return err == nil && c.from < n && n <= c.to+2
	case want == "last":
		return got == last
	case strings.HasPrefix(want, "till~"):
		return err == nil && c.near(int64(millis(want[len("till~"):])), n-c.to/1000)
	case strings.HasPrefix(want, "till"):
		return err == nil && c.matchesScore("", want[len("till"):], got[len("till"):])
	}
	return got == want
}

// matchesScore compares a number of a sorted set. A moment after the call is one while it ran, and so much; what
// is behind the point, by which places are told apart, is as it is.
func (c clock) matchesScore(key, want, got string) bool {
	is, err := strconv.ParseFloat(got, 64)
	if err != nil {
		return false
	}
	if want == "clock" || want == "run" {
		return c.matches(want, got, "")
	}
	from, to := float64(c.start), float64(c.start)
	if strings.HasPrefix(strings.TrimPrefix(want, "!"), "+") {
		from, to = float64(c.from/1000), float64(c.to/1000)
	}
	low, _ := strconv.ParseFloat(score(key, want, from), 64)
	high, _ := strconv.ParseFloat(score(key, want, to), 64)
	return min(low, high) <= is && is <= max(low, high) && math.Mod(is, 1) == math.Mod(low, 1)
}

// checkReply compares the status and the values behind it.
func (r row) checkReply(reply lua.Reply, err error, span clock) error {
	if text, isError := strings.CutPrefix(r.reply, "!"); isError {
		kind, text, _ := strings.Cut(text, " ")
		if !lua.IsError(err, kind) || !strings.Contains(err.Error(), text) {
			return fmt.Errorf("reply %v, error %w; want the error %s %s", reply, err, kind, text)
		}
		return nil
	}
	if err != nil {
		return err
	}
	status, rest, _ := strings.Cut(r.reply, " ")
	if got := strconv.Itoa(int(reply.Status)); got != status {
		return fmt.Errorf("status %s, want %s", got, status)
	}
	if r.script == lua.Fence {
		if got := said(reply.Value(0)); got != rest || reply.Value(1) != nil {
			return fmt.Errorf("the command replied %s, want %s", got, rest)
		}
		return nil
	}
	for i, want := range append(strings.Fields(rest), "''") { // one more, to see that there is none
		got := textAt(reply, i)
		if n, _ := reply.Value(i).(int64); n != 0 {
			got = strconv.FormatInt(n, 10)
		}
		if !span.matchesReply(want, got, reply, i) {
			return fmt.Errorf("value %d of the reply is %q, want %q", i, got, want)
		}
	}
	return nil
}

// textAt is the i-th value behind the status, or "" if that is not a string.
func textAt(reply lua.Reply, i int) string {
	text, _ := reply.Value(i).(string)
	return text
}

// matchesReply: clock is the server's time in us, before the microsecond before, error any text, ttl:10s at most so much, less
// what has passed, ” an empty text or a 0, and last:16 the last of so many tokens of which the value before is the first.
func (c clock) matchesReply(want, got string, reply lua.Reply, i int) bool {
	n, _ := strconv.ParseInt(got, 10, 64)
	kind, of, _ := strings.Cut(want, ":")
	switch kind {
	case "ttl":
		return c.near(int64(millis(of)), n)
	case "last":
		return got == plus(textAt(reply, i-1), of)
	case "before":
		return c.from <= n+1 && n+1 <= c.to
	case "error":
		return got != ""
	case "''":
		return got == ""
	}
	return c.matches(want, got, "")
}

// plus is the last of so many tokens.
func plus(first, tokens string) string {
	n, _ := strconv.ParseInt(first, 10, 64)
	more, _ := strconv.ParseInt(tokens, 10, 64)
	return strconv.FormatInt(n+more-1, 10)
}

// said writes what a command replied.
func said(reply any) string {
	switch v := reply.(type) {
	case string:
		return strconv.Quote(v)
	case []any:
		var words []string
		for _, one := range v {
			words = append(words, said(one))
		}
		return "[" + strings.Join(words, " ") + "]"
	}
	return fmt.Sprint(reply)
}

// ears hear what is published to some owners or clients, in the words of [channelOf].
type ears struct {
	of   []string
	subs []*redis.PubSub
}

func hear(ctx context.Context, rdb *redis.Client, of []string) (*ears, error) {
	e := &ears{of: of}
	for _, one := range of {
		subscribe := rdb.Subscribe
		if strings.HasPrefix(one, "shard:") {
			subscribe = rdb.SSubscribe
		}
		sub := subscribe(ctx, channelOf(one))
		e.subs = append(e.subs, sub)
		if _, err := sub.Receive(ctx); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	return e, nil
}

// channelOf is what a word of LISTEN stands for: a client's mailbox, or all, the channel of the lock; permits:u is a
// mailbox at the semaphore. By shard:all one listens to the sharded channel.
func channelOf(of string) string {
	of = strings.TrimPrefix(of, "shard:")
	for word, key := range map[string]string{
		"all": "CHANNEL", "rw": "RWCHANNEL", "latch": "LATCHCHANNEL", "permits": "SEMCHANNEL", "observers": "ELECTION",
	} {
		if of == word {
			return keyOf(key)
		}
	}
	if client, ok := strings.CutPrefix(of, "permits:"); ok {
		return keyOf("SEMCHANNEL") + ":" + client
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

// told is what was heard, in the order of the listeners: "d:h1/1000" the client, the number and the claim of a
// grant, "d:h1/1000/h2/h3" with the others of its run, "r:7:0" a message as it is.
func (e *ears) told(ctx context.Context, rdb *redis.Client, span clock) (string, error) {
	const end = "end"
	var told []string
	for i, of := range e.of {
		publish := rdb.Publish
		if strings.HasPrefix(of, "shard:") {
			publish = rdb.SPublish
		}
		if err := publish(ctx, channelOf(of), end).Err(); err != nil {
			return "", err
		}
		for {
			msg, err := e.subs[i].ReceiveMessage(ctx)
			if err != nil {
				return "", err
			}
			if msg.Payload == end {
				break
			}
			word, err := grantIn(ctx, rdb, of, msg.Payload, span)
			if err != nil {
				return "", err
			}
			told = append(told, of+":"+word)
		}
	}
	return strings.Join(told, " "), nil
}

// grantIn is a message without a grant's variable fields: these must be the key's token and the server's time.
func grantIn(ctx context.Context, rdb *redis.Client, of, message string, span clock) (string, error) {
	if asks, ok := strings.CutSuffix(message, " - - -"); ok { // it is told to ask
		return asks + "/-", nil
	}
	fields := strings.Fields(message)
	if len(fields) < 4 {
		return message, nil
	}
	run := len(fields) - 4
	if run == 1 && !strings.HasPrefix(fields[4], "h") {
		run = 0 // it is how many permits
	}
	last, token := plus(fields[1], strconv.Itoa(run+1)), rdb.Get(ctx, scriptToken).Val()
	if strings.HasPrefix(of, "permits:") && plus(last, "2") == token {
		last = token // a permit of two that were handed out
	}
	if last != token || !span.matches("clock", fields[2], "") {
		return "", fmt.Errorf("heard %q; the token is %s, the time %v", message, token, span)
	}
	return strings.Join(append(fields[:1], fields[3:]...), "/"), nil
}
