package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

func holder(owner string, count int) holdfast.Holder {
	return holdfast.Holder{Owner: owner, Count: count, Remaining: time.Second}
}

// TestBetween: what two looks make of a lock.
func TestBetween(t *testing.T) {
	at := func(kind string, token uint64, holders ...holdfast.Holder) *sight {
		return &sight{kind: kind, token: token, holders: holders, waiters: 2}
	}
	latch := func(left int) *sight { return &sight{kind: "latch", left: left, waiters: -1} }
	for what, c := range map[string]struct {
		before, now *sight
		want        string
	}{
		"free at first":     {nil, at("", 0), "free"},
		"held at first":     {nil, at("rlock", 7, holder("a", 1)), "held a"},
		"readers at first":  {nil, at("rwlock", 7, holder("a", 1), holder("b", 1)), "held a, held b"},
		"granted":           {at("", 0), at("rlock", 7, holder("a", 1)), "granted a"},
		"released":          {at("rlock", 7, holder("a", 1)), at("rlock", 7), "released a"},
		"from one to other": {at("rlock", 7, holder("b", 1)), at("rlock", 8, holder("a", 1)), "released b, granted a"},
		"entered":           {at("rlock", 7, holder("a", 1)), at("rlock", 7, holder("a", 2)), "entered a"},
		"handed on":         {at("rlock", 7, holder("a", 1)), at("rlock", 9, holder("a", 1)), "handed on a"},
		"renewed":           {at("rlock", 7, holder("a", 1)), at("rlock", 7, holder("a", 1)), ""},
		"missed":            {at("rlock", 7), at("rlock", 9), "missed"},
		"still free":        {at("rlock", 7), at("rlock", 7), ""},
		"a reader more":     {at("rwlock", 7, holder("a", 1)), at("rwlock", 8, holder("a", 1), holder("b", 1)), "granted b"},
		"a reader less": {at("rwlock", 7, holder("a", 1), holder("b", 1)), at("rwlock", 7, holder("a", 1)),
			"released b"},
		"permits": {at("semaphore", 0, holder("a", 1)), at("semaphore", 0, holder("b", 2), holder("c", 1)),
			"released a, granted b, granted c"},
		"a latch at first":   {nil, latch(3), "counted"},
		"counted":            {latch(3), latch(2), "counted"},
		"not counted":        {latch(3), latch(3), ""},
		"a latch that opens": {latch(1), &sight{kind: "latch", waiters: -1}, "counted"},
	} {
		t.Run(what, func(t *testing.T) {
			var got []string
			for _, e := range between(c.before, c.now) {
				got = append(got, strings.TrimSpace(e.Event+" "+e.Owner))
			}
			require.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

// TestPause: a lock is looked at when its lease ends, soon after something happened, and not more
// often than fifty times a second.
func TestPause(t *testing.T) {
	w := &watcher{watchConfig: watchConfig{every: span{Duration: time.Hour}}}
	ends := func(d time.Duration) *sight { return &sight{holders: []holdfast.Holder{{Remaining: d}}} }
	require.Equal(t, time.Hour, w.pause(nil, eager))
	require.Equal(t, time.Hour, w.pause(ends(2*time.Hour), eager))
	require.Equal(t, 5001*time.Millisecond, w.pause(ends(5*time.Second), eager))
	require.Equal(t, soonest, w.pause(ends(1), eager))
	require.Equal(t, time.Hour, w.pause(ends(-1), eager), "without a lease")
	require.Equal(t, soonest, w.pause(nil, 0))
	require.Equal(t, 640*time.Millisecond, w.pause(nil, 5))
	w.every.Duration = 100 * time.Millisecond
	require.Equal(t, 100*time.Millisecond, w.pause(nil, 5))
}

// TestLines: columns for people, without colour where there is no terminal, and without what a
// terminal would obey in what others wrote.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	show := lines(&out)
	s := &sight{kind: "election", token: 1795615607474408, waiters: 3, leader: "a\x1b[31m\n" + strings.Repeat("x", 80)}
	owner := "90f7d261-bffb-433a-80c9-bf315a7d8e80:h1"
	require.NoError(t, show(s.of("granted", holdfast.Holder{Owner: owner, Count: 1, Remaining: 29900 * time.Millisecond})))
	require.NoError(t, show(s.of("granted", holdfast.Holder{Owner: owner, Count: 1, Remaining: 3 * time.Hour})))
	require.NoError(t, show(s.of("granted", holdfast.Holder{Owner: owner, Count: 1, Remaining: -1e6})))
	require.NoError(t, show((&sight{waiters: -1}).without("free", "")))
	got := strings.Split(out.String(), "\n")
	require.Len(t, got, 6)
	require.Equal(t, []string{"TIME", "EVENT", "OWNER", "TOKEN", "COUNT", "LEFT", "WAIT"}, strings.Fields(got[0]))
	require.Equal(t, []string{"granted", owner, "1795615607474408", "1", "29.9s", "3"}, strings.Fields(got[1])[1:7])
	require.Contains(t, got[1], `a\x1b[31m\nxxx`)
	require.Contains(t, got[1], "…")
	require.Contains(t, got[2], " 180m ")
	require.Contains(t, got[3], " none ")
	require.Equal(t, []string{"free", "-", "-", "-", "-", "-"}, strings.Fields(got[4])[1:])
	require.NotContains(t, out.String(), "\x1b")
}
