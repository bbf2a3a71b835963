package deadlock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// says is what a client says in one text: waits as "has>wants".
func says(client string, number uint64, waits ...string) *Published {
	s := &Published{Client: client, Number: number}
	for i, wait := range waits {
		has, wants, _ := strings.Cut(wait, ">")
		w := Wait{Lock: Lock{Name: wants}, ID: uint64(i + 1), Owner: client + ":h1", Holds: []Hold{}} //nolint:gosec // few
		for _, name := range strings.Fields(has) {
			name, reads := strings.CutPrefix(name, "r:")
			w.Holds = append(w.Holds, Hold{Lock: Lock{Name: name, Reading: reads}, Owner: client + ":h1", Token: 7})
		}
		w.Name, w.Reading = strings.CutPrefix(wants, "r:")
		s.Waits = append(s.Waits, w)
	}
	return s
}

// shown is a circle as text.
func shown(c Circle) string {
	var parts []string
	for _, s := range c {
		parts = append(parts, s.Published.Client+":"+s.Has.Name)
	}
	return strings.Join(parts, " ")
}

func TestCircles(t *testing.T) {
	for _, test := range []struct {
		said []*Published
		want []string
	}{
		{nil, nil},
		{[]*Published{says("a", 1, "x>y"), says("b", 1, "y>x")}, []string{"a:x b:y"}},
		{[]*Published{says("a", 1, "x>y"), says("b", 1, "y>z"), says("c", 1, "z>x")}, []string{"a:x b:y c:z"}},
		{[]*Published{says("a", 1, "x>y", "p>q"), says("b", 1, "y>x", "q>p")}, []string{"a:x b:y", "a:p b:q"}},
		{[]*Published{says("a", 1, "x>y"), says("b", 1, "y>z")}, nil},                                        // a chain
		{[]*Published{says("a", 1, "x>y"), says("b", 1, "z>x")}, nil},                                        // from one to the other
		{[]*Published{says("a", 1, "x>x")}, nil},                                                             // an owner re-enters
		{[]*Published{says("a", 1, "r:x>r:y"), says("b", 1, "r:y>r:x")}, nil},                                // readers
		{[]*Published{says("a", 1, "r:x>y"), says("b", 1, "r:y>x")}, []string{"a:x b:y"}},                    // who want to write
		{[]*Published{says("a", 1, "x>y"), says("b", 1, "y w>x"), says("c", 1, "v>w")}, []string{"a:x b:y"}}, // c is behind it, and not in it
		{[]*Published{says("a", 1, "x>y"), says("b", 1, "y>z"), says("c", 1, "z>x y"), says("d", 1, "y>x")}, []string{"a:x d:y"}},
	} {
		var got []string
		for _, c := range NewGraph(test.said...).Circles("") {
			got = append(got, shown(c))
		}
		require.Equal(t, test.want, got, "%v", test.want)
	}
}

// TestCirclesOfOneClient begin with its wait, and are those of others that it is not in.
func TestCirclesOfOneClient(t *testing.T) {
	g := NewGraph(says("a", 1, "x>y"), says("b", 1, "y>x"), says("c", 1, "x2>y2"), says("d", 1, "y2>x2"))
	require.Len(t, g.Circles(""), 2)
	all := g.Circles("d")
	require.Len(t, all, 1)
	require.Equal(t, "d:y2 c:x2", shown(all[0]))
	require.Empty(t, g.Circles("e"))
}

// TestSeveralMasters: a lock that several masters grant is another one than that of one server.
func TestSeveralMasters(t *testing.T) {
	a, b := says("a", 1, "x>y"), says("b", 1, "y>x")
	a.Waits[0].Several = 3
	require.Empty(t, NewGraph(a, b).Circles(""))
	b.Waits[0].Holds[0].Several = 3
	require.Len(t, NewGraph(a, b).Circles(""), 1)
}

// TestSeenTwice: a and b are never in a circle, and what is read of them at different moments shows one:
// a gives x up before b waits for it. The control: whoever looks once would say so.
func TestSeenTwice(t *testing.T) {
	var w Watch
	old, late := says("a", 5, "x>y"), says("b", 1, "y>x")
	look := func(all ...*Published) []Circle { return w.See(NewGraph(all...).Circles("")) }
	require.Len(t, NewGraph(old, late).Circles(""), 1, "control: the two moments show a circle")
	require.Empty(t, look(old, late))
	late = says("b", 3, "y>x")
	require.Empty(t, look(old, late), "of a there is nothing new")
	late.Number = 9
	old = says("a", 6, "x>y")
	require.Empty(t, look(old, late), "which may have been made before the first look")
	require.True(t, w.Doubted())
	require.Empty(t, look(says("a", 7, "w>y"), late))
	require.False(t, w.Doubted())

	require.Empty(t, look(says("a", 8, "x>y"), late))
	again := says("a", 10, "x>y")
	again.Waits[0].Holds[0].Token++
	late = says("b", 11, "y>x")
	require.Empty(t, look(again, late), "another grant of x")
	other := says("a", 12, "x>y")
	other.Waits[0].Holds[0].Token++
	other.Waits[0].ID++
	require.Empty(t, look(other, says("b", 13, "y>x")), "another wait")
	require.True(t, w.Doubted())
	sure := says("a", 14, "x>y")
	sure.Waits[0] = other.Waits[0]
	require.Len(t, look(sure, says("b", 15, "y>x")), 1)
	require.False(t, w.Doubted())
	sure.Number = 99
	require.Empty(t, look(sure, says("b", 99, "y>x")), "it is told once")
	require.Empty(t, look(sure), "b's text has ended")
	sure.Number = 101
	require.Empty(t, look(sure, says("b", 101, "y>x")))
	sure.Number = 103
	require.Empty(t, look(sure, says("b", 103, "y>x")), "the same waits and holds are the same deadlock")
	w.Forget(func(wait uint64) bool { return wait == sure.Waits[0].ID })
	require.Len(t, w.known, 1)
	w.Forget(func(uint64) bool { return false })
	require.Empty(t, w.known)
}

// TestSeenTwiceControl: without the second look a circle is told that never stood.
func TestSeenTwiceControl(t *testing.T) {
	defer defence.SeenTwice.Without(t)()
	var w Watch
	require.Len(t, w.See(NewGraph(says("a", 5, "x>y"), says("b", 1, "y>x")).Circles("")), 1)
}

func TestText(t *testing.T) {
	s := says("a", 3, "x>y", "r:p q>z")
	s.Label, s.EveryMS = "who", 20
	s.Waits[0].Holds[0].Token = 1<<63 + 1
	s.Waits[0].Name, s.Waits[0].Holds[0].Name = "\xff", "\xfe" // no UTF-8
	back, err := Parse(s.Text())
	require.NoError(t, err)
	require.Equal(t, s, back)
	for _, bad := range []string{"", "{}", "[]", `{"version":2}`, "no JSON", strings.Repeat(" ", 5*mostText)} {
		_, err := Parse(bad)
		require.Error(t, err, "%.20q", bad)
	}
	s.Label = "\x1b[31mred"
	back, err = Parse(s.Text())
	require.NoError(t, err)
	require.Empty(t, back.Label, "no client says this of itself")
	for every, want := range map[int64]int64{-1: 0, 15_000: 15_000, 15_001: 15_000, 1<<63 - 1: 15_000} {
		s.EveryMS = every
		back, err = Parse(s.Text())
		require.NoError(t, err)
		require.Equal(t, want, back.EveryMS)
	}
	many := &Published{Client: "a"}
	for i := range MostWaits {
		many.Waits = append(many.Waits, Wait{Lock: Lock{Name: strings.Repeat("n", 5000)}, ID: uint64(i)}) //nolint:gosec // few
	}
	text := many.Text()
	require.LessOrEqual(t, len(text), mostText)
	back, err = Parse(text)
	require.NoError(t, err)
	require.NotEmpty(t, back.Waits)
	require.Equal(t, fmt.Sprint(0), fmt.Sprint(back.Waits[0].ID), "the oldest ones are told")
}
