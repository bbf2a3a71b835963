package simulation

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// questions are what a client has asked the server, and whether it had an answer.
type questions struct {
	mu  sync.Mutex // guards all
	all []question
}

type question struct {
	sent, ended int64 // Forever while it is under way
	failed      bool
	wants       bool // a lock
}

// wanting are the scripts with which a client asks for a lock, or for many locks at once.
var wanting = []*lua.Script{lua.Acquire, lua.Many, lua.FairAcquire, lua.FairJoin, lua.SemAcquire, lua.SemJoin, lua.RwRead, lua.RwWrite,
	lua.LatchLook}

// hook is for go-redis. It is to be before those that change scripts.
func (q *questions) hook(now func() int64) redis.Hook {
	return redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		asks := question{ended: history.Forever}
		script := slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool {
			args := cmd.Args()
			if cmd.Name() != "evalsha" && cmd.Name() != "eval" || len(args) < 2 {
				return false
			}
			asks.wants = asks.wants || slices.ContainsFunc(wanting, func(s *lua.Script) bool { return args[1] == any(s.Hash()) })
			return true
		})
		if !script {
			return send()
		}
		q.mu.Lock()
		at := len(q.all)
		asks.sent = now()
		q.all = append(q.all, asks)
		q.mu.Unlock()
		err := send()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.all[at].ended, q.all[at].failed = now(), err != nil && !errs.IsReply(err)
		return err
	})
}

// answered reports whether the server answered in the second half of what a caller waited, or of a second, to a
// question that was sent after the last one that failed. What is to be known at the moment of the return does not count.
func (q *questions) answered(o history.Op) bool {
	failed, after := int64(0), o.Return-silence(o)/2
	for _, one := range q.all {
		if one.failed && one.ended <= o.Return {
			failed = max(failed, one.ended)
		}
	}
	return slices.ContainsFunc(q.all, func(one question) bool {
		return !one.failed && one.wants && one.sent > failed && after < one.ended && one.ended < o.Return
	})
}

// silent reports whether the server said nothing for much longer than a caller waited, and was asked for a lock all the time.
func (q *questions) silent(o history.Op) bool {
	from := min(o.Call, o.Return-2*silence(o)-int64(200*time.Millisecond))
	for _, one := range q.all {
		if !one.failed && one.ended >= from && one.ended <= o.Return {
			return false
		}
	}
	return slices.ContainsFunc(q.all, func(one question) bool { return one.wants && one.sent < from && one.ended > o.Return })
}

// silence is for how long a server may say nothing before it is silent for the caller of an operation.
func silence(o history.Op) int64 {
	const brief, long = int64(100 * time.Millisecond), int64(time.Second)
	if d := o.Return - o.Call; d >= brief {
		return d
	}
	return long
}

// untrue finds callers who were told what is not so: that nobody knows who has the lock, where the server answered; that
// somebody has it, where the server was silent; or either of these, or anything asked of it, where the context had
// ended before the call. The table is at [holdfast.ErrNotAcquired].
func (w *World) untrue(ops []history.Op) (found []history.Violation) {
	faults := len(w.windows)+len(w.local) > 0
	for _, o := range ops {
		asks := o.Kind == history.Lock || o.Kind == history.Try || o.Kind == history.Wait
		q := w.questions[o.Client]
		if !asks || q == nil || o.Result != history.Left && o.Result != history.Denied && o.Result != history.Unknown || o.Return == history.Forever {
			continue
		}
		text := ""
		switch {
		case o.Early && (o.Taken || o.Outage || !strings.Contains(o.Error, "canceled")):
			text = "the context had ended before the call"
		case o.Early && o.Asked != "":
			text = "the server was asked for one whose context had ended"
		case !o.Early && !o.Taken && !o.Outage && o.Of != history.Elections: // Run says why its context ended
			text = "told neither of the two"
		case o.Outage && q.answered(o):
			text = "told of an outage, and the server answered"
		case faults && o.Kind == history.Lock && o.Taken && !o.Outage && q.silent(o) && !w.hasIt(ops, o):
			text = "told that somebody has it, and the server was silent"
		default:
			continue
		}
		found = append(found, history.Violation{Check: "truth", Name: o.Name, Text: text, Ops: []history.Op{o}})
	}
	return found
}

// hasIt reports whether the client of an operation may have had the lock meanwhile, so that it knew by itself.
func (w *World) hasIt(ops []history.Op, o history.Op) bool {
	return slices.ContainsFunc(ops, func(held history.Op) bool {
		if held.Client != o.Client || held.Kind != history.Lock && held.Kind != history.Try || held.Result != history.OK || held.Call > o.Return {
			return false
		}
		return !slices.ContainsFunc(ops, func(end history.Op) bool {
			return end.Owner == held.Owner && end.Token == held.Token && end.Return < o.Call &&
				(end.Kind == history.Unlock && end.Last || end.Kind == history.End)
		})
	})
}

// dear finds times at which callers cost more than they may: places, goroutines, and commands for all of them.
func (w *World) dear(ops []history.Op) (found []history.Violation) {
	const allowance = 8
	calls, most := 0, load{}
	for _, l := range w.loads {
		if w.disturbed(l.at) {
			continue
		}
		live := w.live2(ops, l.at)
		if l.places > 2*live+allowance {
			found = append(found, history.Violation{Check: "places", Text: fmt.Sprintf("%d of %d callers at %s", l.places, live, time.Duration(l.at))})
		}
		most = load{places: max(most.places, l.places), goroutines: max(most.goroutines, l.goroutines)}
	}
	_ = calls
	return found
}

// live2 is how many callers wanted a lock a moment ago.
func (w *World) live2(ops []history.Op, at int64) int {
	from := at - int64(2*w.trip()+w.queueing())
	live := make(map[[2]int]bool)
	for _, o := range ops {
		if o.Call <= at && o.Return >= from && (o.Kind == history.Lock || o.Kind == history.Try) {
			live[[2]int{o.Client, o.Actor}] = true
		}
	}
	return len(live)
}
