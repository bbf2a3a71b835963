package simulation

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
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

func wants(cmd redis.Cmder) bool {
	return slices.ContainsFunc(wanting, func(s *lua.Script) bool { return cmd.Args()[1] == any(s.Hash()) })
}

// hook is for go-redis. It is to be before those that change scripts.
func (q *questions) hook(now func() int64) redis.Hook {
	return redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Name() == "evalsha" || cmd.Name() == "eval" }) {
			return send()
		}
		q.mu.Lock()
		at := len(q.all)
		q.all = append(q.all, question{now(), history.Forever, false, slices.ContainsFunc(cmds, wants)})
		q.mu.Unlock()
		err := send()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.all[at].ended, q.all[at].failed = now(), err != nil && !errs.IsReply(err)
		return err
	})
}

// answered reports whether the server answered in the second half of what a caller waited, or of a second, and no
// question failed in the time that one is given to be asked again. What comes at the moment of the return does not count.
func (q *questions) answered(o *history.Op, again time.Duration) bool {
	after, answered := o.Return-silence(o)/2, false
	for _, one := range q.all {
		if one.failed && one.ended > o.Return-int64(again) && one.ended <= o.Return {
			return false
		}
		answered = answered || !one.failed && one.wants && after < one.ended && one.ended < o.Return
	}
	return answered
}

// silent reports whether the server said nothing for much longer than a caller waited, and was asked for a lock all the time.
func (q *questions) silent(o *history.Op) bool {
	from := min(o.Call, o.Return-2*silence(o)-int64(200*time.Millisecond))
	for _, one := range q.all {
		if !one.failed && one.ended >= from && one.ended <= o.Return {
			return false
		}
	}
	return slices.ContainsFunc(q.all, func(one question) bool { return one.wants && one.sent < from && one.ended > o.Return })
}

// silence is for how long a server may say nothing before it is silent for the caller of an operation.
func silence(o *history.Op) int64 {
	const brief, long = int64(100 * time.Millisecond), int64(time.Second)
	if d := o.Return - o.Call; d >= brief {
		return d
	}
	return long
}

// untrue finds callers who were told what is not so. The table is at [holdfast.ErrNotAcquired]. Only what was so for much
// longer than the table asks for counts, so it does not matter in which order things happen at one moment.
func (w *World) untrue(ops []history.Op) (found []history.Violation) {
	for _, o := range ops {
		asks := o.Kind == history.Lock || o.Kind == history.Try || o.Kind == history.Wait
		failed := o.Result == history.Left || o.Result == history.Denied || o.Result == history.Unknown
		if q := w.questions[o.Client]; q == nil || !asks || !failed || o.Return == history.Forever {
			continue
		} else if text := w.lie(&o, q, ops); text != "" {
			found = append(found, history.Violation{Check: "truth", Name: o.Name, Text: text, Ops: []history.Op{o}})
		}
	}
	return found
}

// lie is what was wrong with what a caller was told; empty if nothing was.
func (w *World) lie(o *history.Op, q *questions, ops []history.Op) string {
	won := o.Of == history.Elections && strings.Contains(o.Error, holdfast.ErrUncertain.Error()) // and not announced
	switch {
	case o.Early && (o.Taken || o.Outage || !strings.Contains(o.Error, "context ")):
		return "told something of the lock or the server, and the context had ended before the call"
	case o.Early && o.Asked != "":
		return "the server was asked, and the context had ended before the call"
	case o.Early, won:
	case !o.Taken && !o.Outage && o.Return > o.Call && o.Of != history.Elections: // Run says why its context ended
		return "told neither that the lock is not acquired nor that it is unavailable"
	case o.Outage && q.answered(o, w.window()):
		return "told of an outage, and the server answered"
	case o.Taken && !o.Outage && o.Kind == history.Lock && w.faulty() && q.silent(o) && !hasIt(ops, o):
		return "told that somebody has it, and the server was silent"
	}
	return ""
}

// faulty reports whether there was a fault at any time.
func (w *World) faulty() bool { return len(w.windows)+len(w.local) > 0 }

// hasIt reports whether the client of an operation may have had the lock meanwhile: then it need not ask.
func hasIt(ops []history.Op, o *history.Op) bool {
	had := make(map[history.Op]bool) // by owner and token
	grant := func(o *history.Op) history.Op { return history.Op{Owner: o.Owner, Token: o.Token} }
	for i := range ops {
		switch other := &ops[i]; {
		case other.Client != o.Client || other.Owner == "":
		case (other.Kind == history.Lock || other.Kind == history.Try) && other.Call <= o.Return:
			had[grant(other)] = true
		case (other.Kind == history.Unlock && other.Last || other.Kind == history.End) && other.Return < o.Call:
			delete(had, grant(other))
		}
	}
	return len(had) > 0
}
