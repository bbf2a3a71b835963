package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The lock's keys in the tables of scripts, spelled out: the spelling is a promise to Redisson and to other versions.
const (
	scriptLock    = "orders:42"
	scriptToken   = "redisson_lock_token:{orders:42}"
	scriptChannel = "redisson_lock__channel:{orders:42}"
	scriptQueue   = "redisson_lock_queue:{orders:42}"
	scriptEnds    = "redisson_lock_timeout:{orders:42}"
)

// scriptKeys are the rows' words for keys. READS:u:h7 is a reader's lease, READS:r:1#2 that of a second hold of Redisson's.
var scriptKeys = map[string]string{
	"LOCK": scriptLock, "TOKEN": scriptToken, "CHANNEL": scriptChannel, "ORDER": scriptQueue, "ENDS": scriptEnds,
	"RWCHANNEL": "redisson_rwlock:{orders:42}", "WRITERS": "holdfast_rwlock_writers:{orders:42}",
	"PERMITS": "{orders:42}:timeout", "LINE": "holdfast_semaphore_queue:{orders:42}",
	"PLACES": "holdfast_semaphore_places:{orders:42}", "WANTS": "holdfast_semaphore_wants:{orders:42}",
	"SEMCHANNEL": "redisson_sc:{orders:42}",
	"SAID":       "holdfast_election:{orders:42}", "ELECTION": "holdfast_election__channel:{orders:42}",
	"CALL": "holdfast_latch:{orders:42}:a:h1", "COUNTS": "holdfast_latch:{orders:42}", "LATCHCHANNEL": "redisson_countdownlatch__channel__{orders:42}",
	"TAGGED": "{orders:42}", "KEY": "stock:7", "LAST": "holdfast_fence:{stock:7}",
}

// keyOf is the key for which a word stands.
func keyOf(word string) string {
	if owner, ok := strings.CutPrefix(word, "READS:"); ok {
		owner, n, several := strings.Cut(owner, "#")
		if !several {
			n = "1"
		}
		return "{orders:42}:" + owner + ":rwlock_timeout:" + n
	}
	key, ok := scriptKeys[word]
	if !ok {
		panic("no key is called " + word)
	}
	return key
}

// keyspace is keys and what they hold, as rows write it:
//
//	TOKEN=5000/20s             a string that has 20 s to live; without the slash it stays for ever
//	SAID="5000 c:h1 v"/50s     one with spaces, written as in Go
//	LOCK{a=1 b=2}/10s          a hash
//	ORDER[d:h1 e:h1]/20s       a list
//	LINE(u:h8=8)/60s           a sorted set with a score
//	PERMITS(u:h7@60s v:h9+30s) with moments: 60 s after the row was prepared, 30 s after the call
//	ENDS(d:h1!@-500)           with the end of a claim, half a second before the row was prepared
//	WAITING(d:h1@60s)/8000s    ORDER and ENDS, in the order of the former; claims are in the latter only
//	KEY<1-1 a x, 2-1 c z>      a stream
//
// Times are ms, or as 20s, 1h, 30d. What a row expects may have for a number: clock, the time of the call in us; run, the last
// token of a run that began then; last, the last token of the reply; and till~60s in a hash, the end of what was left of 60 s.
type keyspace map[string]value

// value is what one key holds: words as they are in the row, or as the server has them.
type value struct {
	kind string   // as the server calls it
	of   []string // of hashes and sorted sets, pairs: field or member, and the rest
	ttl  int64    // ms; -1: it stays for ever
	at   int64    // of what a server has: when that was, us
}

// brackets are what surrounds the content of a key, by the kind.
var brackets = map[byte]string{'=': "string", '{': "hash", '[': "list", '(': "zset", '<': "stream"}

// split cuts text at spaces that are outside of quotes and brackets.
func split(text string) (words []string) {
	word, depth, quoted := "", 0, false
	for i, c := range text + " " {
		switch {
		case c == '"' && !strings.HasSuffix(word, `\`):
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("{[(<", c):
			depth++
		case strings.ContainsRune("}])>", c):
			depth--
		}
		if c == ' ' && depth == 0 && !quoted || i == len(text) {
			if word != "" {
				words = append(words, word)
			}
			word = ""
			continue
		}
		word += string(c)
	}
	return words
}

// keyspaceOf reads a state. base is what "same" stands for; "-LOCK" leaves a key of that out.
func keyspaceOf(text string, base keyspace) keyspace {
	s := keyspace{}
	for _, word := range split(text) {
		if name, ok := strings.CutPrefix(word, "-"); ok {
			for _, name := range parts(name) {
				delete(s, keyOf(name))
			}
		} else if word == "same" {
			for key, v := range base {
				if v.ttl != 0 {
					s[key] = v
				}
			}
		} else if more, ok := scenes[word]; ok {
			for key, v := range keyspaceOf(more, nil) {
				s[key] = v
			}
		} else {
			s.add(word)
		}
	}
	return s
}

// parts are the keys of a word that stands for two.
func parts(name string) []string {
	if name == "WAITING" {
		return []string{"ORDER", "ENDS"}
	}
	return []string{name}
}

// add reads one key.
func (s keyspace) add(word string) {
	i := strings.IndexAny(word, "={[(<")
	end := max(strings.LastIndexAny(word, `"}])>`), i)
	content, life, mortal := word[i+1:], "", false
	if j := strings.LastIndex(word, "/"); j > end {
		content, life, mortal = word[i+1:j], word[j+1:], true
	}
	v := value{kind: brackets[word[i]], ttl: -1}
	if mortal {
		v.ttl = int64(millis(life))
	}
	switch v.kind {
	case "string":
		v.of = []string{unquoted(content)}
	case "stream":
		v.of = strings.Split(strings.TrimSuffix(content, ">"), ", ")
	case "list":
		v.of = split(content[:len(content)-1])
	default:
		for _, pair := range split(content[:len(content)-1]) {
			name, rest := cutPair(pair, v.kind)
			v.of = append(v.of, unquoted(name), unquoted(rest))
		}
	}
	name := word[:i]
	if name != "WAITING" {
		s[keyOf(name)] = v
		return
	}
	s[scriptEnds] = v
	order := value{kind: "list", ttl: v.ttl}
	for i := 0; i < len(v.of); i += 2 {
		if v.of[i+1][0] != '!' {
			order.of = append(order.of, v.of[i])
		}
	}
	if len(order.of) > 0 {
		s[scriptQueue] = order
	}
}

// cutPair parts a field from its value, or a member from its score.
func cutPair(pair, kind string) (name, rest string) {
	signs := "="
	if kind == "zset" {
		signs = "=@+!"
	}
	from := 0
	if pair[0] == '"' {
		from = strings.Index(pair[1:], `"`) + 2
	}
	i := from + strings.IndexAny(pair[from:], signs)
	if pair[i] == '=' {
		return pair[:i], pair[i+1:]
	}
	return pair[:i], pair[i:]
}

func unquoted(word string) string {
	if text, err := strconv.Unquote(word); err == nil && word[0] == '"' {
		return text
	}
	return word
}

// millis reads a time in ms.
func millis(text string) float64 {
	units := map[string]time.Duration{"s": time.Second, "h": time.Hour, "d": 24 * time.Hour}
	unit := time.Millisecond
	if u, ok := units[text[len(text)-1:]]; ok {
		unit, text = u, text[:len(text)-1]
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return n * float64(unit/time.Millisecond)
}

// commands make the state on an empty server.
func (s keyspace) commands(start int64) (all [][]any) {
	for key, v := range s {
		var args []any
		for i, word := range v.of {
			switch {
			case v.kind == "zset" && i%2 == 1:
				args = slices.Insert(args, len(args)-1, any(score(key, word, float64(start))))
			case v.kind == "hash" && strings.HasPrefix(word, "till@"):
				args = append(args, "till"+score(key, word[len("till"):], float64(start)))
			case v.kind == "stream":
				all = append(all, append([]any{"XADD", key}, anys(strings.Fields(word))...))
			default:
				args = append(args, word)
			}
		}
		if v.kind != "stream" {
			verb := map[string]string{"string": "SET", "hash": "HSET", "list": "RPUSH", "zset": "ZADD"}[v.kind]
			all = append(all, append([]any{verb, key}, args...))
		}
		if v.ttl >= 0 {
			all = append(all, []any{"PEXPIRE", key, v.ttl})
		}
	}
	return all
}

func anys(words []string) (all []any) {
	for _, w := range words {
		all = append(all, w)
	}
	return all
}

// score is a word of a sorted set as the server has it, counted from a moment. The sign tells ends of claims from places.
func score(key, word string, from float64) string {
	claim, isClaim := strings.CutPrefix(word, "!")
	if claim[0] != '@' && claim[0] != '+' {
		return word
	}
	at := from + millis(claim[1:])
	switch {
	case isClaim && key == scriptEnds:
		at -= 9e15
	case isClaim:
		at = -at
	}
	return strconv.FormatFloat(at, 'f', -1, 64)
}

// prepare empties the server and makes the state that is written there.
func prepare(ctx context.Context, rdb *redis.Client, text string) error {
	text, _ = cutWord(text, "LISTEN")
	_, _, err := keyspaceOf(text, nil).put(ctx, rdb)
	return err
}

// put returns the moment from which the state counts, in ms, and when it stood there, in us.
func (s keyspace) put(ctx context.Context, rdb *redis.Client) (start, stood int64, err error) {
	start = rdb.Time(ctx).Val().UnixMilli()
	pipe := rdb.Pipeline()
	pipe.FlushAll(ctx)
	for _, command := range s.commands(start) {
		pipe.Do(ctx, command...)
	}
	last := pipe.Time(ctx)
	_, err = pipe.Exec(ctx)
	return start, last.Val().UnixMicro(), err
}

// looks is a script, so that it is one moment of the server.
const looks = `
local read = {string = {'GET'}, hash = {'HGETALL'}, list = {'LRANGE', 0, -1}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'},
	stream = {'XRANGE', '-', '+'}}
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
	local kind = redis.call('TYPE', key).ok
	local how = read[kind]
	local has = redis.call(how[1], key, unpack(how, 2))
	all[#all + 1] = {key, kind, redis.call('PTTL', key), type(has) == 'table' and has or {has}}
end
local time = redis.call('TIME') -- last, for old servers go on with the time in a script
return {time[1] * 1000000 + time[2], all}`

// look is everything that a server has.
func look(ctx context.Context, rdb *redis.Client) (keyspace, error) {
	s, _, err := lookAt(ctx, rdb)
	return s, err
}

// lookAt also tells when that was, in us.
func lookAt(ctx context.Context, rdb *redis.Client) (s keyspace, at int64, err error) {
	reply, err := rdb.Eval(ctx, looks, nil).Slice()
	if err != nil {
		return nil, 0, err
	}
	s, at = keyspace{}, reply[0].(int64)
	flat := strings.NewReplacer()
	for _, one := range reply[1].([]any) {
		key := one.([]any)
		if key[1] == "stream" {
			flat = strings.NewReplacer("[", "", "]", "")
		}
		v := value{kind: key[1].(string), ttl: key[2].(int64), at: at}
		for _, word := range key[3].([]any) {
			v.of = append(v.of, flat.Replace(fmt.Sprint(word)))
		}
		s[key[0].(string)] = v
	}
	return s, at, nil
}

// unchanged tells what is not as it was, but for the time that has passed. A server that is not running for a moment, in
// the middle of a look, reads the one later than the other.
func (s keyspace) unchanged(now keyspace) error {
	for key, is := range now {
		if _, ok := s[key]; !ok {
			return fmt.Errorf("%s is new: %q", key, is.of)
		}
	}
	for key, was := range s {
		is := now[key]
		if was.kind != is.kind || !slices.Equal(was.of, is.of) {
			return fmt.Errorf("%s has changed: %q, now %q", key, was.of, is.of)
		}
		if is.ttl > was.ttl || is.ttl < was.ttl-(is.at-was.at)/1000-500 {
			return fmt.Errorf("the time to live of %s was %d, is %d", key, was.ttl, is.ttl)
		}
	}
	return nil
}

// withTTL tells which key would stay for ever.
func (s keyspace) withTTL() error {
	for key, is := range s {
		if is.ttl < 0 { // 0 is less than a millisecond
			return errors.New(key + " has no time to live")
		}
	}
	return nil
}
