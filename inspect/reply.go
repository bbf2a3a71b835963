package inspect

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// reply is what the script inspect replies, behind its status.
type reply struct {
	at                           time.Time
	kind                         string
	pttl, size                   int64
	content                      []any
	token                        string
	other                        bool
	said                         string
	queue, permits, line, writes []any
	heard                        [4]int64
	strange                      []any
}

// read makes an answer of a reply. It never trusts the shape of one: a proxy may have made it.
func read(name string, value any, err error, node *redis.Client, list int) answer {
	if err != nil {
		return answer{err: err}
	}
	r, ok := parse(value)
	if !ok {
		return answer{err: fmt.Errorf("the server replied %.100v, which is not what the script says", value)}
	}
	l := r.lock(name)
	l.Server = node.Options().Addr
	l.More = r.size > int64(list) && l.Type == "hash" || length(r.queue) > int64(list) || length(r.line) > int64(list) ||
		length(r.permits)-number(at(r.permits, 1)) > int64(list) || length(r.writes) > int64(list)
	l.Problems = r.problems(&l)
	traced := r.token != "" || slices.ContainsFunc(r.strange, func(key any) bool { return text(key) == keys.For(name).Token })
	return answer{lock: l, other: r.other, traced: traced}
}

func parse(value any) (r reply, ok bool) {
	v, ok := value.([]any)
	if !ok || len(v) != 15 || number(v[0]) != 1 {
		return reply{}, false
	}
	us, err := strconv.ParseInt(text(v[1]), 10, 64)
	r = reply{
		at: time.UnixMicro(us), kind: text(v[2]), pttl: number(v[3]), size: number(v[4]), content: items(v[5]), token: text(v[6]),
		other: number(v[7]) == 1, said: text(v[8]), queue: items(v[9]), permits: items(v[10]), line: items(v[11]),
		writes: items(v[12]), strange: items(v[14]),
	}
	for n := range r.heard {
		r.heard[n] = number(at(items(v[13]), n))
	}
	return r, err == nil && len(r.queue) > 1 && len(r.permits) > 1 && len(r.line) > 1 && len(r.writes) > 1
}

func text(v any) string  { s, _ := v.(string); return s }
func number(v any) int64 { n, _ := v.(int64); return n }
func items(v any) []any  { list, _ := v.([]any); return list }

func at(list []any, n int) any {
	if n < len(list) {
		return list[n]
	}
	return nil
}

// length is how long a list is at the server, of which the first ones follow.
func length(list []any) int64 { return number(at(list, 0)) }

// left is what is left of something, by the milliseconds that the server says.
func left(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(ms, -1), most)) * time.Millisecond
}

// The channels of a reply.
const (
	ofLock = iota
	ofReadWrite
	ofSemaphore
	ofLatch
)

// lock says what the name looks like.
func (r *reply) lock(name string) Lock {
	l := Lock{Name: name, Type: r.kind, At: r.at, Remaining: left(r.pttl), Waiters: -1, Listening: int(r.heard[ofLock])}
	if token, ok := r.lastToken(); ok {
		l.Token = token
	}
	switch r.kind {
	case "hash":
		r.hash(&l)
	case "string":
		r.number(&l)
	case "none":
		r.nothing(&l)
	default:
		l.Kind = Foreign
	}
	return l
}

// hash is a lock that has owners, or somebody else's.
func (r *reply) hash(l *Lock) {
	mode, others := "", false
	for n := 0; n+2 < len(r.content); n += 3 {
		field := text(r.content[n])
		if others = others || strange(field); field == "mode" {
			mode = text(r.content[n+1])
		}
	}
	switch {
	case others: // somebody's settings may have a mode
		l.Kind = Foreign
		return
	case mode == string(Read), mode == string(Write):
		l.Kind = ReadWrite
		r.readWrite(l, Mode(mode))
		return
	case r.size != 1 || !remote.IsOwner(text(at(r.content, 0))):
		l.Kind = Foreign
		return
	}
	raw := text(r.content[0])
	count, _ := strconv.Atoi(text(r.content[1]))
	h := holder(raw, count, l.Remaining)
	l.Holders = []Holder{h}
	l.Kind = Plain
	if length(r.queue) > 0 {
		l.Kind = Fair
		r.queued(l)
	}
	if leader, ok := r.leader(); ok {
		l.Kind, l.Leader = Election, leader
		if l.Waiters < 0 {
			l.Waiters = 0
		}
		if leader.Owner != h.Raw { // of the last one: this one has not said anything yet
			l.Leader = nil
		}
	}
}

// lastToken is the last one, if the token's key holds one.
func (r *reply) lastToken() (uint64, bool) {
	n, err := strconv.ParseUint(r.token, 10, 64)
	return n, err == nil && n <= 1<<53
}

func holder(raw string, count int, rest time.Duration) Holder {
	owner := remote.OwnerIn(raw)
	return Holder{Owner: owner, Raw: raw, Count: count, Remaining: rest, Redisson: remote.IsForeign(raw), Left: owner != raw}
}

// leader is what the leader said of itself.
func (r *reply) leader() (*Leader, bool) {
	parts := strings.SplitN(r.said, " ", 3)
	if len(parts) != 3 {
		return nil, false
	}
	token, err := strconv.ParseUint(parts[0], 10, 64)
	return &Leader{Owner: parts[1], Token: token, Value: parts[2]}, err == nil
}

// queued lists who waits in the queue of a fair lock.
func (r *reply) queued(l *Lock) {
	l.Waiters = int(number(at(r.queue, 1)))
	for n := 2; n+2 < len(r.queue); n += 3 {
		l.Queue = append(l.Queue, waiter(text(r.queue[n]), number(r.queue[n+1]), number(r.queue[n+2]), 1))
	}
}

func waiter(owner string, ms, listening int64, wants int) Waiter {
	return Waiter{Owner: owner, Remaining: left(ms), Listening: int(listening), Wants: wants, Redisson: remote.IsForeign(owner)}
}

const writes = ":write"

// readWrite lists who reads, or who writes. A writer that reads too is there once.
func (r *reply) readWrite(l *Lock, mode Mode) {
	l.Listening = int(r.heard[ofReadWrite])
	l.Waiters = int(number(at(r.writes, 1)))
	for n := 2; n+1 < len(r.writes); n += 2 {
		w := waiter(text(r.writes[n]), number(r.writes[n+1]), r.heard[ofReadWrite], 1)
		l.Queue = append(l.Queue, w)
	}
	var readers []Holder
	for n := 0; n+2 < len(r.content); n += 3 {
		field, value := text(r.content[n]), text(r.content[n+1])
		if field == "mode" {
			continue
		}
		count, _ := strconv.Atoi(value)
		owner, isWriter := strings.CutSuffix(field, writes)
		if !isWriter {
			h := holder(field, count, max(left(number(r.content[n+2])), 0))
			h.Mode = Read
			readers = append(readers, h)
			continue
		}
		if mode == Read {
			continue
		}
		h := holder(owner, max(count, 1), l.Remaining)
		h.Mode = Write
		if till, ok := strings.CutPrefix(value, "till"); ok { // it has left the lock, which stays taken for a while
			ms, _ := strconv.ParseInt(till, 10, 64)
			if h.Remaining = time.UnixMilli(ms).Sub(r.at); h.Remaining <= 0 {
				continue // readers are left, if any
			}
		}
		l.Holders = append(l.Holders, h)
	}
	if len(l.Holders) == 0 {
		l.Holders = readers
	}
}

// number is a semaphore, a latch, or somebody else's.
func (r *reply) number(l *Lock) {
	n, err := strconv.ParseInt(text(at(r.content, 0)), 10, 64)
	switch {
	case err != nil:
		l.Kind = Foreign
	case r.token != "" || length(r.permits) > 0 || length(r.line) > 0:
		l.Kind = Semaphore
		r.semaphore(l, n)
	default:
		l.Kind, l.Count, l.Listening = Latch, max(n, 0), int(r.heard[ofLatch])
	}
}

func (r *reply) semaphore(l *Lock, free int64) {
	out, ended := length(r.permits), number(at(r.permits, 1))
	l.Permits = &Permits{All: free + out, Free: free + ended, Out: out - ended, Ended: ended}
	l.Listening, l.Waiters = int(r.heard[ofSemaphore]), int(number(at(r.line, 1)))
	known := make(map[string]int)
	for n := 2; n+1 < len(r.permits); n += 2 {
		raw, _, _ := strings.Cut(text(r.permits[n]), "/")
		h := holder(raw, 1, left(number(r.permits[n+1])))
		if !remote.IsOwner(raw) { // Redisson's permits have names that are no text, and no owner
			raw = text(r.permits[n])
			h = Holder{Owner: hex.EncodeToString([]byte(raw)), Raw: raw, Count: 1, Remaining: h.Remaining, Redisson: true}
		}
		if first, ok := known[raw]; ok {
			l.Holders[first].Count++
			continue
		}
		known[raw] = len(l.Holders)
		l.Holders = append(l.Holders, h)
	}
	for n := 2; n+3 < len(r.line); n += 4 {
		wants, _ := strconv.Atoi(text(r.line[n+3]))
		l.Queue = append(l.Queue, waiter(text(r.line[n]), number(r.line[n+1]), number(r.line[n+2]), max(wants, 1)))
	}
}

// nothing is at the name itself. There may be something beside it.
func (r *reply) nothing(l *Lock) {
	switch {
	case length(r.permits) > 0 || length(r.line) > 0:
		l.Kind = Semaphore
		r.semaphore(l, 0)
		l.Permits.All, l.Permits.Free = 0, 0
	case length(r.queue) > 0:
		l.Kind = Fair
		r.queued(l)
	case length(r.writes) > 0:
		l.Kind = ReadWrite
		r.readWrite(l, Read)
	case r.token != "":
		l.Kind = Free
	default:
		l.Kind = Nothing
	}
}

// clientOf is the id of an owner's client.
func clientOf(owner string) string {
	if !remote.IsOwner(owner) {
		return ""
	}
	return owner[:strings.LastIndexByte(owner, ':')]
}
