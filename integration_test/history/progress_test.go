package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgress: a lock that is free and wanted is granted within 10, to anybody.
func TestProgress(t *testing.T) {
	const left = "1: lock left @30-36; 1: lock left @37-43; 2: lock left @42-50"
	for _, c := range []struct {
		what, ops string
		bad       bool
	}{
		{"granted", "lock a#1 @1-2; unlock a#1 @3-4; 1: lock b#2 @5-14", false},
		{"to one who waited too long", "lock a#1 @1-2; unlock a#1 @3-4; 1: lock b#2 @5-17", true},
		{"to nobody", left, true},
		{"while another had it", "lock a#1 @1-2; " + left + "; unlock a#1 @51-52", false},
		{"for a part of the time", "lock a#1 @1-2; unlock a#1 @38-42; " + left, false},
		{"to callers who have no time", "1: lock left @30-33; 1: lock left @34-37; 2: lock left @37-40; 1: lock left @40-43", false},
		{"of whom one does not wait for the other", "1: lock left @30-36; 2: lock left @39-45", false},
		{"in the time after a fault", "1: lock left @3-14", false},
	} {
		config := Config{Lease: lease, Window: 10, Serving: 4, Recovery: 5, Faults: []Window{{-9, 1}}}
		require.Equal(t, c.bad, len(Progress(story(Locks, c.ops), config)) > 0, c.what)
	}
}
