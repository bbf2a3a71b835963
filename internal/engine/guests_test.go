package engine

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// TestGuestsAreMany: however many locks were found to be Redisson's, a bounded number is remembered,
// and one that is seen again pushes none of the others out.
func TestGuestsAreMany(t *testing.T) {
	const redisson = "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:17"
	var s guests
	key := func(i int) queue.Key { return queue.Key{Kind: "rlock", Name: strconv.Itoa(i)} }
	for i := range maxGuests {
		s.note(key(i), redisson)
	}
	s.note(key(7), redisson)
	for i := range maxGuests {
		require.True(t, s.near(key(i), time.Now()), "%d", i)
	}
	s.note(key(maxGuests), redisson)
	require.LessOrEqual(t, len(s.seen), maxGuests)
	require.True(t, s.near(key(maxGuests), time.Now()))
	s.note(key(0), "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:h17")
	require.False(t, s.near(key(0), time.Now()), "one of ours is no guest")
}

// TestGuestTurn: beside a client of Redisson's a turn is one grant or two, however long they take. Among
// clients of this library it is a time.
func TestGuestTurn(t *testing.T) {
	b := &Lock{Asker: Asker{Client: new(Client)}, Key: queue.Key{Kind: "rlock", Name: "a"}}
	turn := func(first uint64) *Tenure {
		one := &Tenure{base: b}
		one.begin(nil, first, 200)
		return one
	}
	alone := turn(1)
	alone.used = 50
	require.True(t, alone.fresh())
	alone.look = time.Now()
	require.False(t, alone.fresh(), "its time is over")

	b.Client.guests.note(b.Key, "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:17")
	require.False(t, turn(1).fresh(), "one grant is all")
	beside := turn(2)
	require.True(t, beside.fresh(), "one grant of two")
	beside.used++
	require.False(t, beside.fresh(), "two")
}
