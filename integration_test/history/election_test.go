package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
