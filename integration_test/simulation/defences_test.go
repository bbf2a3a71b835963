package simulation

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/lua"
)

// defence is something that the library does against faults, and how to do without it.
type defence struct {
	name   string
	fair   bool // shown with fair locks, else with plain ones
	off    *control.Switch
	mutant func() *mutation // or a script that does without it
	bias   func(*Settings)  // makes frequent what it is against; nil: nothing
	checks []string         // that find it; one of them has to
}

func mutant(script *lua.Script, body string) func() *mutation {
	return func() *mutation { return &mutation{script: script, body: body} }
}

// Not among them, because nothing here shows them, for good reasons; tests of the root, of rlock and of lua do:
//
//   - UndoAgain. What it is against, a lock that stands for nobody until its lease ends, is excused here: it needs a
//     request that is late, so there was a fault, and for a lease after faults nobody is expected to get the lock.
//   - Bound. A lock that is renewed for nobody is undone at the same time, and a renewal never brings it back.
//   - PassOn. It needs a waiter that is cancelled in the very moment in which the one before it leaves, and then nobody who
//     leaves for a while: not seen in 200 seeds with all times rounded.
//   - Those of the hand-off within a client. HandBack is like PassOn; without Reserved nothing is wrong while the clock goes on; and
//     without Believes a hold is given up too early, which no check refuses. Package controls shows them.
//   - The owner check of renew.lua. An owner that is not the holder any more renews only if the server lost data or
//     somebody forced it out, which is not simulated. Where the lease ended by time, Trust was over before that.
var plainDefences = []defence{
	{name: "NoRetry", off: &control.NoRetry, bias: replies, checks: list("trust", "wake-up", "linearizability")},
	{name: "Resend", off: &control.Resend, bias: replies, checks: list("given up")},
	{name: "RepeatedGone", off: &control.RepeatedGone, bias: replies, checks: list("trust")},
	{name: "Undo", off: &control.Undo, bias: impatience, checks: list("wake-up")},
	{name: "FreshOwner", off: &control.FreshOwner, bias: stragglers, checks: list("trust", "exclusion", "linearizability")},
	{name: "Detach", off: &control.Detach, checks: list("given up")},
	{name: "LeaseEnd", off: &control.LeaseEnd, bias: deaths, checks: list("wake-up")},
	{name: "Deadline", off: &control.Deadline, bias: partitions, checks: list("exclusion", "linearizability")},
	{name: "Rewake", off: &control.Rewake, bias: distance, checks: list("wake-up")},

	{name: "acquire: a repeated one gets the first answer", bias: replies, checks: list("linearizability", "wake-up"),
		mutant: mutant(lua.Acquire, "ARGV[4] = '0'")},
	{name: "acquire: the hash gets a time to live", checks: list("left behind"),
		mutant: mutant(lua.Acquire, "if cmd == 'PEXPIRE' then return 1 end")},
	{name: "acquire: only a free lock is granted", checks: list("exclusion"),
		mutant: mutant(lua.Acquire, "if cmd == 'HLEN' then return 0 end")},
	{name: "acquire: tokens go by the clock too", bias: oblivion, checks: list("tokens"),
		mutant: mutant(lua.Acquire, "if cmd == 'TIME' then return {'0', '1'} end")},
	{name: "recount: counts are absolute", bias: replies, checks: list("linearizability"),
		mutant: mutant(lua.Recount, `if cmd == 'HSET' then
			return call('HINCRBY', key, ARGV[1], tonumber(ARGV[2]) > tonumber(call('HGET', key, ARGV[1])) and 1 or -1)
		end`)},
	{name: "recount: of the owner only", bias: stragglers, checks: list("wake-up", "linearizability", "exclusion"),
		mutant: mutant(lua.Recount, "if cmd == 'HEXISTS' then return 1 end")},
	{name: "release: of the owner only", bias: stragglers, checks: list("exclusion", "trust"),
		mutant: mutant(lua.Release, "if cmd == 'HEXISTS' then return 1 end")},
	{name: "release: is announced", checks: list("wake-up"),
		mutant: mutant(lua.Release, "if cmd == 'PUBLISH' then return 0 end")},
	{name: "renew: the lease gets longer", checks: list("exclusion", "trust"),
		mutant: mutant(lua.Renew, "if cmd == 'PEXPIRE' then return 1 end")},
}

func list(checks ...string) []string { return checks }

// replies get lost all the time.
func replies(s *Settings) {
	s.Only, s.FaultGap, s.FaultLength = []Fault{LostReply}, s.Lease/2, s.Lease/2
	s.Think = min(s.Think, s.Lease)
}

// stragglers arrive all the time, and owners lock again soon.
func stragglers(s *Settings) {
	s.ReadTimeout, s.Latency, s.Names = 200*time.Millisecond, time.Millisecond, 1
	s.Lease, s.Length, s.Life = 4*time.Second, time.Minute, time.Minute
	s.Only, s.FaultGap, s.FaultLength = []Fault{DelayedRequest}, s.Lease/2, 2*s.Lease
	s.Think, s.Hold, s.Wait = s.ReadTimeout, s.ReadTimeout, s.Lease
}

// partitions of single clients last for longer than anybody tries.
func partitions(s *Settings) {
	s.RetryBudget, s.ReadTimeout, s.DialTimeout, s.Latency = 100*time.Millisecond, 100*time.Millisecond, time.Second, time.Millisecond
	s.Lease, s.Clients, s.Names = 5*time.Minute, 3, 1
	s.Length, s.Life, s.Think, s.Hold, s.Wait = 20*s.Lease, 20*s.Lease, s.Lease/4, s.Lease/8, s.Lease
	s.Only, s.FaultGap, s.FaultLength = []Fault{Partition}, s.Lease, s.Lease
}

// impatience: nearly everybody leaves while the answer is under way. There are no faults, so nothing is excused.
func impatience(s *Settings) {
	calm(s)
	s.ReadTimeout, s.Latency = 3*time.Second, 150*time.Millisecond
	s.Wait, s.Hold, s.Think, s.Names, s.Actors = 300*time.Millisecond, 10*time.Second, s.Lease/10, 1, 3
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

// calm has no faults, and a lease that is long against all that recovery takes.
func calm(s *Settings) {
	s.Lease = 30 * time.Minute
	s.Length, s.Life, s.FaultGap = 6*s.Lease, 100*s.Lease, 1000*s.Lease
	s.Think, s.Hold, s.Wait = s.Lease/4, s.Lease/20, s.Lease/10
}
