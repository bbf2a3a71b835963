package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// poll are stories of an election. Its observer is actor 9 of client 9.
type poll struct{ story }

func (s *poll) op(o Op) *poll {
	o.Of = Elections
	if o.Result == "" {
		o.Result = OK
	}
	s.add(o)
	return s
}

func (s *poll) lead(owner string, token uint64) *poll {
	return s.op(Op{Kind: Lock, Owner: owner, Token: token, Value: "of " + owner})
}

func (s *poll) resign(owner string, token uint64) *poll {
	return s.op(Op{Kind: Unlock, Owner: owner, Token: token, Last: true})
}

func (s *poll) told(owner string, token uint64) *poll {
	value := ""
	if owner != "" {
		value = "of " + owner
	}
	return s.op(Op{Client: 9, Actor: 9, Kind: Told, Seen: owner, Token: token, Value: value})
}

func (s *poll) observe(from, to int64) *poll {
	return s.op(Op{Client: 9, Actor: 9, Kind: Observe, Call: from, Return: to})
}

func (s *poll) look(owner string, token uint64, r Result) *poll {
	return s.op(Op{Client: 9, Actor: 9, Kind: Look, Seen: owner, Token: token, Value: "of " + owner, Result: r})
}

func (s *poll) leads() *poll { return s.op(Op{Kind: Leads}) }

func TestGoodElections(t *testing.T) {
	for what, s := range map[string]*poll{
		"one after the other": new(poll).lead("a", 1).told("a", 1).leads().look("a", 1, OK).resign("a", 1).told("", 0).look("", 0, Denied).
			lead("b", 2).told("b", 2).resign("b", 2).observe(1, 60),
		"one was missed": new(poll).lead("a", 1).resign("a", 1).lead("b", 2).told("b", 2).observe(1, 20),
		"lost":           new(poll).lead("a", 1).op(Op{Kind: End, Owner: "a", Token: 1, Result: Lost}).lead("b", 2),
		"told of one that may have led": new(poll).op(Op{Kind: Lock, Value: "of a", Result: Left}).told("a", 1).lead("b", 2).
			told("b", 2).observe(1, 20),
		"said before it was killed, which counts from earlier on": new(poll).lead("a", 1).op(Op{Kind: Leads, Call: 15, Return: 16}).
			op(Op{Kind: Crash, Call: 10, Return: 20}),
		"unnamed": new(poll).op(Op{Kind: Lock, Owner: Unnamed + "1", Token: 1, Value: "of a"}).told("a", 1).look("a", 1, OK).observe(1, 30),
	} {
		require.Empty(t, checks(s.ops), what)
	}
}

func TestBadElections(t *testing.T) {
	for _, c := range []struct {
		what  string
		wants []string
		s     *poll
	}{
		{"two leaders", []string{"exclusion", "linearizability"}, new(poll).lead("a", 1).lead("b", 2).resign("a", 1)},
		{"a token twice", []string{"tokens", "linearizability"}, new(poll).lead("a", 1).resign("a", 1).lead("b", 1)},
		{"an old token", []string{"tokens", "linearizability"}, new(poll).lead("a", 2).resign("a", 2).lead("b", 1)},
		{"told of one that never led", []string{"observed"}, new(poll).lead("a", 1).resign("a", 1).told("b", 2).observe(1, 20)},
		{"told of one before it was a candidate", []string{"observed"}, new(poll).told("a", 1).lead("a", 1).resign("a", 1).observe(1, 20)},
		{"told of another value", []string{"observed"}, new(poll).lead("a", 1).
			op(Op{Client: 9, Actor: 9, Kind: Told, Seen: "a", Token: 1, Value: "of b"}).resign("a", 1).observe(1, 20)},
		{"another order", []string{"observed"}, new(poll).lead("a", 1).resign("a", 1).lead("b", 2).resign("b", 2).told("b", 2).
			told("a", 1).observe(1, 20)},
		{"told again", []string{"observed"}, new(poll).lead("a", 1).told("a", 1).told("", 0).told("a", 1).resign("a", 1).observe(1, 20)},
		{"not told of one that lasted", []string{"observed"}, new(poll).lead("a", 1).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 20, Return: 21}).observe(1, 30)},
		{"told late", []string{"observed"}, new(poll).lead("a", 1).
			op(Op{Client: 9, Actor: 9, Kind: Told, Seen: "a", Token: 1, Value: "of a", Call: 15, Return: 15}).observe(1, 30)},
		{"takes itself for the leader after that", []string{"leader"}, new(poll).lead("a", 1).resign("a", 1).leads()},
		{"the same before it was killed", []string{"leader"}, new(poll).lead("a", 1).resign("a", 1).
			op(Op{Kind: Leads, Call: 15, Return: 16}).op(Op{Kind: Crash, Call: 10, Return: 20})},
		{"takes itself for the leader before", []string{"leader"}, new(poll).leads().lead("a", 1)},
		{"one is named that has resigned", []string{"leader"}, new(poll).lead("a", 1).resign("a", 1).look("a", 1, OK)},
		{"nobody is said to lead", []string{"leader"}, new(poll).lead("a", 1).look("", 0, Denied).resign("a", 1)},
		{"overtaken", []string{"fifo"}, new(poll).op(Op{Kind: Queue, Owner: "a", Call: 2, Return: 3}).
			op(Op{Kind: Lock, Owner: "a", Token: 2, Value: "of a", Call: 1, Return: 20}).
			op(Op{Actor: 1, Kind: Lock, Owner: "b", Token: 1, Call: 5, Return: 10}).
			op(Op{Actor: 1, Kind: Unlock, Owner: "b", Token: 1, Last: true, Call: 11, Return: 19})},
		{"slept on", []string{"wake-up"}, new(poll).lead("a", 1).op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 2, Call: 3, Return: 40}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 5, Return: 6})},
	} {
		require.Equal(t, c.wants, checks(c.s.ops), c.what)
	}
	late := new(poll).lead("a", 1).op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 20, Return: 21}).observe(1, 30)
	require.Empty(t, checks(late.ops, Window{8, 9}), "it was out of reach")
}

// TestPausedLeader: what it took itself for before a pause is not used.
func TestPausedLeader(t *testing.T) {
	s := new(poll).lead("a", 1).resign("a", 1).leads()
	require.Len(t, Leaders(s.ops, Config{}), 1)
	require.Len(t, Leaders(s.ops, Config{Pauses: map[int][]Window{0: {{9, 10}}, 1: {{1, 10}}}}), 1)
	require.Empty(t, Leaders(s.ops, Config{Pauses: map[int][]Window{0: {{4, 10}}}}))
}

// TestLateTerms: the end of a term is noted when its process goes on after a pause.
func TestLateTerms(t *testing.T) {
	s := new(poll).lead("a", 1).
		op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 2, Value: "of b", Call: 5, Return: 110}).
		op(Op{Client: 1, Actor: 1, Kind: Unlock, Owner: "b", Token: 2, Last: true, Call: 111, Return: 112}).
		op(Op{Kind: End, Owner: "a", Token: 1, Result: Lost, Call: 200, Return: 201})
	pauses := func(from, to int64) map[int][]Window { return map[int][]Window{0: {{from, to}}} }
	require.Empty(t, Exclusion(lateNews(s.ops, pauses(90, 199))))
	require.Len(t, Exclusion(lateNews(s.ops, pauses(111, 199))), 1, "it was paused later")
	require.Len(t, Exclusion(lateNews(s.ops, nil)), 1)
	s.ops[len(s.ops)-1].Deadline = 150
	require.Len(t, Exclusion(lateNews(s.ops, pauses(90, 199))), 1, "until when it was trusted is known")
}

// TestTermOutlivesPause: a term of Run may last until after a pause, and its process lead until it notes the end.
func TestTermOutlivesPause(t *testing.T) {
	term := func(leads int64) []Op {
		return lateNews(new(poll).op(Op{Kind: Lock, Owner: Unnamed + "1", Token: 1, Value: "of a", Call: 1, Return: 10}).
			op(Op{Kind: Leads, Call: leads, Return: leads + 1}).
			op(Op{Kind: End, Owner: Unnamed + "1", Token: 1, Result: Lost, Call: 200, Return: 201}).ops, map[int][]Window{0: {{90, 150}}})
	}
	require.Empty(t, Leaders(term(190), Config{}))
	require.Len(t, Leaders(term(210), Config{}), 1)
}

// TestFamilies: locks of several kinds are in one history, each checked as what it is.
func TestFamilies(t *testing.T) {
	s := new(rw).read("a", 1).read("b", 1)
	s.ops = append(s.ops, new(sem).take("a", 1, 1).take("b", 2, 1).ops...)
	for i := range s.ops {
		s.ops[i].Name = string(s.ops[i].Of)
	}
	s.ops = append(s.ops, new(story).lock("a", 1).add(Op{Client: 7, Kind: Crash}).ops...)
	require.Empty(t, Check(s.ops, Config{Lease: lease, Permits: 2}))
	require.NotEmpty(t, Check(s.ops, Config{Lease: lease, Permits: 1}))
}
