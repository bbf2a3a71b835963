package history

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
