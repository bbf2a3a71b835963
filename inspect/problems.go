package inspect

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// problems are what looks wrong of a name.
func (r *reply) problems(l *Lock) (list []Problem) {
	add := func(t Trouble, format string, args ...any) {
		list = append(list, Problem{t, fmt.Sprintf(format, args...)})
	}
	r.keyProblems(l, add)
	r.tokenProblems(l, add)
	switch {
	case l.Kind == ReadWrite && r.kind == "hash" && len(l.Holders) == 0 && r.size == 1:
		add(NoOwner, "nobody reads or writes, and the key is there: delete it, DEL %s", printable.Key(l.Name))
	case l.Kind == Semaphore && r.kind == "none":
		add(NoOwner, "permits are out or waited for, and their number is gone (evicted, or deleted): set it again, with SetPermits")
	}
	return list
}

// deadQueue adds the problem of a queue in which nobody is alive. It is known last: in a cluster other
// nodes may know who listens. A client that listens is alive, also where a place has ended: its caller has just left.
func (l *Lock) deadQueue() {
	alive := func(w Waiter) bool { return w.Alive() || w.Listening > 0 }
	if len(l.Queue) > 0 && !slices.ContainsFunc(l.Queue, alive) && (!l.More || l.Waiters == 0) {
		l.Problems = append(l.Problems, Problem{DeadQueue, fmt.Sprintf("%d wait, and none of them is alive: their places end by themselves, "+
			"within a minute of the last command of their clients; Redisson's within 5 minutes each", len(l.Queue))})
	}
}

func (r *reply) keyProblems(l *Lock, add func(Trouble, string, ...any)) {
	if l.Kind == Foreign {
		what := "a " + r.kind
		if r.kind == "hash" {
			what = fmt.Sprintf("a hash of %d fields that are not lock owners", r.size)
			if field := text(at(r.content, 0)); r.size == 1 {
				what = fmt.Sprintf("a hash whose field %s is not a lock owner", printable.Quote(field))
			}
		} else if r.kind == "string" {
			what = "a string that is not a number"
		}
		add(NotALock, "the key is %s, so it is not a lock of this library or of Redisson: choose another name for the lock; delete the key only if no other library locks by it", what)
		return
	}
	if r.kind == "hash" && r.pttl == -1 {
		add(NoEnd, "the lock has no time to live, which neither this library nor Redisson leaves behind (PERSIST, a restored dump, another "+
			"program): if its holder is dead, free it with unlock --force")
	}
	if r.other && r.kind != "none" {
		add(TwoSpellings, "%s is a key, too, and the two share token, queue and channel: use one spelling", printable.Key(keys.Twin(l.Name)))
	}
	for _, key := range r.strange {
		if l.Kind != Semaphore && text(key) == keys.ForPermits(l.Name).Ends {
			continue // somebody's key that happens to end in ":timeout"
		}
		add(WrongType, "the key %s is of a type that it cannot have: delete it, or choose another name for the lock", printable.Key(text(key)))
	}
}

func (r *reply) tokenProblems(l *Lock, add func(Trouble, string, ...any)) {
	_, ok := r.lastToken()
	if token := keys.For(l.Name).Token; r.token != "" && !ok {
		add(BadToken, "the key %s does not hold a token: delete it, and the next grant makes it anew from the server's time", printable.Key(token))
		return
	}
	ours := slices.ContainsFunc(l.Holders, func(h Holder) bool { return !h.Redisson && h.Mode != Read })
	if r.token == "" && ours && !slices.Contains([]Kind{Semaphore, Latch}, l.Kind) {
		add(NoToken, "the token is gone (evicted, or deleted): fencing works again from the next grant on, as the server's clock leads tokens; "+
			"see maxmemory-policy, which must be noeviction")
	}
}
