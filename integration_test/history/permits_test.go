package history

import "testing"

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
		{"too many", "lock of4 refused error=HOLDFAST_PERMITS", ""},
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
		{"refused as too many", "lock of3 refused error=HOLDFAST_PERMITS", "linearizability"},
		{"given back twice", "lock a#1 x1; unlock a#1; state n4 of3", "linearizability"},
		{"one is lost", "lock a#1 x2; unlock a#1; state n2 of3 last", "linearizability,lost permits"},
		{"their number is lost", "set of4; state n3 of3 last", "linearizability,lost permits"},
		{"another number than one asked for", "lock a#1 x2; state a#1 n1 of3", "linearizability"},
		{"slept on", sleeps + "unlock a#1 @5-6", "wake-up"},
		{"slept on, and another was refused", sleeps + "2: lock of4 refused error=HOLDFAST_PERMITS @7-8; unlock a#1 @5-6", "wake-up"},
		{"overtaken by one who wants fewer", first + "2: lock c#2 x1 @6-8; unlock a#1 @50-59", "fifo"},
	})
}
