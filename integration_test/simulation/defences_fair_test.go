package simulation

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/lua"
)

const fifo = "fifo"

// What keeps the order of a fair lock's waiters, and has them woken.
//
// Not among them: that who leaves gives its place back. What that costs others, a claim, is excused
// here, because who leaves may have been handed the lock; package controls shows it. And that who
// cannot be reached is passed over, which costs claims too.
var fairDefences = []lack{
	{name: "fair: NoRetry", fair: true, off: &defence.NoRetry, bias: replies,
		checks: list("trust", "wake-up", "linearizability")},
	{name: "fair: Undo", fair: true, off: &defence.Undo, bias: shorter(impatience, 10), checks: list("wake-up", fifo)},
	{name: "fair: FreshOwner", fair: true, off: &defence.FreshOwner, bias: stragglers,
		checks: list("trust", "exclusion", "linearizability")},
	{name: "fair: Deadline", fair: true, off: &defence.Deadline, bias: shorter(partitions, 5),
		checks: list("exclusion", "linearizability")},

	{name: "fair: Stay", fair: true, off: &defence.Stay, bias: staying, checks: list("period")},
	{name: "Listening", fair: true, off: &defence.Listening, bias: newcomers, checks: list(fifo)},
	{name: "Poll", fair: true, off: &defence.Poll, bias: deaths, checks: list("wake-up")},
	{name: "Refresh", fair: true, off: &defence.Refresh, bias: patientQueue, checks: list(fifo)},
	{name: "Refresh, of a long queue", fair: true, off: &defence.Refresh, bias: longQueue, checks: list(fifo)},
	{name: "GrantTime", fair: true, off: &defence.GrantTime, sole: true, bias: lateNews,
		checks: list("exclusion", "linearizability")},

	{name: "fair_acquire: nobody barges", fair: true, bias: orphans, checks: list(fifo),
		mutant: mutant(lua.FairAcquire, "if cmd == 'LINDEX' then return false end")},
	{name: "fair_acquire: what is no lock is in the way", fair: true, bias: shorter(visited, 20),
		checks: list("foreign", "refusal"),
		mutant: mutant(lua.FairAcquire, "if cmd == 'HLEN' then return 0 end")},
	{name: "fair_acquire: says what is in the way", fair: true, bias: shorter(visited, 20), checks: list("refusal"),
		mutant: mutant(lua.FairAcquire, "if cmd == 'HGETALL' then return {} end")},
	{name: "fair_acquire: one that comes late refuses itself", fair: true, bias: shorter(held, 10),
		checks: list("ghost"),
		mutant: mutant(lua.FairAcquire, "if cmd == 'TIME' then ARGV[8] = nil end")},
	{name: "fair_acquire: finds what it was handed", fair: true, bias: quickQueue, checks: list("wake-up", fifo),
		mutant: mutant(lua.FairAcquire, "if cmd == 'HEXISTS' then return 0 end")},
	{name: "fair_acquire: the queue gets a time to live", fair: true, bias: quickQueue, checks: list("left behind"),
		mutant: mutant(lua.FairAcquire, "if cmd == 'PTTL' and key == KEYS[3] then return 1e9 end")},
	{name: "fair_release: hands the lock on", fair: true, bias: quickQueue, checks: list("wake-up"),
		mutant: mutant(lua.FairRelease, "if cmd == 'LINDEX' then return false end")},
	{name: "fair_release: tells of it", fair: true, bias: quickQueue, checks: list("wake-up", fifo),
		mutant: mutant(lua.FairRelease, "if cmd == 'PUBLISH' then return 1 end")},
	{name: "fair_release: for a claim", fair: true, bias: quickQueue, checks: list("left behind"),
		mutant: mutant(lua.FairRelease, "if cmd == 'PEXPIRE' then return 1 end")},
	{name: "fair_release: of the owner only", fair: true, bias: stragglers, checks: list("exclusion", "trust"),
		mutant: mutant(lua.FairRelease, "if cmd == 'HEXISTS' then return 1 end")},
	{name: "fair_poll: hands a free lock on", fair: true, bias: widows, checks: list("wake-up"),
		mutant: mutant(lua.FairPoll, "if cmd == 'HLEN' then return 1 end")},
	{name: "fair_poll: puts places off", fair: true, bias: patientQueue, checks: list(fifo),
		mutant: mutant(lua.FairPoll, "if cmd == 'ZADD' then return 0 end")},
	{name: "fair: who lets a claim lapse is passed over", fair: true, bias: fleets, checks: list("claims"),
		mutant: edited("if score > past then break end\n", "do break end\n")},
	{name: "fair: the dead in front are looked at once", fair: true, bias: fleets, checks: list("work"),
		mutant: edited("local function head()\n", "local function head()\n  for i = 1, call('LLEN', queue) do call('LINDEX', queue, i - 1) end\n")},
	{name: "fair: who cannot be reached is passed over once", fair: true, bias: fleets, checks: list("work"),
		mutant: edited("'LRANGE', queue, 0, look - 1)\n    for i, owner", "'LRANGE', queue, 0, -1)\n    for i, owner",
			"if #some < look then return end\n    cut", "if #some then return end\n    cut")},
}

// shorter is a bias with shorter leases: who waits for a fair lock sends a script a second, and
// that takes the machine's time.
func shorter(bias func(*Settings), by time.Duration) func(*Settings) {
	return func(s *Settings) {
		bias(s)
		for _, d := range []*time.Duration{&s.Lease, &s.Length, &s.Life, &s.Think, &s.FaultGap, &s.FaultLength,
			&s.Strangers} {
			*d /= by
		}
	}
}

// patientQueue: locks are held for longer than a place counts by itself.
func patientQueue(s *Settings) {
	calm(s)
	s.Lease, s.Hold, s.Think, s.Wait, s.Names = 2*time.Minute, 40*time.Second, 10*time.Second, time.Hour, 1
	s.Length, s.Life = 6*s.Lease, 100*s.Lease
	s.Clients, s.Actors = 3, 2
}

// quickQueue: a lock with many waiters, and a lease so short that a wake-up may take less than the
// pause between polls.
func quickQueue(s *Settings) {
	calm(s)
	s.Lease, s.Latency = 2*time.Second, time.Millisecond
	s.Hold, s.Think, s.Wait, s.Names = 50*time.Millisecond, 100*time.Millisecond, time.Minute, 1
	s.Length, s.Life, s.FaultGap = 10*s.Lease, 100*s.Lease, 1000*s.Lease
	s.Clients, s.Actors = 3, 2
}

// fleets of processes die all the time.
func fleets(s *Settings) {
	quickQueue(s)
	s.Dead, s.Length = 1000, 4*s.Lease
}

// newcomers: a message takes as long as a lock is held, and clients come back when they have
// forgotten it.
func newcomers(s *Settings) {
	quickQueue(s)
	s.Lease, s.ReadTimeout, s.Latency = 30*time.Second, 3*time.Second, 150*time.Millisecond
	s.Hold, s.Think, s.Length, s.Clients, s.Actors = 500*time.Millisecond, 8*time.Second, 20*s.Lease, 5, 1
}

// orphans: holders die, and others come before those who wait have noticed.
func orphans(s *Settings) {
	quickQueue(s)
	s.Lease, s.ReadTimeout, s.Latency = 10*time.Second, 3*time.Second, 150*time.Millisecond
	s.Hold, s.Think, s.Length, s.Life = s.Lease, 3*time.Second, 20*s.Lease, 2*s.Lease
	s.Clients, s.Actors = 4, 2
}

// widows: holders die while another waits, and for a while nobody comes.
func widows(s *Settings) {
	quickQueue(s)
	s.Lease, s.Hold, s.Wait, s.Life = 10*time.Second, 10*time.Second, time.Hour, 20*time.Second
	s.Length, s.Clients, s.Actors = 100*s.Lease, 2, 1
}

// longQueue: it moves all the time, and yet who is at its end waits for longer than a place counts
// by itself.
func longQueue(s *Settings) {
	quickQueue(s)
	s.Lease, s.Hold, s.Clients, s.Actors = 30*time.Second, 150*time.Millisecond, 1, 120
	s.Length = time.Minute
}

// lateNews: messages take longer than what they tell of stands for.
func lateNews(s *Settings) {
	s.ReadTimeout, s.DialTimeout, s.Latency, s.Names = 3*time.Second, 5*time.Second, time.Millisecond, 1
	s.Lease, s.Clients, s.Actors = 30*time.Second, 3, 2
	s.Length, s.Life = 10*s.Lease, 100*s.Lease
	s.Think, s.Hold, s.Wait = time.Second, time.Second, time.Minute
	s.Only, s.FaultGap, s.FaultLength = []Fault{DelayedRequest}, s.Lease/4, s.Lease/2
}
