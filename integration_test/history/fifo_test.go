package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// waiter is a Lock that had its place from the return of its first attempt on.
func (s *story) waiter(client int, asked, queued int64, lock Op) *story {
	lock.Client, lock.Actor, lock.Kind, lock.Name = client, client, Lock, "a"
	if lock.Call == 0 {
		lock.Call = asked
	}
	s.add(Op{Client: client, Actor: client, Kind: Queue, Owner: lock.Owner, Result: OK, Call: asked, Return: queued})
	return s.add(lock)
}

func granted(owner string, token uint64, at int64) Op {
	return Op{Owner: owner, Token: token, Result: OK, Return: at}
}

// lostBy is the end of a hold of another owner of a client.
func lostBy(client int, at int64) Op {
	return Op{Client: client, Actor: 9, Name: "a", Kind: End, Owner: "z", Token: 1, Result: Lost, Call: at, Return: at}
}

// TestFifo: two waiters, of which the first surely had its place at 5. What the second does
// decides.
func TestFifo(t *testing.T) {
	first := granted("a", 2, 40)
	for _, c := range []struct {
		what  string
		s     *story
		wrong bool
	}{
		{"in order", new(story).waiter(1, 4, 5, granted("a", 1, 20)).waiter(2, 6, 7, granted("b", 2, 40)), false},
		{"overtaken", new(story).waiter(1, 4, 5, first).waiter(2, 6, 7, granted("b", 1, 20)), true},
		{"both asked at one time", new(story).waiter(1, 4, 5, first).waiter(2, 5, 7, granted("b", 1, 20)), false},
		{"called late, but asked early", new(story).waiter(1, 4, 5, first).
			waiter(2, 6, 7, Op{Owner: "b", Token: 1, Result: OK, Call: 3, Return: 20}), true},
		{"passed by one that never waited", new(story).waiter(1, 4, 5, first).
			add(Op{Client: 2, Actor: 2, Kind: Try, Owner: "b", Token: 1, Result: OK, Call: 6, Return: 7}), true},
		{"which called before", new(story).waiter(1, 4, 5, first).
			add(Op{Client: 2, Actor: 2, Kind: Try, Owner: "b", Token: 1, Result: OK, Call: 5, Return: 7}), false},
		{"granted what it had before it asked for a place", new(story).waiter(1, 4, 5, first).
			add(Op{Client: 2, Actor: 2, Kind: Queue, Owner: "b", Result: Denied, Call: 6, Return: 7}).
			add(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "b", Token: 1, Result: OK, Call: 3, Return: 7}), false},
		{"overtaken, and left after that", new(story).waiter(1, 4, 5, Op{Result: Left, Return: 30}).
			waiter(2, 6, 7, granted("b", 1, 20)), true},
		{"left, and then the other was granted it", new(story).waiter(1, 4, 5, Op{Result: Left, Return: 15}).
			waiter(2, 6, 7, granted("b", 1, 20)), false},
		{"still waits", new(story).waiter(1, 4, 5, Op{Result: Unknown, Return: Forever}).waiter(2, 6, 7,
			granted("b", 1, 20)), true},
		{"died", new(story).waiter(1, 4, 5, Op{Result: Unknown, Return: Forever}).
			add(Op{Client: 1, Kind: Crash, Call: 15, Return: 16}).waiter(2, 6, 7, granted("b", 1, 20)), false},
		{"died later", new(story).waiter(1, 4, 5, Op{Result: Unknown, Return: Forever}).
			add(Op{Client: 1, Kind: Crash, Call: 25, Return: 26}).waiter(2, 6, 7, granted("b", 1, 20)), true},
		{"another died", new(story).waiter(1, 4, 5, first).
			add(Op{Client: 3, Kind: Crash, Call: 15, Return: 16}).waiter(2, 6, 7, granted("b", 1, 20)), true},
		{"never surely had one", new(story).
			add(Op{Client: 1, Actor: 1, Kind: Queue, Result: Unknown, Call: 4, Return: 5}).
			add(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "a", Token: 2, Result: OK, Call: 3, Return: 40}).
			waiter(2, 6, 7, granted("b", 1, 20)), false},
		{"of another lock", new(story).waiter(1, 4, 5, first).
			add(Op{Client: 2, Actor: 2, Name: "b", Kind: Try, Owner: "b", Token: 1, Result: OK, Call: 6, Return: 7}),
			false},
		{"the data was lost", new(story).waiter(1, 4, 5, first).add(Op{Kind: Wipe, Result: OK, Call: 10, Return: 11}).
			waiter(2, 6, 7, granted("b", 1, 20)), false},
		{"its client lost the lock", new(story).waiter(1, 4, 5, first).add(lostBy(1, 10)).waiter(2, 6, 7,
			granted("b", 1, 20)), false},
		{"its client lost it before", new(story).waiter(1, 4, 5, first).add(lostBy(1, 4)).waiter(2, 6, 7,
			granted("b", 1, 20)), true},
		{"its client lost it later", new(story).waiter(1, 4, 5, first).add(lostBy(1, 21)).waiter(2, 6, 7,
			granted("b", 1, 20)), true},
		{"another client lost it", new(story).waiter(1, 4, 5, first).add(lostBy(3, 10)).waiter(2, 6, 7,
			granted("b", 1, 20)), true},
	} {
		found := Fifo(c.s.ops, Config{Recovery: 5})
		require.Equal(t, c.wrong, len(found) > 0, c.what)
	}
}

// TestFifoExcuses: who could not be reached while it waited may be passed over. That others could
// not does not matter.
func TestFifoExcuses(t *testing.T) {
	s := new(story).waiter(1, 4, 5, granted("a", 2, 40)).waiter(2, 6, 7, granted("b", 1, 20))
	for _, c := range []struct {
		what  string
		fault Window
		wrong bool
	}{
		{"meanwhile", Window{10, 12}, false},
		{"before, and it had not recovered", Window{1, 2}, false},
		{"long before", Window{-5, -2}, true},
		{"after it was overtaken", Window{21, 22}, true},
	} {
		config := Config{Recovery: 5, Faults: []Window{c.fault}}
		require.Equal(t, c.wrong, len(Fifo(s.ops, config)) > 0, "all: "+c.what)
		config = Config{Recovery: 5, Local: map[int][]Window{1: {c.fault}}}
		require.Equal(t, c.wrong, len(Fifo(s.ops, config)) > 0, "it: "+c.what)
		config = Config{Recovery: 5, Local: map[int][]Window{2: {c.fault}}}
		require.Len(t, Fifo(s.ops, config), 1, "the other: "+c.what)
	}
	left := new(story).waiter(1, 4, 5, Op{Result: Left, Return: 30}).waiter(2, 6, 7, granted("b", 1, 20))
	require.Len(t, Fifo(left.ops, Config{Slack: 9}), 1)
	require.Empty(t, Fifo(left.ops, Config{Slack: 10}), "it may have left long before it said so")
}

// TestRefusedForTheQueue: a fair lock that is free refuses who does not wait while somebody else
// has a place.
func TestRefusedForTheQueue(t *testing.T) {
	refusal := func(at int64) Op { return Op{Kind: Try, Result: Denied, Call: at, Return: at + 1} }
	refused := func(at int64, lock Op) *story {
		return new(story).waiter(1, 40, 41, lock).add(refusal(at))
	}
	c := Config{Lease: lease, Recovery: 5, Place: 20}
	wrong := func(s *story) bool { return len(Linearizable(s.ops, c)) > 0 }
	waited := granted("a", 1, 50)
	require.False(t, wrong(refused(45, waited)))
	require.True(t, wrong(refused(20, waited)), "nobody had a place yet")
	left := Op{Result: Left, Return: 50}
	require.False(t, wrong(refused(54, left)), "its place is being given back")
	// The Lock that left is a ghost too, for as long as a lease may stand; so a refusal after that.
	require.True(t, wrong(refused(200, left)))
	require.True(t, wrong(new(story).add(refusal(45))), "a lock without a queue")
}

// TestFifoOfPermits: who was handed permits and asks again gets a new token, so nothing is known of its
// turn. Who waits for more than there are has no turn.
func TestFifoOfPermits(t *testing.T) {
	s := new(story).waiter(1, 4, 5, Op{Owner: "a", Token: 2, Result: OK, Return: 40, Total: 2}).waiter(2, 6, 7, granted("b", 1, 20))
	for i := range s.ops {
		s.ops[i].Of = Permits
	}
	require.Len(t, Fifo(s.ops, Config{}), 1)
	again := Op{Of: Permits, Name: "a", Client: 1, Actor: 1, Kind: Queue, Owner: "a", Result: Denied, Call: 30, Return: 31}
	require.Empty(t, Fifo(append(s.ops, again), Config{}))
	fewer := Op{Of: Permits, Name: "a", Kind: Set, Total: 1, Result: OK, Call: 10, Return: 11}
	require.Empty(t, Fifo(append(s.ops, fewer), Config{}))
	fewer.Total = 2
	require.Len(t, Fifo(append(s.ops, fewer), Config{}), 1)
}
