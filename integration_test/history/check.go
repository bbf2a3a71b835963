// Package history records what clients of a lock did and saw, and checks it against what the library promises.
//
// A history is a list of operations, each with the moment of its call and of its return by one clock, and its result. An
// operation that never returned, because its process was killed, stays open: it may take effect at any time or never. The
// checks, each by itself and all of them by [Check]:
//
//   - [Exclusion]: no two owners trust their holds of one name at the same moment, going by the
//     ends of their contexts or by their deadlines, whichever is first.
//   - [Linearizable]: there is an order of the operations, each at a moment between its call and
//     its return, in which a reentrant lock with expiry answers as it did. This is where a fencing token shows
//     that is not greater than the one before, and an operation that was carried out twice, because holders ask for
//     their hold count. It is [Porcupine]'s work.
//   - [Fifo]: nobody overtakes a waiter of a fair lock that had its place before, and could be
//     reached. Who has a place is recorded as an operation of its own, within the Lock, by who sees
//     what the server says.
//   - [Overtaken]: nor one of the same client, when the lock is handed on there.
//   - [Leases]: the server keeps a lock no longer than its holder asked for, and a plain lease goes
//     on for nobody.
//   - [Periods]: a lock that is to stay taken for a while is granted to nobody before.
//   - [Refusals], not by [Check]: who is refused a lock is told who has it, or what stands there in
//     its place.
//   - [Forbidden]: the holder of a name is refused another kind of lock of it.
//   - [WakeUps]: a lock that is free while somebody waits is granted within a bound.
//   - [Progress]: a lock that is free, and wanted all the time, is granted to somebody, however many give up.
//   - [Ghosts]: a lock is held by nobody who is not inside a call, does not hold it and did not do
//     so just before, by samples of what the server says.
//   - [Trust]: a hold ends by its deadline, and not before it without a reason.
//   - [GivenUp]: an operation without an answer is repeated, and not given up at the first failure.
//
// Those are for plain and fair locks. Operations say which [Family] they are of, and Check has models and
// checks of their own for the others:
//
//   - [ReadWrite]: nobody is trusted inside beside one that writes, but itself; the order in which a
//     reentrant read-write lock answers as it did; tokens of writes grow, and a read has that of the
//     last write; [Turns]: no reader that comes goes before a writer that waits; who reads is refused to
//     write; wake-ups of both.
//   - [Permits]: [MostPermits]: no more are trusted than there are, by what [Set] has made of it;
//     all that were asked for, or none; the order in which n permits with leases answer as they did;
//     tokens; Fifo, also of those who want fewer; wake-ups of whoever is the first; [Free]: none is
//     lost at the end.
//   - [Latches]: the order in which a latch that is set, counted down, taken away and ended answers as it
//     did, each count-down counting once; [Sleepers]: nobody waits for one that is open.
//   - [Elections]: all that is checked of a fair lock; [Observers] are told of who led, in the order in
//     which they did, and of all that lasted; [Leaders]: nobody takes itself for the leader, or is named
//     so, that is not.
//
// What is not checked here: that operations succeed at all, and how fast. A history in which
// everything failed is a good one, so who generates one also counts what was granted.
//
// [Porcupine]: https://github.com/anishathalye/porcupine
package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Config says what a history is checked against.
type Config struct {
	Lease    time.Duration // the longest lease in use
	Bound    time.Duration // of [WakeUps]; 0: not checked
	Recovery time.Duration // how long after a fault waiters and background work may need; see [WakeUps]
	Faults   []Window
	Limit    time.Duration // for the search of [Linearizable], for each name; 0: 30 s

	// Local are the faults of single clients, by their numbers: they excuse what these do, and nobody else.
	Local map[int][]Window
	// Late is how much later than anything else a request may reach the server that its client has given up.
	Late time.Duration
	// Undo is how long undisturbed [Ghosts] stand; Samples what the server said of locks; Closed from when on clients were.
	Undo    time.Duration
	Samples []Sample
	Closed  map[int][]Window
	// Place is for how long the place of a waiter counts that is gone, in the queue of a fair lock.
	Place time.Duration
	// Claim is for how long such a lock is kept for one whose turn it is, however short the lease that it asks for.
	Claim time.Duration
	// Leaving is of [Fifo]: how long before it says so a waiter that left may have given its place back.
	Leaving time.Duration
	// Window is of [Progress]; 0: not checked. Serving is how long one has to wait who is to be granted a free lock then.
	Window, Serving time.Duration
	// Slack is of [Trust] and [Overtaken], which are not checked if it is 0, and of [Fifo]. Pauses are the times in which
	// single clients did not run, and Lapses those in which holds may be lost because servers lost their data.
	Slack  time.Duration
	Pauses map[int][]Window
	Lapses []Window
	// Jumps is of [Periods]: how far ahead servers' clocks may be set within one of them.
	Jumps time.Duration
	// Least is of [GivenUp]; 0: not checked. Refusals are the times in which servers answered with errors on purpose.
	Least    time.Duration
	Refusals []Window
	// Permits is the number of a semaphore that is never set; Stay how long a latch lasts at least without a word, 0: for ever.
	Permits int
	Stay    time.Duration
}

// Check makes all checks, those of each kind that has models of its own first.
func Check(ops []Op, c Config) (found []Violation) {
	type check func([]Op, Config) []Violation
	for _, f := range []struct {
		of     Family
		checks []check
	}{
		{ReadWrite, []check{Exclusion, readTokens, linearReadWrite, Turns, Forbidden, readWriteWakeUps, Progress, Leases, Trust, Outages, givenUp}},
		{Permits, []check{MostPermits, linearPermits, Fifo, permitWakeUps, Progress, Free, Leases, Trust, Outages, givenUp}},
		{Latches, []check{linearLatch, Sleepers}},
		{Elections, []check{Exclusion, Linearizable, Fifo, WakeUps, Observers, Progress, Leaders, Leases, Trust, Outages, givenUp}},
		{Locks, []check{Exclusion, Linearizable, Fifo, WakeUps, Leases, Progress, Forbidden, Periods, Ghosts, Overtaken, Trust, Outages, givenUp}},
	} {
		own := slices.DeleteFunc(slices.Clone(ops), func(o Op) bool { return o.Of != f.of && o.Name != "" }) // and what concerns all
		if f.of == Elections {
			own = lateNews(own, c.Pauses)
		}
		for _, check := range f.checks {
			found = append(found, check(own, c)...)
		}
	}
	return found
}

func givenUp(ops []Op, c Config) []Violation { return GivenUp(ops, c.Least, c.Refusals) }

// Merge joins the histories of several recorders with one clock. It numbers actors anew: each recorder counts its own.
func Merge(histories ...[]Op) (all []Op) {
	type actor struct{ history, client, actor int }
	numbers := make(map[actor]int)
	for i, ops := range histories {
		for _, o := range ops {
			a := actor{i, o.Client, o.Actor}
			if _, known := numbers[a]; !known {
				numbers[a] = len(numbers)
			}
			o.Actor = numbers[a]
			all = append(all, o)
		}
	}
	return all
}

// tb is what Report needs of a testing.TB; a real one cannot be made for a test of Report.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
}

// DirEnv names the directory in which Report leaves histories and pictures, by default the system's for temporary files.
const DirEnv = "HOLDFAST_HISTORIES"

// Report fails the test if there are violations, and leaves histories, Porcupine's pictures and the replaying command in files.
func Report(t tb, found []Violation, replay string) {
	t.Helper()
	const most = 5 // one defect shows in many places
	for i, v := range found {
		if i == most {
			t.Errorf("and %d more", len(found)-most)
			break
		}
		where, err := v.save(replay)
		if err != nil {
			where = "not saved: " + err.Error()
		}
		t.Errorf("violation: %s of %q: %s\n%s\nhistory: %s\nreplay: %s", v.Check, v.Name, v.Text, excerpt(v.Ops), where, replay)
	}
}

// excerpt is the first operations of a violation.
func excerpt(ops []Op) string {
	var text strings.Builder
	for i := range ops {
		if i == 12 {
			fmt.Fprintf(&text, "  ... and %d more\n", len(ops)-i)
			break
		}
		fmt.Fprintf(&text, "  %s\n", &ops[i])
	}
	return text.String()
}

func (v *Violation) save(replay string) (where string, err error) {
	dir := os.Getenv(DirEnv)
	if dir == "" {
		dir = os.TempDir()
	}
	if dir, err = os.MkdirTemp(dir, "holdfast-"+v.Check+"-"); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(struct {
		Check, Name, Text, Replay string
		Ops                       []Op
	}{v.Check, v.Name, v.Text, replay, v.Ops}, "", " ")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "history.json"), text, 0o600); err != nil {
		return "", err
	}
	if v.Picture == nil {
		return filepath.Join(dir, "history.json"), nil
	}
	page := filepath.Join(dir, "history.html")
	return page, os.WriteFile(page, v.Picture, 0o600)
}
