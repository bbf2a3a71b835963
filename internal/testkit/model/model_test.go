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
		Next: func(s [2]int, out *Steps[[2]int]) {
			if s[0] < side {
				out.Quiet(0, "right", [2]int{s[0] + 1, s[1]})
			}
			if s[1] < side {
				out.Quiet(0, "up", [2]int{s[0], s[1] + 1})
			}
		},
	}
}

func TestAllStatesAreVisited(t *testing.T) {
	const side = 60 // more states than the store begins with
	seen := map[[2]int]int{}
	m := grid(side)
	m.Check = func(s *[2]int) error { seen[*s]++; return nil }
	r, err := Explore(m)
	require.NoError(t, err)
	require.Nil(t, r.Violation)
	require.Equal(t, (side+1)*(side+1), r.States)
	require.Equal(t, 2*side*(side+1), r.Transitions)
	require.Equal(t, 2*side, r.Depth)
	require.Len(t, seen, (side+1)*(side+1))
	for s, n := range seen {
		require.Equal(t, 1, n, "%v is checked once", s)
	}
}

// TestSettle: states that are settled alike are one, and those for which there is no room are none.
func TestSettle(t *testing.T) {
	m := grid(10)
	m.Settle = func(s *[2]int) bool {
		s[0], s[1] = max(s[0], s[1]), min(s[0], s[1])
		return s[1] <= 8 || s[0] == 10
	}
	r, err := Explore(m)
	require.NoError(t, err)
	require.Equal(t, 11*12/2-1, r.States, "one of each two, and not the one at 9, 9")
	m.Check = func(s *[2]int) error {
		if s[1] == 10 {
			return errors.New("the corner")
		}
		return nil
	}
	r, err = Explore(m)
	require.NoError(t, err)
	require.Len(t, r.Violation.Trace, 20)
	require.NotContains(t, r.Violation.Trace, "", "steps are found again though they are settled")
}

// jugs is the old riddle: four litres with a jug of three and one of five. The shortest way has six
// steps.
func jugs() Model[[2]int] {
	return Model[[2]int]{
		Next: func(s [2]int, out *Steps[[2]int]) {
			out.Quiet(0, "fill 3", [2]int{3, s[1]})
			out.Quiet(0, "fill 5", [2]int{s[0], 5})
			out.Quiet(0, "empty 3", [2]int{0, s[1]})
			out.Quiet(0, "empty 5", [2]int{s[0], 0})
			over := min(s[0], 5-s[1])
			out.Quiet('A', "3 into 5", [2]int{s[0] - over, s[1] + over})
			back := min(s[1], 3-s[0])
			out.Quiet('B', "5 into 3", [2]int{s[0] + back, s[1] - back})
		},
	}
}

func TestTheTraceIsAShortestOne(t *testing.T) {
	m, planted := jugs(), errors.New("four litres")
	m.Check = func(s *[2]int) error {
		if s[1] == 4 {
			return planted
		}
		return nil
	}
	r, err := Explore(m)
	require.NoError(t, err)
	require.NotNil(t, r.Violation)
	require.ErrorIs(t, r.Violation.Reason, planted)
	require.Equal(t, []string{"fill 5", "B: 5 into 3", "empty 3", "B: 5 into 3", "fill 5", "B: 5 into 3"},
		r.Violation.Trace)
	require.Equal(t, [2]int{3, 4}, r.Violation.State)
	require.Equal(t, 6, r.Depth)
	require.Contains(t, r.Violation.String(), "after 6 steps")

	m.Check = nil
	r, err = Explore(m)
	require.NoError(t, err)
	require.Equal(t, 16, r.States, "control: of the 24 pairs those that can be poured, and no violation")
}

func TestAViolationInTheFirstState(t *testing.T) {
	m := grid(3)
	m.Check = func(*[2]int) error { return errors.New("no state is right") }
	r, err := Explore(m)
	require.NoError(t, err)
	require.Empty(t, r.Violation.Trace)
	require.Equal(t, 1, r.States)
}

// TestGoal: a step that leads nowhere is found, and only if it really leads nowhere.
func TestGoal(t *testing.T) {
	ring := func(repairs bool) Model[int] {
		return Model[int]{
			Next: func(s int, out *Steps[int]) {
				switch s {
				case 0:
					out.Quiet(0, "on", 1)
					out.Loud(0, "fault", 2)
				case 1:
					out.Quiet(0, "back", 0)
				case 2:
					out.Quiet(0, "deeper", 3)
				case 3:
					out.Step(0, "repair", repairs, 0)
				}
			},
			Goal: func(s *int) bool { return *s == 0 },
		}
	}
	r, err := Explore(ring(true))
	require.NoError(t, err)
	require.Nil(t, r.Violation, "all ways lead back")

	r, err = Explore(ring(false))
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
