package history

import (
	"testing"

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

// TestTurns: a reader that comes after one who waits to write does not go first. What decides is when
// it called, and whether anybody wrote meanwhile.
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
