package history

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadersAndWriters(t *testing.T) {
	judge(t, ReadWrite, []row{
		{"readers together", "read a#1; read b#1; unlock a#1 read; unlock b#1 read; lock c#2", ""},
		{"re-entered", "read a#1; reenter a#1 read; state a#1 read n2; leave a#1 read; state a#1 read n1; unlock a#1 read; lock b#2", ""},
		{"a writer reads, and goes on reading", "lock a#1; read a#1; unlock a#1; read b#1; unlock a#1 read; unlock b#1 read; lock b#2", ""},
		{"refused", "read a#1; try denied; unlock a#1 read; lock b#2; try read denied; try denied", ""},
		{"a reader that died", "read a#1; crash; 1: lock b#2 @5-110", ""},
		{"reads twice with one token", "read a#1 g1; unlock a#1 read g1; read a#1 g2; unlock a#1 read g2; lock b#2", ""},
		{"refused to read while one waits to write", "read a#1; 1: lock b#2 @3-20; 2: try read denied @5-6; unlock a#1 read @10-19", ""},
		{"refused to write under a read", "read a#1; upgrade a#1 read refused error=it+would+wait+for+itself", ""},
		{"not asked, because the client was closed", "read a#1; upgrade a#1 read closed", ""},
		{"a write that nobody knows of", "lock a#1; unlock a#1; lock left; read b#3", ""},

		{"a reader beside a writer", "lock a#1; read b#1; unlock a#1", "exclusion,linearizability"},
		{"a writer beside a reader", "read a#1; lock b#2; unlock a#1 read", "exclusion,linearizability"},
		{"two writers", "lock a#1; lock b#2", "exclusion,linearizability"},
		{"trusted beyond another's grant", "read a#1; wipe; lock b#2; end a#1 read lost till90", "exclusion"},
		{"a write with the token of the last", "lock a#1; unlock a#1; lock b#1", "linearizability"},
		{"a read with an older token", "lock a#2; unlock a#2; read b#1", "linearizability,read token"},
		{"a read with a token of nobody's", "lock a#1; unlock a#1; read b#2", "read token"},
		{"a read with the token of a later write", "read a#2; unlock a#2 read; lock b#2; unlock b#2; lock c#2", "linearizability,read token"},
		{"counted twice", "read a#1; reenter a#1 read; state a#1 read n3", "linearizability"},
		{"an inner unlock that ended all", "lock a#1; reenter a#1; leave a#1; state a#1 n0", "linearizability"},
		{"refused while free", "read a#1; unlock a#1 read; try denied", "linearizability"},
		{"refused to read beside readers", "read a#1; 1: try read denied", "linearizability"},
		{"a downgrade that ended the read", "lock a#1; read a#1; unlock a#1; state a#1 read n0", "linearizability"},
		{"granted to write under a read", "read a#1; upgrade a#1 read; unlock a#1 read", "upgrade"},
		{"waited for itself", "read a#1; upgrade a#1 read left; unlock a#1 read", "upgrade"},
		{"a reader that slept on", "lock a#1; 1: read b#1 @3-50; unlock a#1 @5-6", "wake-up"},
		{"a writer that slept on", "read a#1; 1: lock b#2 @3-50; unlock a#1 read @5-6", "wake-up"},
	})
}

// TestTurns: a reader that comes after a waiting writer does not go first. What counts is its call, and a write meanwhile.
func TestTurns(t *testing.T) {
	const (
		waits = "read a#1 @1-2; 1: queue b#0 @4-5; 1: lock b#2 @3-100; 1: queue b#0 denied @90-95; " // in its last attempt it is granted it
		later = waits + "2: read c#1 @6-50"
	)
	for _, c := range []struct {
		what, ops string
		wrong     bool
	}{
		{"came later", later, true},
		{"did not wait", waits + "2: try c#1 read @6-50", true},
		{"a guest", later + " guest", false},
		{"came before", waits + "2: read c#1 @5-50", false},
		{"in the writer's last moment", waits + "2: read c#1 @6-90", false},
		{"somebody wrote", later + "; 3: lock d#1 @20-30", false},
		{"somebody wrote already", later + "; 3: lock d#1 @1-2; 3: unlock d#1 @5-6", false},
		{"somebody had written", later + "; 3: lock d#1 @1-2; 3: unlock d#1 @4-5", true},
		{"somebody may have written", later + "; 3: lock left @20-30", false},
		{"re-enters", waits + "2: reenter c#1 read @6-50", false},
	} {
		require.Equal(t, c.wrong, len(Turns(story(ReadWrite, c.ops), Config{Lease: lease})) > 0, c.what)
	}
	ops := story(ReadWrite, later)
	require.Empty(t, Turns(ops, Config{Local: map[int][]Window{1: {{10, 20}}}}), "what the writer sent before may come late")
	require.NotEmpty(t, Turns(ops, Config{Local: map[int][]Window{2: {{10, 20}}}}))
}

// TestPermits: a semaphore of three permits. A guest is a client of Redisson's, which gets no token.
func TestPermits(t *testing.T) {
	const (
		first  = "lock a#1 x2; 1: queue b#0 @4-5; 1: lock b#3 x2 @3-60; " // b stands in the queue
		sleeps = "lock a#1 x3; 1: lock b#2 x1 @3-60; "
	)
	judge(t, Permits, []row{
		{"together", "lock a#1 x1; lock b#2 x2; unlock a#1; lock c#3 x1; unlock b#2; state n2 of3", ""},
		{"guests", "lock a#0 x1 guest; lock b#1 x1; lock c#0 x1 guest; unlock b#1; unlock a#0; lock d#2 x2", ""},
		{"a guest that passes", first + "2: lock c#0 x1 guest @6-8; 2: unlock c#0 guest @50-51; unlock a#1 @50-59", ""},
		{"refused", "lock a#1 x2; try of2 denied; unlock a#1; state n3 of3 last", ""},
		{"too many", "lock of4 refused error=raise+their+number+with+SetPermits", ""},
		{"more", "set of4; lock a#1 x4", ""},
		{"fewer", "lock a#1 x3; set of2; state n-1 of2; unlock a#1; lock b#2 x2", ""},
		{"lost", "lock a#1 x3; end a#1 lost; lock b#2 x3", ""},
		{"maybe fewer", "set of2 unknown; lock a#1 x3", ""},
		{"for one who wants many", "lock a#1 x2; 1: lock b#2 x3 @3-60; 2: lock c#3 x1 @4-80; unlock a#1 @50-59; 1: unlock b#2 @70-79", ""},
		{"fewer, perhaps, and then more", "set of2 unknown @1-2; set of4; lock a#1 x4", ""},

		{"too many are out", "lock a#1 x2; lock b#2 x2", "permits,linearizability"},
		{"too many after they were made fewer", "set of2; lock a#1 x2; lock b#2 x1", "permits,linearizability"},
		{"not all", "lock a#1 n1 of2", "permits"},
		{"a token twice", "lock a#1 x1; lock b#1 x1", "linearizability"},
		{"an old token", "lock a#2 x1; lock b#1 x1", "linearizability"},
		{"too many with a guest's", "lock a#0 x2 guest; lock b#1 x2", "permits,linearizability"},
		{"a guest that has too many", "lock b#1 x2; lock a#0 x2 guest", "permits,linearizability"},
		{"no token, and no guest", "lock a#0 x1", "linearizability"},
		{"refused while enough are free", "lock a#1 x1; try of2 denied", "linearizability"},
		{"refused as too many", "lock of3 refused error=raise+their+number+with+SetPermits", "linearizability"},
		{"given back twice", "lock a#1 x1; unlock a#1; state n4 of3", "linearizability"},
		{"one is lost", "lock a#1 x2; unlock a#1; state n2 of3 last", "linearizability,lost permits"},
		{"their number is lost", "set of4; state n3 of3 last", "linearizability,lost permits"},
		{"another number than one asked for", "lock a#1 x2; state a#1 n1 of3", "linearizability"},
		{"slept on", sleeps + "unlock a#1 @5-6", "wake-up"},
		{"slept on, and another was refused", sleeps + "2: lock of4 refused error=raise+their+number+with+SetPermits @7-8; unlock a#1 @5-6", "wake-up"},
		{"overtaken by one who wants fewer", first + "2: lock c#2 x1 @6-8; unlock a#1 @50-59", "fifo"},
	})
}

func TestLatches(t *testing.T) {
	judge(t, Latches, []row{
		{"once", "set n2; look n2; count n1; count n0; count n0; wait", ""},
		{"set already", "set n2; set n3 denied; count n1", ""},
		{"anew", "set n1; count n0; set n2; count n1", ""},
		{"taken away", "set n1; delete; delete denied; look n0", ""},
		{"maybe", "set n2; count unknown; look n1", ""},
		{"maybe not", "set n2; count unknown; look n2", ""},
		{"maybe set", "set n2 unknown; count n1", ""},
		{"never set", "wait; count n0", ""},
		{"not told", "set n3; count n-1; look n2", ""},
		{"not told, and not open", "set n2; count n-1; 1: wait @6-40; count n0 @35-36", ""},
		{"woken", "set n1; 1: wait @3-20; count n0 @18-19", ""},
		{"woken late", "set n1; count n0; 1: wait @3-14", ""},
		{"set at once", "set n1; count n0; set n1; 1: wait @3-40; count n0 @35-36", ""},
		{"perhaps set", "set n1; count n0; set n1 unknown; 1: wait @3-40", ""},
		{"between them", "set n1; 1: wait @2-9; count n0 @5-6; set n1", ""},

		{"counted twice", "set n3; count n1", "linearizability"},
		{"counted twice, and nobody was told", "set n3; count unknown; look n1", "linearizability"},
		{"not counted", "set n3; count n2; look n3", "linearizability"},
		{"not told, and not counted", "set n3; count n-1; look n3", "linearizability"},
		{"not told, and counted twice", "set n3; count n-1; look n1", "linearizability"},
		{"set twice", "set n3; set n3", "linearizability"},
		{"set already, and was not", "set n1 denied", "linearizability"},
		{"a wait that returned early", "set n1; wait; count n0", "linearizability"},
		{"taken away, and was not there", "delete", "linearizability"},
		{"gone", "set n1; look n0", "linearizability"},
		{"slept on", "set n1; count n0; 1: wait @3-15", "wake-up"},
		{"slept on after it was taken away", "set n1; delete; 1: wait @1-15", "wake-up"},
	})
	slept := story(Latches, "set n1; count n0; 1: wait @3-30")
	require.Empty(t, checks(slept, Window{8, 16}))
	require.Equal(t, []string{"wake-up"}, checks(slept, Window{5, 10}))
	ended := story(Latches, "set n2; look n0")
	require.NotEmpty(t, Check(ended, Config{Stay: 10}), "before its end")
	require.Empty(t, Check(ended, Config{Stay: 1}))
	require.NotEmpty(t, Check(story(Latches, "set n3; count n1; count n1"), Config{}))
}

// TestManyUnknown: what is not known of many calls does not make the search long.
func TestManyUnknown(t *testing.T) {
	one := "set n9 unknown" + strings.Repeat("; count unknown; count unknown; delete unknown; set n3; look n2", 4)
	all := strings.Join([]string{one, one, one}, "; ")
	c := Config{Stay: 1000, Limit: 2 * time.Minute} // without care it takes for ever
	require.Empty(t, Check(story(Latches, all), c))
	found := Check(story(Latches, all+"; look n10"), c)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Text, "no order")
}

// TestElections: their observer is 9.
func TestElections(t *testing.T) {
	judge(t, Elections, []row{
		{"one after the other", "lock a#1; 9: told a#1; leads; look a#1; unlock a#1; 9: told; look denied; lock b#2; 9: told b#2; unlock b#2; 9: observe @1-60", ""},
		{"one was missed", "lock a#1; unlock a#1; lock b#2; 9: told b#2; 9: observe @1-20", ""},
		{"lost", "lock a#1; end a#1 lost; lock b#2", ""},
		{"told of one that may have led", "lock value=of+a left; 9: told a#1; lock b#2; 9: told b#2; 9: observe @1-20", ""},
		{"said before it was killed, which counts from earlier on", "lock a#1; leads @15-16; crash @10-20", ""},
		{"unnamed", "lock unnamed:1#1 value=of+a; 9: told a#1; look a#1; 9: observe @1-30", ""},

		{"two leaders", "lock a#1; lock b#2; unlock a#1", "exclusion,linearizability"},
		{"a token twice", "lock a#1; unlock a#1; lock b#1", "linearizability"},
		{"an old token", "lock a#2; unlock a#2; lock b#1", "linearizability"},
		{"told of one that never led", "lock a#1; unlock a#1; 9: told b#2; 9: observe @1-20", "observed"},
		{"told of one before it was a candidate", "9: told a#1; lock a#1; unlock a#1; 9: observe @1-20", "observed"},
		{"told of another value", "lock a#1; 9: told a#1 value=of+b; unlock a#1; 9: observe @1-20", "observed"},
		{"another order", "lock a#1; unlock a#1; lock b#2; unlock b#2; 9: told b#2; 9: told a#1; 9: observe @1-20", "observed"},
		{"told again", "lock a#1; 9: told a#1; 9: told; 9: told a#1; unlock a#1; 9: observe @1-20", "observed"},
		{"not told of one that lasted", "lock a#1; unlock a#1 @20-21; 9: observe @1-30", "observed"},
		{"told late", "lock a#1; 9: told a#1 @15-15; 9: observe @1-30", "observed"},
		{"takes itself for the leader after that", "lock a#1; unlock a#1; leads", "leader"},
		{"the same before it was killed", "lock a#1; unlock a#1; leads @15-16; crash @10-20", "leader"},
		{"takes itself for the leader before", "leads; lock a#1", "leader"},
		{"one is named that has resigned", "lock a#1; unlock a#1; look a#1", "leader"},
		{"nobody is said to lead", "lock a#1; look denied; unlock a#1", "leader"},
		{"overtaken", "queue a#0 @2-3; lock a#2 @1-20; 1: lock b#1 @5-10; 1: unlock b#1 @11-19", "fifo"},
		{"slept on", "lock a#1; 1: lock b#2 @3-40; unlock a#1 @5-6", "wake-up"},
	})
	require.Empty(t, checks(story(Elections, "lock a#1; unlock a#1 @20-21; 9: observe @1-30"), Window{8, 9}), "it was out of reach")
}

// TestPausedLeader: what it took itself for before a pause is not used.
func TestPausedLeader(t *testing.T) {
	ops := story(Elections, "lock a#1; unlock a#1; leads")
	require.Len(t, Leaders(ops, Config{}), 1)
	require.Len(t, Leaders(ops, Config{Pauses: map[int][]Window{0: {{9, 10}}, 1: {{1, 10}}}}), 1)
	require.Empty(t, Leaders(ops, Config{Pauses: map[int][]Window{0: {{4, 10}}}}))
}

// TestLateTerms: the end of a term is noted when its process goes on after a pause.
func TestLateTerms(t *testing.T) {
	ops := story(Elections, "lock a#1; 1: lock b#2 @5-110; 1: unlock b#2 @111-112; end a#1 lost @200-201")
	wrong := func(from, to int64) int {
		return len(Exclusion(lateNews(ops, map[int][]Window{0: {{from, to}}}), Config{}))
	}
	require.Zero(t, wrong(90, 199))
	require.Equal(t, 1, wrong(111, 199), "it was paused later")
	require.Len(t, Exclusion(lateNews(ops, nil), Config{}), 1)
	ops[len(ops)-1].Deadline = 150
	require.Equal(t, 1, wrong(90, 199), "until when it was trusted is known")
}

// TestTermOutlivesPause: a term of Run may last until after a pause, and its process lead until it notes the end.
func TestTermOutlivesPause(t *testing.T) {
	for leads, wrong := range map[string]int{"@190-191": 0, "@210-211": 1} {
		ops := story(Elections, "lock unnamed:1#1 value=of+a @1-10; leads "+leads+"; end unnamed:1#1 lost @200-201")
		require.Len(t, Leaders(lateNews(ops, map[int][]Window{0: {{90, 150}}}), Config{}), wrong, leads)
	}
}

// TestFamilies: locks of several kinds are in one history, each checked as what it is.
func TestFamilies(t *testing.T) {
	ops := append(story(ReadWrite, "read a#1; read b#1"), story(Permits, "lock a#1 x1; lock b#2 x1")...)
	for i := range ops {
		ops[i].Name = string(ops[i].Of)
	}
	ops = append(ops, story(Locks, "lock a#1; 7: crash")...)
	require.Empty(t, Check(ops, Config{Lease: lease, Permits: 2}))
	require.NotEmpty(t, Check(ops, Config{Lease: lease, Permits: 1}))
}
