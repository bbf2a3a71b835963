package simulation

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	text "github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// lack is of something that the library does against faults: how to do without it, and what sees that.
type lack struct {
	name   string
	kind   history.Family
	fair   bool // shown with fair locks, else with plain ones
	off    *defence.Switch
	mutant func() []redis.Hook // or scripts that do without it
	bias   func(*Settings)     // makes frequent what it is against; nil: nothing
	checks []string            // that find it; one of them has to
	alone  bool                // no two worlds at a time
	sole   bool                // no other test shows that it is one
}

func mutant(script *lua.Script, body string) func() []redis.Hook {
	return func() []redis.Hook { return []redis.Hook{&mutation{script: script, body: body}} }
}

// edited are the scripts that have the text of the queue's part, with edits as [text.Hook] has
// them.
func edited(edits ...string) func() (hooks []redis.Hook) {
	return func() (hooks []redis.Hook) {
		for _, script := range []*lua.Script{lua.FairAcquire, lua.FairJoin, lua.FairPoll, lua.FairRelease} {
			hooks = append(hooks, text.Hook(script, edits...))
		}
		return hooks
	}
}

// Not among them, because nothing here shows them, for good reasons; tests of the engine, of rlock
// and of lua do:
//
//   - Bound. A lock that is renewed for nobody is undone at the same time, and a renewal never
//     brings it back.
//   - PassOn. It needs a waiter that is cancelled in the very moment in which the one before it
//     leaves, and then nobody who leaves for a while: not seen in 200 seeds with all times rounded.
//   - Most of those of the hand-off within a client. HandBack is like PassOn; without Reserved
//     nothing is wrong while the clock goes on; and without Believes a hold is given up too early,
//     which no check refuses. Package controls shows them.
//   - The owner check of renew.lua. An owner that is not the holder any more renews only if the
//     server lost data or somebody forced it out, which is not simulated. Where the lease ended by
//     time, Trust was over before that.
var plainDefences = []lack{
	{name: "KeptCalled", off: &defence.KeptCalled, bias: keeping, checks: list("wake-up")},
	{name: "KeptIdle", off: &defence.KeptIdle, bias: keeping, checks: list("ghost")},
	{name: "NoRetry", off: &defence.NoRetry, bias: replies, checks: list("trust", "wake-up", "linearizability")},
	{name: "Resend", off: &defence.Resend, bias: replies, checks: list("given up")},
	{name: "RepeatedGone", off: &defence.RepeatedGone, bias: replies, checks: list("trust")},
	{name: "Undo", off: &defence.Undo, bias: impatience, checks: list("wake-up", "ghost")},
	{name: "FreshOwner", off: &defence.FreshOwner, bias: stragglers,
		checks: list("trust", "exclusion", "linearizability")},
	{name: "UndoAgain", off: &defence.UndoAgain, bias: held, checks: list("ghost")},
	{name: "Detach", off: &defence.Detach, checks: list("given up")},
	{name: "LeaseEnd", off: &defence.LeaseEnd, bias: deaths, checks: list("wake-up")},
	{name: "Deadline", off: &defence.Deadline, bias: partitions, checks: list("exclusion", "linearizability")},
	{name: "Asleep", off: &defence.Asleep, bias: napping, alone: true, checks: list("exclusion", "linearizability")},
	{name: "Rewake", off: &defence.Rewake, bias: distance, checks: list("wake-up")},
	{name: "Aside", off: &defence.Aside, bias: reports, checks: list("trust", "exclusion", "linearizability")},

	{name: "Longer", off: &defence.Longer, bias: crowd, checks: list("lease")},
	{name: "Inner", off: &defence.Inner, bias: nested, checks: list("lease")},
	{name: "Front", off: &defence.Front, bias: crowd, checks: list("overtaken")},
	{name: "HeadStart", off: &defence.HeadStart, bias: apart, checks: list("starved")},
	{name: "Stay", off: &defence.Stay, bias: staying, checks: list("period")},
	{name: "ToldEnds", off: &defence.ToldEnds, bias: partitions, checks: list("observer")},
	{name: "OneKind", off: &defence.OneKind, checks: list("kinds")},

	{name: "acquire: a repeated one gets the first answer", bias: replies, checks: list("linearizability", "wake-up"),
		mutant: mutant(lua.Acquire, "ARGV[4] = '0'")},
	{name: "acquire: the hash gets a time to live", checks: list("left behind"),
		mutant: mutant(lua.Acquire, "if cmd == 'PEXPIRE' then return 1 end")},
	{name: "acquire: only a free lock is granted", checks: list("exclusion"),
		mutant: mutant(lua.Acquire, "if cmd == 'HLEN' then return 0 end")},
	{name: "acquire: what is no lock is in the way", bias: visited, checks: list("foreign", "refusal"),
		mutant: mutant(lua.Acquire, "if cmd == 'HLEN' then return 0 end")},
	{name: "acquire: says what is in the way", bias: visited, checks: list("refusal"),
		mutant: mutant(lua.Acquire, "if cmd == 'HGETALL' then return {} end")},
	{name: "acquire: tokens go by the clock too", bias: oblivion, checks: list("tokens"),
		mutant: mutant(lua.Acquire, "if cmd == 'TIME' then return {'0', '1'} end")},
	{name: "acquire: one that comes late refuses itself", bias: held, checks: list("ghost"),
		mutant: mutant(lua.Acquire, "if cmd == 'TIME' then ARGV[6] = nil end")},
	{name: "recount: counts are absolute", bias: blinks, checks: list("linearizability"),
		mutant: mutant(lua.Recount, `if cmd == 'HSET' then
			return call('HINCRBY', key, ARGV[1], tonumber(ARGV[2]) > tonumber(call('HGET', key, ARGV[1])) and 1 or -1)
		end`)},
	{name: "recount: of the owner only", bias: stragglers, checks: list("wake-up", "linearizability", "exclusion"),
		mutant: mutant(lua.Recount, "if cmd == 'HEXISTS' then return 1 end")},
	{name: "release: of the owner only", bias: stragglers, checks: list("exclusion", "trust"),
		mutant: mutant(lua.Release, "if cmd == 'HEXISTS' then return 1 end")},
	{name: "release: is announced", checks: list("wake-up"),
		mutant: mutant(lua.Release, "if cmd == 'PUBLISH' then return 0 end")},
	{name: "renew_many: of the owner only", bias: collecting, checks: list("told"),
		mutant: mutant(lua.RenewMany, "if cmd == 'HEXISTS' then return 1 end")},
	{name: "renew: the lease gets longer", checks: list("exclusion", "trust"),
		mutant: mutant(lua.Renew, "if cmd == 'PEXPIRE' then return 1 end")},
}

func list(checks ...string) []string { return checks }

// replies get lost all the time.
func replies(s *Settings) {
	s.Only, s.FaultGap, s.FaultLength = []Fault{LostReply}, s.Lease/2, s.Lease/2
	s.Think = min(s.Think, s.Lease)
}

// blinks: replies get lost for so short a time that what is sent again is answered. Long after that
// holders look at the count.
func blinks(s *Settings) {
	calm(s)
	s.ReadTimeout, s.RetryBudget, s.Latency = time.Second, 10*time.Second, time.Millisecond
	s.Hold, s.Names = s.Lease/4, 1
	s.Only, s.FaultGap, s.FaultLength = []Fault{LostReply}, s.Lease/8, s.Lease/8
}

// stragglers arrive all the time, and owners lock again soon.
func stragglers(s *Settings) {
	s.ReadTimeout, s.Latency, s.Names = 200*time.Millisecond, time.Millisecond, 1
	s.Lease, s.Length, s.Life = 4*time.Second, time.Minute, time.Minute
	s.Only, s.FaultGap, s.FaultLength = []Fault{DelayedRequest}, s.Lease/2, 2*s.Lease
	s.Think, s.Hold, s.Wait = s.ReadTimeout, s.ReadTimeout, s.Lease
}

// held are requests of single clients, for up to a lease; and whoever cannot wait leaves.
func held(s *Settings) {
	calm(s)
	s.Only, s.FaultGap, s.FaultLength = []Fault{HeldRequest}, s.Lease/2, s.Lease/4
	s.Length, s.ReadTimeout, s.Latency, s.RetryBudget = 20*s.Lease, time.Second, time.Millisecond, 100*time.Millisecond
}

// partitions of single clients last for longer than anybody tries.
func partitions(s *Settings) {
	s.RetryBudget, s.ReadTimeout, s.DialTimeout, s.Latency = 100*time.Millisecond, 100*time.Millisecond, time.Second,
		time.Millisecond
	s.Lease, s.Clients, s.Names = 5*time.Minute, 3, 1
	s.Length, s.Life, s.Think, s.Hold, s.Wait = 20*s.Lease, 20*s.Lease, s.Lease/4, s.Lease/8, s.Lease
	s.Only, s.FaultGap, s.FaultLength = []Fault{Partition}, s.Lease, s.Lease
}

// impatience: nearly everybody leaves while the answer is under way. There are no faults, so
// nothing is excused.
func impatience(s *Settings) {
	calm(s)
	s.ReadTimeout, s.Latency = 3*time.Second, 150*time.Millisecond
	s.Wait, s.Hold, s.Think, s.Names, s.Actors = 300*time.Millisecond, 10*time.Second, s.Lease/10, 1, 3
}

// apart: goroutines of clients at different distances hand a lock on among themselves, and all wait
// for as long as it takes.
func apart(s *Settings) {
	calm(s)
	s.Apart, s.Alike, s.Clients, s.Names, s.Actors = true, true, 2, 1, 6
	s.Latency, s.ReadTimeout, s.Quantum = 100*time.Microsecond, 3*time.Second, 0
	s.Lease, s.Length, s.Life = 10*time.Second, 5*time.Minute, time.Hour
	s.Hold, s.Think, s.Wait = s.Lease/20, s.Lease/100, time.Hour
}

// distance: a message takes as long as a lock is held, so it is released while somebody subscribes.
func distance(s *Settings) {
	calm(s)
	s.ReadTimeout, s.Latency = 3*time.Second, 150*time.Millisecond
	s.Hold, s.Think, s.Names = 200*time.Millisecond, s.Lease/10, 1
}

// deaths are frequent, and nothing else is.
func deaths(s *Settings) {
	calm(s)
	s.Life, s.Hold, s.Names = s.Lease, s.Lease/2, 1
}

// oblivion: names rest for so long that their tokens are forgotten.
func oblivion(s *Settings) {
	calm(s)
	s.Lease, s.Think = 2*time.Hour, 4*time.Hour
	s.Length = 60 * s.Lease
}

// reports are frequent, of plain leases that ran out, and each takes longer than others last.
func reports(s *Settings) {
	calm(s)
	s.Length, s.Clients, s.Names, s.Actors, s.Hold = 3*s.Lease, 2, 3, 4, s.Lease
	s.Log, s.LogPanics = 2*s.Lease, false // without the defence a panic would end the test
}

// crowd: many wait for one lock in each of two clients, so it is handed on, and who tries it meets
// others that wait.
func crowd(s *Settings) {
	s.Clients, s.Names, s.Actors, s.Alike = 2, 1, 6, true
	s.Hold, s.Think, s.Wait = s.Lease/8, s.Lease/2, s.Lease
	s.Length, s.FaultGap = 30*s.Lease, 4*s.Lease
}

// keeping: each client keeps the lock that it wants most of the time, and others want it now and
// then.
func keeping(s *Settings) {
	calm(s)
	s.atHome(2)
	s.Keeping, s.Clients, s.Staying, s.Length = 1, 3, 0, 2*s.Lease
	s.Latency, s.ReadTimeout, s.Hold, s.Think = time.Millisecond, time.Second, s.Lease/100, s.Lease/100
}

// staying: every other lock is to stay taken for a while.
func staying(s *Settings) {
	s.Staying, s.Wait = 2, s.Lease
}

// visited: strangers come all the time.
func visited(s *Settings) {
	calm(s)
	s.Names, s.Strangers, s.Length = 1, s.Lease/4, 10*s.Lease
}

// collecting: one owner has fifty locks at once, and loses them.
func collecting(s *Settings) {
	calm(s)
	s.Clients, s.Actors, s.Many = 1, 1, 50
}

// napping: all sleep for about as long as their leases, again and again, and others want what they
// hold.
func napping(s *Settings) {
	calm(s)
	s.Names, s.Staying, s.Strangers, s.Hold, s.Wait = 1, 0, 0, s.Lease/4, s.Lease
	s.Naps, s.Length = s.Lease/2, 20*s.Lease
}

// nested: there is time for renewals between the unlock of an inner hold and that of the outer one.
func nested(s *Settings) {
	calm(s)
	s.Hold, s.Length = s.Lease/2, 20*s.Lease
}

// calm has no faults, and a lease that is long against all that recovery takes.
func calm(s *Settings) {
	s.Lease = 30 * time.Minute
	s.Length, s.Life, s.FaultGap = 6*s.Lease, 100*s.Lease, 1000*s.Lease
	s.Think, s.Hold, s.Wait = s.Lease/4, s.Lease/20, s.Lease/10
}
