package model

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
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
	const side = 250 // the store grows several times, and many states are alike in the bits that say where they stand
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

// jugs is the old riddle: four litres with a jug of three and one of five. The shortest way has six steps.
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

	m.Check = func(*[2]int) error { return planted }
	r, err = Explore(m)
	require.NoError(t, err)
	require.Empty(t, r.Violation.Trace, "it is the first state")
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

func TestPromises(t *testing.T) {
	var must Promises
	errOne, errTwo := must.Never("one"), must.Never("two")
	var b Broken
	require.NoError(t, must.First(b, nil))
	b.If(false, errOne)
	b.If(true, errTwo)
	require.Equal(t, errTwo, must.First(b, nil))
	require.NoError(t, must.First(b, errOne), "another one does not count")
	require.NoError(t, must.First(b, ErrStuck))
	b.Add(errOne)
	require.Equal(t, errOne, must.First(b, nil))
	require.Equal(t, errTwo, must.First(b, errTwo))
	require.EqualError(t, must.First(b, errTwo), "two")
}

// TestNetwork: networks with the same messages are equal, however these came and went.
func TestNetwork(t *testing.T) {
	type net = [4]uint8
	n := net{1, 2, 3, 3}
	require.False(t, Put(n[:], 4), "there is no room")
	Take(n[:], 1)
	require.Equal(t, net{1, 3, 3}, n)
	require.Equal(t, 2, Count(n[:], func(m uint8) bool { return m == 3 }))
	require.Equal(t, map[int]uint8{0: 1, 1: 3}, maps.Collect(Different(n[:])))

	rnd := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // for tests
	for range 1000 {
		var a, b [6]uint8
		list := make([]uint8, rnd.IntN(7))
		for i := range list {
			list[i] = uint8(1 + rnd.IntN(4)) //nolint:gosec // few
			require.True(t, Put(a[:], list[i]))
		}
		rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, m := range list {
			require.True(t, Put(b[:], m))
		}
		require.Equal(t, a, b)
		swap := func(m uint8) (uint8, bool) { return 5 - m, m != 2 }
		Change(a[:], swap)
		var want []uint8
		for _, m := range list {
			if m != 2 {
				want = append(want, 5-m)
			}
		}
		slices.Sort(want)
		require.Equal(t, want, append([]uint8(nil), Under(a[:])...))
		require.Equal(t, make([]uint8, len(a)-len(want)), a[len(want):], "nothing is behind them")
	}
}

// TestBounds: only those that are there are told.
func TestBounds(t *testing.T) {
	type bounded struct {
		lease  uint8
		faults int
		wishes [2]uint8
		other  [2][2]uint8
		renews bool
		only   error
	}
	require.Equal(t, "{lease:3 wishes:[1 0] }", bounds(bounded{3, 0, [2]uint8{1, 0}, [2][2]uint8{}, false, nil}))
}

// TestWithout: a control whose defence is none is told from one whose promise breaks, and from one with too many states.
func TestWithout(t *testing.T) {
	explore := func(side int, off Defence, only error) (Report, error) {
		m := grid(side)
		m.Only = only
		m.Check = func(s *[2]int) error {
			if s[0] == 2 && off.Has(1) {
				return ErrStuck
			}
			return nil
		}
		if side > 5 {
			m.MaxStates = 10
		}
		return Explore(m)
	}
	way, err := without(explore, Control[int]{"a defence", 1, Scenario[int]{In: 3}, ErrStuck})
	require.NoError(t, err)
	require.Len(t, way.Violation.Trace, 2)
	_, err = without(explore, Control[int]{"none", 2, Scenario[int]{In: 3}, ErrStuck})
	require.ErrorContains(t, err, "nothing is found in 16 states")
	_, err = without(explore, Control[int]{"too large", 2, Scenario[int]{In: 9}, ErrStuck})
	require.ErrorContains(t, err, "more than 10 states")
}

// TestOnly: a goal is checked if it may be what is looked for.
func TestOnly(t *testing.T) {
	cut := 3
	m := grid(1)
	m.Goal, m.Cut = func(*[2]int) bool { return false }, &cut
	r, err := Explore(m)
	require.NoError(t, err)
	require.ErrorIs(t, r.Violation.Reason, ErrStuck)
	require.Equal(t, 3, r.Cut)
	m.Only = errors.New("another one")
	r, err = Explore(m)
	require.NoError(t, err)
	require.Nil(t, r.Violation)
}
