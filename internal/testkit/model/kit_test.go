package model

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStore: states are numbered as they come, each once, also when many of their hashes are alike in
// the bits that say where they stand.
func TestStore(t *testing.T) {
	store := newStore[[3]uint8]()
	numbers, rnd := map[[3]uint8]int32{}, rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for tests
	for range 100_000 {
		s := [3]uint8{uint8(rnd.IntN(40)), uint8(rnd.IntN(40)), uint8(rnd.IntN(40))} //nolint:gosec // few
		known, seen := numbers[s]
		n, first := store.put(&s)
		require.Equal(t, !seen, first)
		if seen {
			require.Equal(t, known, n)
		} else {
			require.EqualValues(t, len(numbers), n)
		}
		require.Equal(t, s, *store.at(n))
		numbers[s] = n
	}
	require.Equal(t, len(numbers), store.size)
	require.Greater(t, store.size, firstSlots, "it has grown, or this shows little")
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
	order := cmp.Compare[uint8]
	var n net
	for _, m := range []uint8{3, 1, 3, 2} {
		require.True(t, Put(n[:], m, order))
	}
	require.Equal(t, net{1, 2, 3, 3}, n)
	require.False(t, Put(n[:], 4, order), "there is no room")
	Take(n[:], 1)
	require.Equal(t, net{1, 3, 3}, n)
	require.Equal(t, []uint8{1, 3, 3}, Under(n[:]))
	require.Equal(t, 2, Count(n[:], func(m uint8) bool { return m == 3 }))
	different := map[int]uint8{}
	for i, m := range Different(n[:]) {
		different[i] = m
	}
	require.Equal(t, map[int]uint8{0: 1, 1: 3}, different)
	Change(n[:], order, func(m uint8) (uint8, bool) { return 9 - m, m != 1 })
	require.Equal(t, net{6, 6}, n)
	require.Empty(t, Under(make([]uint8, 2)))

	rnd := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // for tests
	for range 1000 {
		var a, b [6]uint8
		list := make([]uint8, rnd.IntN(7))
		for i := range list {
			list[i] = uint8(1 + rnd.IntN(4)) //nolint:gosec // few
			require.True(t, Put(a[:], list[i], order))
		}
		rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, m := range list {
			require.True(t, Put(b[:], m, order))
		}
		require.Equal(t, a, b)
		swap := func(m uint8) (uint8, bool) { return 5 - m, m != 2 }
		Change(a[:], order, swap)
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

func TestLess(t *testing.T) {
	two, endless := uint8(2), uint8(Endless)
	require.False(t, Less(&two))
	require.True(t, Less(&two))
	require.False(t, Less(&two))
	require.Zero(t, two)
	require.False(t, Less(&endless))
	require.EqualValues(t, Endless, endless)
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

// TestWithout: a control whose defence is none is told from one whose promise is broken.
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
	way, err := without(explore, Control[int, Defence]{"a defence", 1, 3, ErrStuck})
	require.NoError(t, err)
	require.Len(t, way.Violation.Trace, 2)
	_, err = without(explore, Control[int, Defence]{"none", 2, 3, ErrStuck})
	require.ErrorContains(t, err, "nothing is found in 16 states")
	_, err = without(explore, Control[int, Defence]{"too large", 2, 9, ErrStuck})
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
