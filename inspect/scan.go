package inspect

import (
	"context"
	"errors"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// Query selects locks. The zero value selects all locks that somebody holds or waits for, and those
// that look wrong.
type Query struct {
	// Match is a pattern for the names, as in KEYS of Redis: * for anything, ? for one byte, [ab] for one
	// of several, \ before a byte that stands for itself. Empty: all.
	Match string
	// Free adds the locks that nobody holds, and that had a holder within the last hour.
	Free bool
	// Redisson adds the locks that only clients of Redisson have used, which leave no token. That takes a
	// second pass over the keys, and reads each hash that does not have many fields.
	Redisson bool
	// Contended selects only the locks for whose release somebody listens. It asks for the channels
	// instead of the keys, which takes the servers longer the more active channels there are. It also
	// finds latches that somebody waits for.
	Contended bool
	// Answered is called each time that a server has answered, even without a lock, so that a caller can
	// show whether a server is silent. It runs in the goroutine that iterates. Default: none.
	Answered func()
}

// batch is how many names are looked at in one round trip.
const batch = 100

// Locks goes over the locks of all masters, in no order. It asks the masters of a cluster at the same
// time, so that a silent one does not hide the locks of the others. It holds no more locks than one
// round trip to each master brings. An error ends the iteration. If one master of a cluster does not
// answer, the error comes after the locks of the others, and [Missed] names the silent masters. Locks
// returns when no command is under way any more, even if the loop is left early.
//
// SCAN may name a key twice. Locks leaves out a name that was among the last 131 072 locks, by a 64-bit
// hash of the name. So a lock may appear twice if there are more, and the chance that one is left out
// wrongly is below one in a billion. A lock that a server refuses to show has the problem [Unreadable].
func (i *Inspector) Locks(ctx context.Context, q Query) iter.Seq2[Lock, error] {
	return func(yield func(Lock, error) bool) {
		w := &walk{Inspector: i, Query: q, seen: newSeen(1 << 17), yield: yield}
		var err error
		if q.Contended {
			err = w.channels(ctx)
		} else {
			err = w.keys(ctx)
		}
		if err != nil && !w.over {
			yield(Lock{}, printable.Error(err))
		}
	}
}

// walk is one pass over all locks.
type walk struct {
	*Inspector
	Query
	seen  *seen
	yield func(Lock, error) bool
	over  bool // the caller wants no more
	// of a cluster: it passes the locks of one master to the goroutine that iterates, and reports whether that wants
	// more
	deliver func(locks []Lock) bool
}

// keys goes over the keys of each master.
func (w *walk) keys(ctx context.Context) error {
	if w.cluster != nil {
		return w.everywhere(ctx)
	}
	return w.master(ctx, w.rdb.(*redis.Client))
}

// master goes over the keys of one.
func (w *walk) master(ctx context.Context, master *redis.Client) error {
	err := w.scan(ctx, master, func(ctx context.Context, cursor uint64) *redis.ScanCmd {
		return master.Scan(ctx, cursor, keys.Search(w.Match), w.opts.Step)
	}, keys.Named)
	if err != nil || w.over || !w.Redisson {
		return err
	}
	return w.scan(ctx, master, func(ctx context.Context, cursor uint64) *redis.ScanCmd {
		return master.ScanType(ctx, cursor, w.Match, w.opts.Step, "hash")
	}, nil)
}

// asUnreadable marks, among the names that were returned, a lock that a server refuses to show.
const asUnreadable keys.Trace = -1

// found is a name, and the key by which it was found.
type found struct {
	name string
	by   keys.Trace
}

// scan goes once over the keys of a master. named tells the locks by their keys; nil: the keys are the
// names, of hashes that may be locks.
func (w *walk) scan(ctx context.Context, node *redis.Client, page func(context.Context, uint64) *redis.ScanCmd,
	named func(string) (string, keys.Trace),
) error {
	var cursor uint64
	var names []found // not looked at yet: a page has few locks in it, if most keys are somebody else's
	for {
		list, next, err := page(ctx, cursor).Result()
		if err != nil {
			return err
		}
		w.answered()
		if named == nil {
			if list, err = likely(ctx, node, list); err != nil {
				return err
			}
		}
		for _, key := range list {
			f := found{key, keys.NoTrace}
			if named == nil {
				f.name = key
			} else if f.name, f.by = named(key); f.by == keys.NoTrace {
				continue
			}
			// A name is found as both of its spellings, and either of them may match.
			if twin := keys.Twin(f.name); !glob(w.Match, f.name) && (named == nil || twin == "" || !glob(w.Match, twin)) {
				continue
			}
			if w.seen.first(f.name, f.by) {
				names = append(names, f)
			}
		}
		for len(names) >= batch || next == 0 && len(names) > 0 {
			n := min(batch, len(names))
			if err := w.tell(ctx, node, names[:n]); err != nil || w.over {
				return err
			}
			names = names[n:]
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// likely are the keys of hashes that may be locks: all of their few fields are what fields of locks are.
func likely(ctx context.Context, node *redis.Client, list []string) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	lengths := make([]*redis.IntCmd, len(list))
	pipe := node.Pipeline()
	for n, key := range list {
		lengths[n] = pipe.HLen(ctx, key)
	}
	pipeline.Exec(ctx, pipe) // each command keeps its own error
	pipe = node.Pipeline()
	fields := make(map[string]*redis.StringSliceCmd)
	for n, key := range list {
		switch size, err := lengths[n].Result(); {
		case err != nil && !isReply(err):
			return nil, err
		case err == nil && size > 0 && size <= 32:
			fields[key] = pipe.HKeys(ctx, key)
		}
	}
	if len(fields) > 0 {
		pipeline.Exec(ctx, pipe)
	}
	var some []string
	for _, key := range list {
		cmd := fields[key]
		if cmd == nil || keys.Check(key) != nil || keys.Wants(key) {
			continue
		}
		switch names, err := cmd.Result(); {
		case err != nil && !isReply(err):
			return nil, err
		case err == nil && mayBeLock(names):
			some = append(some, key)
		}
	}
	return some, nil
}

// tell looks at names that were found at one server, and yields those that are wanted.
func (w *walk) tell(ctx context.Context, node *redis.Client, names []found) error {
	list := make([]string, len(names))
	for n, f := range names {
		list[n] = f.name
	}
	answers := w.ask(ctx, node, list, w.opts.List)
	var locks []Lock
	var others []string // other spellings that are keys, too
	for n, a := range answers {
		if a.err != nil && moved(a.err) {
			a = w.query(ctx, list[n:n+1], w.opts.List)[0]
		}
		if a.err != nil {
			if !concernsKey(a.err) {
				return a.err
			}
			if !w.seen.first(list[n], asUnreadable) { // found by another of its keys, or in the first pass
				continue
			}
			a.lock = unreadable(list[n], errors.New("the server refuses to show it: "+a.err.Error()))
		}
		if a.other && names[n].by != keys.NoTrace {
			others = append(others, keys.Twin(list[n]))
		}
		if w.wanted(&a, names[n].by) {
			locks = append(locks, a.lock)
		}
	}
	if len(others) > 0 {
		for n, a := range w.query(ctx, others, w.opts.List) {
			if a.err != nil {
				return a.err
			}
			if glob(w.Match, others[n]) && w.wanted(&a, keys.ByToken) {
				locks = append(locks, a.lock)
			}
		}
	}
	return w.emit(ctx, locks)
}

func (w *walk) emit(ctx context.Context, locks []Lock) error {
	if err := w.complete(ctx, locks); err != nil {
		return err
	}
	if w.deliver != nil {
		w.over = len(locks) > 0 && !w.deliver(locks)
		return nil
	}
	w.yieldAll(locks)
	return nil
}

func (w *walk) yieldAll(locks []Lock) {
	for _, l := range locks {
		if !w.yield(l, nil) {
			w.over = true
			return
		}
	}
}

// answered says that a server has answered a page of keys.
func (w *walk) answered() {
	switch {
	case w.deliver != nil:
		w.over = !w.deliver(nil)
	case w.Answered != nil:
		w.Answered()
	}
}

// wanted reports whether a name belongs to the answer.
func (w *walk) wanted(a *answer, by keys.Trace) bool {
	l := &a.lock
	switch {
	case !glob(w.Match, l.Name):
		return false
	case a.traced && (by == keys.NoTrace || by == keys.ByQueue || by == keys.ByLatch):
		return false // it is found by its token
	case by == keys.NoTrace && len(l.Queue) > 0:
		return false // it has been found by its queue
	case by == keys.ByLatch && l.Kind != Latch:
		return false // it was one
	case a.other && l.Type == "none" && len(l.Queue) == 0:
		return false // what was found belongs to the other spelling
	case l.Kind == Nothing:
		return false
	}
	return w.Free || l.Held() || l.Waiters > 0 || len(l.Problems) > 0 || len(l.Queue) > 0 || w.Contended
}

// concernsKey reports whether a server refused one name, and not the command.
func concernsKey(err error) bool {
	return lua.IsDenied(err) && keyRefused.MatchString(err.Error())
}
