package lua

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// pairs are what servers do for a lock that is free, and is released: a call that takes it, and one that gives it back.
func pairs() map[string][]Call {
	const owner, lease, keep, token, channel = "4b1f7a5e-0d0f-4b8c-9b65-0f3d1c2f9a10:h1", 30000, 3600000, "token:{x}", "channel:{x}"
	const limit = "9007199254740990"
	keys := func(of ...any) func(args ...any) []any {
		return func(args ...any) []any { return append(append([]any{}, of...), args...) }
	}
	plain, queued := keys("x", token), keys("x", token, "queue:{x}", "deadlines:{x}", channel)
	release := Release.Call("x", channel, owner, "PUBLISH")
	nothing := New("nothing", "return {1}", 2).Call(plain(owner, lease, keep)...)
	return map[string][]Call{
		"nothing": {nothing, nothing},
		"rlock":   {Acquire.Call(plain(owner, lease, keep, "0", 1, limit)...), release},
		"redlock": {Vote.Call(plain(owner, lease, keep, 1, "1", limit)...), release},
		"fairlock": {
			FairAcquire.Call(queued(owner, lease, keep, "0", 0, 2000, "PUBLISH", limit)...),
			FairRelease.Call(queued(owner, "PUBLISH", 2000, keep)...),
		},
		"without a token": {
			New("take", `if redis.call('EXISTS', KEYS[1]) == 1 then return {0} end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return {1}`, 2).Call(plain(owner, lease)...),
			New("give", `if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return {-1} end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return {1} end
redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], '0') return {1}`, 2).Call("x", channel, owner),
		},
	}
}

// BenchmarkServerTime is how long a server works for a pair. "nothing" is what two calls of an empty script take.
func BenchmarkServerTime(b *testing.B) {
	for _, p := range redistest.Programs(b) {
		srv := redistest.Start(b, redistest.Exec(p.Path))
		for name, pair := range pairs() {
			b.Run(p.Name+"/"+name, func(b *testing.B) { serverTime(b, srv, pair) })
		}
		for _, names := range []int{2, 8, 32} {
			n := strconv.Itoa(names)
			b.Run(p.Name+"/rlock, names in one script: "+n, func(b *testing.B) { serverTimeTogether(b, srv, names, true) })
			b.Run(p.Name+"/rlock, names in one pipeline: "+n, func(b *testing.B) { serverTimeTogether(b, srv, names, false) })
		}
	}
}

// serverTimeTogether is how long a server works for a pair where calls of so many names travel
// together: half of them take a lock while the others release one. Each journey finds the server
// idle, so the figures compare with each other, and not with those of a server that is kept busy.
func serverTimeTogether(b *testing.B, srv *redistest.Server, names int, packed bool) {
	rdb, p, turn := srv.Client(b), &Packer{Few: 2}, 0
	send := func(cmds []redis.Cmder) {
		pipe := rdb.Pipeline()
		_ = pipe.BatchProcess(b.Context(), cmds...)
		_, _ = pipe.Exec(b.Context())
	}
	round := func() {
		var cmds []redis.Cmder
		for i := range names {
			if name := strconv.Itoa(i); (i+turn)%2 == 0 {
				cmds = append(cmds, taking(name, "0"))
			} else {
				cmds = append(cmds, giving(name))
			}
		}
		turn++
		if packed {
			p.Send(cmds, send)
		} else {
			send(cmds)
		}
		for _, r := range results(cmds) {
			if r.Err != nil || r.Reply.Status != Done {
				b.Error(r)
			}
		}
	}
	require.NoError(b, rdb.FlushAll(b.Context()).Err())
	for _, s := range []*Script{Acquire, Release, Many} {
		require.NoError(b, rdb.ScriptLoad(b.Context(), s.Text()).Err())
	}
	for i := 1; i < names; i += 2 { // those that the first round releases
		require.NoError(b, rdb.HSet(b.Context(), strconv.Itoa(i), "a", 1).Err())
	}
	srv.ResetStats(b)
	b.ResetTimer()
	n := 0
	for ; n < 2*b.N; n += names {
		round()
	}
	b.StopTimer()
	calls := n
	if packed {
		calls = n / names
	}
	require.EqualValues(b, calls, srv.CommandCalls(b)["evalsha"])
	b.ReportMetric(2*1e6*srv.CommandTime(b)["evalsha"].Seconds()/float64(n), "server-µs/op")
}

func serverTime(b *testing.B, srv *redistest.Server, pair []Call) {
	rdb := srv.Client(b)
	const together = 100
	send := func(n int) {
		var calls []Call
		for range n {
			calls = append(calls, pair...)
		}
		for i, r := range RunAll(b.Context(), rdb, calls) {
			require.NoError(b, r.Err)
			require.Equal(b, Done, r.Reply.Status, i)
		}
	}
	for _, call := range pair { // from now on the server knows the scripts
		_, err := Run(b.Context(), rdb, call)
		require.NoError(b, err)
	}
	srv.ResetStats(b)
	b.ResetTimer()
	for left := b.N; left > 0; left -= together {
		send(min(left, together))
	}
	b.StopTimer()
	require.EqualValues(b, len(pair)*b.N, srv.CommandCalls(b)["evalsha"])
	b.ReportMetric(1e6*srv.CommandTime(b)["evalsha"].Seconds()/float64(b.N), "server-µs/op")
}
