package model

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// grid is a walk from one corner of a square to the other: its numbers are known.
func grid(side int) Model[[2]int] {
	return Model[[2]int]{
		Start: [][2]int{{0, 0}},
		Next: func(s [2]int, emit func(string, [2]int)) {
			if s[0] < side {
				emit("right", [2]int{s[0] + 1, s[1]})
			}
			if s[1] < side {
				emit("up", [2]int{s[0], s[1] + 1})
			}
		},
	}
}

func TestAllStatesAreVisited(t *testing.T) {
	seen := map[[2]int]int{}
	m := grid(10)
	m.Check = func(s [2]int) error { seen[s]++; return nil }
	r, err := Explore(m)
	require.NoError(t, err)
	require.Nil(t, r.Violation)
	require.Equal(t, 11*11, r.States)
	require.Equal(t, 2*10*11, r.Transitions)
	require.Equal(t, 20, r.Depth)
	require.Len(t, seen, 11*11)
	for s, n := range seen {
		require.Equal(t, 1, n, "%v is checked once", s)
	}
}

// jugs is the old riddle: four litres with a jug of three and one of five. The shortest way has six
// steps.
func jugs() Model[[2]int] {
	return Model[[2]int]{
		Start: [][2]int{{0, 0}},
		Next: func(s [2]int, emit func(string, [2]int)) {
			emit("fill 3", [2]int{3, s[1]})
			emit("fill 5", [2]int{s[0], 5})
			emit("empty 3", [2]int{0, s[1]})
			emit("empty 5", [2]int{s[0], 0})
			over := min(s[0], 5-s[1])
			emit("3 into 5", [2]int{s[0] - over, s[1] + over})
			back := min(s[1], 3-s[0])
			emit("5 into 3", [2]int{s[0] + back, s[1] - back})
		},
	}
}

func TestTheTraceIsAShortestOne(t *testing.T) {
	m, planted := jugs(), errors.New("four litres")
	m.Check = func(s [2]int) error {
		if s[1] == 4 {
			return planted
		}
		return nil
	}
	r, err := Explore(m)
	require.NoError(t, err)
	require.NotNil(t, r.Violation)
	require.ErrorIs(t, r.Violation.Reason, planted)
	require.Equal(t, []string{"fill 5", "5 into 3", "empty 3", "5 into 3", "fill 5", "5 into 3"}, r.Violation.Trace)
	require.Equal(t, [2]int{3, 4}, r.Violation.State)
	require.Contains(t, r.Violation.String(), "after 6 steps")

	m.Check = nil
	r, err = Explore(m)
	require.NoError(t, err)
	require.Equal(t, 16, r.States, "control: of the 24 pairs those that can be poured, and no violation")
}

func TestAViolationInAFirstState(t *testing.T) {
	m := grid(3)
	m.Check = func([2]int) error { return errors.New("no state is right") }
	r, err := Explore(m)
	require.NoError(t, err)
	require.Empty(t, r.Violation.Trace)
	require.Equal(t, 1, r.States)
}

// TestGoal: a step that leads nowhere is found, and only if it really leads nowhere.
func TestGoal(t *testing.T) {
	m := Model[int]{
		Start: []int{0},
		Next: func(s int, emit func(string, int)) {
			switch s {
			case 0:
				emit("on", 1)
				emit("fault", 2)
			case 1:
				emit("back", 0)
			case 2:
				emit("deeper", 3)
			case 3:
				emit("repair", 0)
			}
		},
		Goal:  func(s int) bool { return s == 0 },
		Quiet: func(label string) bool { return label != "fault" },
	}
	r, err := Explore(m)
	require.NoError(t, err)
	require.Nil(t, r.Violation, "all ways lead back")

	m.Quiet = func(label string) bool { return label != "fault" && label != "repair" }
	r, err = Explore(m)
	require.NoError(t, err)
	require.ErrorIs(t, r.Violation.Reason, ErrStuck)
	require.Equal(t, []string{"fault"}, r.Violation.Trace, "the nearest of the two")
}

func TestTooLarge(t *testing.T) {
	m := grid(100)
	m.MaxStates = 50
	_, err := Explore(m)
	require.ErrorContains(t, err, "more than 50 states")
}
