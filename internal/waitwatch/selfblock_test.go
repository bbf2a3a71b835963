package waitwatch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fake is a grant of a lock by name.
type fake struct {
	name  string
	entry Entry
	under []Grant
	here  Grant
	since time.Time // zero: the lock was handed off to it
}

func (f *fake) Lock() Lock                        { return Lock{Key: queue.Key{Kind: "rlock", Name: f.name}} }
func (f *fake) Entry() *Entry                     { return &f.entry }
func (f *fake) Identity() (string, uint64)        { return f.name, 1 }
func (f *fake) Under(int) []Grant                 { return f.under }
func (f *fake) InTheWay() (owner string, _ Grant) { return "", f.here }

func (f *fake) HeldFrom(seen time.Time) time.Time {
	if f.since.IsZero() {
		return seen
	}
	return f.since
}

func newWatch(log slog.Handler) *Watch {
	return New(Config{
		Client: "id", LongWait: time.Second, Log: slog.New(log), Tasks: &task.Group{}, Life: context.Background(),
		Held: func(map[string]bool, func(string, string, Grant)) {},
	})
}

// TestBlockedByAnotherWait: a wait ends just before it is reported. The next one for the same holder is reported, once.
func TestBlockedByAnotherWait(t *testing.T) {
	log := &logged{Handler: slog.DiscardHandler}
	w := newWatch(log)
	holder := &fake{name: "a", since: time.Now()}
	wait := func() longWait {
		g := &fake{name: "a", under: []Grant{holder}}
		w.entries.enter(&g.entry, g, 0)
		return longWait{seen: seen{&g.entry, g, g.entry.number}, lock: g.Lock(), waited: time.Minute, under: g.under}
	}
	l, later := newWaitChecker(w), time.Now().Add(time.Minute)
	ended := wait()
	w.Leave(ended.Entry)
	l.selfBlocks.check(l, []longWait{ended}, later)
	require.Zero(t, log.n.Load())
	for range 2 {
		l.selfBlocks.check(l, []longWait{wait()}, later)
	}
	require.EqualValues(t, 1, log.n.Load())
}

// TestHandedFromHandToHand: a wait is long, and each holder in its way is brief. The control is a holder as long as the wait.
func TestHandedFromHandToHand(t *testing.T) {
	log := &logged{Handler: slog.DiscardHandler}
	w := newWatch(log)
	l, g, now := newWaitChecker(w), &fake{name: "a"}, time.Now()
	w.entries.enter(&g.entry, g, 0)
	look := func(holder Grant) {
		g.here, now = holder, now.Add(l.long/2)
		l.selfBlocks.check(l, []longWait{{seen: seen{&g.entry, g, g.entry.number}, lock: g.Lock(), waited: time.Hour}}, now)
	}
	for range 10 {
		holder := &fake{name: "a"}
		look(holder)
		look(holder)
		require.Zero(t, log.n.Load())
	}
	look(g.here)
	require.EqualValues(t, 1, log.n.Load(), "control")
}

// crowded is how many waits of callers that hold something are checked, where hundreds of others came before.
func crowded() (holding int) {
	w := newWatch(slog.DiscardHandler)
	var list []seen
	wait := func(under ...Grant) {
		g := &fake{name: "wanted", under: under}
		list = append(list, seen{&g.entry, g, uint64(len(list))}) //nolint:gosec // few
	}
	for range mostChecked + 1 {
		wait()
	}
	wait(&fake{name: "has"})
	l := newWaitChecker(w)
	l.past = []mark{{time.Now(), uint64(len(list))}}
	for _, one := range l.longOnes(list, time.Now()) {
		if len(one.under) > 0 {
			holding++
		}
	}
	return holding
}

// TestLookedAtInACrowd: the wait of a caller that holds a lock is checked behind any number of callers that only wait.
func TestLookedAtInACrowd(t *testing.T) { require.Equal(t, 1, crowded()) }

// TestLookedAtInACrowdControl: with one number for all it is not, and a circle would not be seen.
func TestLookedAtInACrowdControl(t *testing.T) {
	defer defence.OwnNumber.Without(t)()
	require.Zero(t, crowded())
}

// TestHints: the hint helps whoever follows it, so it depends on what the holder has.
func TestHints(t *testing.T) {
	holder := queue.Key{Kind: "rwlock", Name: "a", Side: "read"}
	writes := queue.Key{Kind: "rwlock", Name: "a", Side: "write"}
	for _, c := range []struct {
		waits Lock
		hint  string
	}{
		{Lock{Key: holder}, "lock under hold.Context()"},
		{Lock{Key: writes, NoUpgrade: true}, "unlock that hold first"},
		{Lock{Key: queue.Key{Kind: "rlock", Name: "a"}}, "holds the name as rwlock; use one kind"},
		{Lock{Key: holder, NoReentry: true}, "it waits for itself"},
	} {
		require.Contains(t, c.waits.HintFor(holder), c.hint)
	}
}
