package latch

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/lua"
)

// history is one random history of a latch, on the model's keys and on those of a real server. A call is
// remembered for an hour and some at most, which is more than the ticks that are needed.
type history struct {
	*fidelity.Side
	keys
	off model.Defence
}

func begin(s *fidelity.Side, off model.Defence) fidelity.History {
	h := &history{Side: s, off: off}
	h.Listen(true, h.channel())
	return h
}

// TestLatchModelIsLikeTheScripts ties the model to the scripts: calls, repeats, time and Redisson. A model that
// differs in one rule is told from them.
func TestLatchModelIsLikeTheScripts(t *testing.T) {
	size := fidelity.Size{Histories: 60, Short: 25, Length: 60}
	fidelity.Like(t, "latch model", size, begin, fidelity.Server(t), []string{
		"set 1", "set 0", "count", "count, told", "count idle", "delete 1", "delete 0", "repeat of set", "repeat of count",
		"repeat of delete", "late", "look", "time passes", "Redisson counts", "Redisson sets", "Redisson deletes",
	}, map[string]model.Defence{
		"counts again": countOnce, "says what is left now": sameAnswer, "sets again": setAgain, "deletes again": deleteAgain, "only what did something": idleKept,
		"not for long": keptLong, "late": lateness, "set over": setOnce, "no message at zero": tellsZero,
		"no message of a deletion": tellsDelete, "no end": staySet, "not put off": stayCount, "brought nearer": stayLonger,
		"an end for Redisson's": stayForeign,
	})
}

func (h *history) channel() string { return "redisson_countdownlatch__channel__{" + h.Name + "}" }

func (h *history) call(id uint8) string {
	return h.Key("holdfast_latch") + ":a:h" + strconv.Itoa(int(id))
}

// Step takes a random step on both sides.
func (h *history) Step() string {
	ctx := h.T.Context()
	switch n := h.Few(20); {
	case n < 13:
		return h.request()
	case n == 13:
		h.Run("look", lua.LatchLook.Call(h.Name, h.Key("holdfast_latch")), lua.Done, int(h.count), fidelity.Left(h.ttl))
		return "look"
	case n == 14:
		told := h.redissonCounts()
		if h.RDB.Decr(ctx, h.Name).Val() <= 0 {
			h.Lose(h.Name)
		}
		if told {
			require.NoError(h.T, h.RDB.Publish(ctx, h.channel(), "0").Err())
		}
		h.HearIf(told, "Redisson", h.channel(), "0")
		return "Redisson counts"
	case n == 15 && h.count == 0:
		h.count, h.ttl = 2, model.Endless
		require.NoError(h.T, h.RDB.Set(ctx, h.Name, 2, 0).Err())
		return "Redisson sets"
	case n == 15 && h.Few(3) == 0:
		h.count, h.ttl = 0, 0
		h.Lose(h.Name)
		return "Redisson deletes"
	}
	h.tick()
	h.Elapse(h.Expected()...)
	return "time passes"
}

// request is one attempt of a call: of one that is known, or of another.
func (h *history) request() string {
	t := terms{off: h.off, limit: 1, more: 2, count: 1 + h.Few(3), stay: 2 + h.Few(3)}
	q := request{kind: set + h.Few(3), id: h.Few(maxCalls), age: h.Few(3)}
	known, stood := h.calls[q.id].left > 0, h.keys.count > 0
	if known && h.Few(2) == 0 { // seldom the same kind; to the server that makes no difference but in the reply
		h.calls[q.id] = memory{}
		h.Lose(h.call(q.id))
		known = false
	}
	limit := h.RDB.Time(h.T.Context()).Val().Add(time.Duration(int(t.limit)-int(q.age)) * fidelity.Tick)
	if q.age == t.limit {
		limit = limit.Add(fidelity.Tick / 10) // it is still in time, and adds less than a tick
	}
	script := map[uint8]*lua.Script{set: lua.LatchSet, count: lua.LatchCount, remove: lua.LatchDelete}[q.kind]
	name := [kinds]string{set: "set", count: "count", remove: "delete"}[q.kind]
	call := script.Call(h.Name, h.call(q.id), h.Key("holdfast_latch"), t.count, h.Millis(t.stay), limit.UnixMicro(), h.Millis(t.more), "PUBLISH",
		h.channel())
	want := h.run(&t, q)
	if want.status == lua.Late {
		h.Run(name, call, want.status)
	} else {
		h.Run(name, call, want.status, int(want.n))
	}
	text := "0"
	if q.kind == set {
		text = "1"
	}
	h.HearIf(want.told, name, h.channel(), text)
	switch {
	case want.status == lua.Late:
		return "late"
	case known:
		return "repeat of " + name
	case q.kind != count:
		return name + " " + strconv.Itoa(int(want.n))
	case !stood:
		return "count idle"
	case want.told:
		return "count, told"
	}
	return "count"
}

// Expected returns the keys of the latch, and of its calls.
func (h *history) Expected() []fidelity.Key {
	list := []fidelity.Key{fidelity.KeyIf(h.count > 0, h.Name, int(h.count), h.ttl)}
	for id, c := range h.calls {
		list = append(list, fidelity.KeyIf(c.left > 0, h.call(uint8(id)), int(c.said), c.left)) //nolint:gosec // few
	}
	return list
}
