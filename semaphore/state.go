package semaphore

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// State is a semaphore as the server sees it at one moment.
type State struct {
	Permits int // how many there are
	// Free is the number of permits that are not out. It is negative if more are out than there
	// are.
	Free    int
	Waiters int // calls of this library that wait
	// Holders are those that have permits, in no order. Count is the number of their permits. The
	// owner of a permit of Redisson's, which has no owner, is the permit's id in hexadecimal
	// digits. Remaining of a lease without an end is the longest Duration, 292 years.
	//
	// Holders covers at most 1024 permits, those whose leases end first: more would keep the server
	// busy. Permits - Free is the number of permits that are out. If the counts add up to less,
	// Holders leaves out the rest, and one of the holders may have some of it.
	Holders []holdfast.Holder
}

// State asks the server who holds permits, in one round trip.
func (s *Semaphore) State(ctx context.Context) (State, error) {
	const op = "state"
	if err := s.check(op); err != nil {
		return State{}, err
	}
	o, err := s.base.Query(ctx, engine.Reads, func(string) lua.Call { return s.wire.State() })
	if err != nil {
		return State{}, s.fail(op, err)
	}
	return stateIn(o.Reply.SemState()), nil
}

// longest is what remains of a lease that has no end, or of which a Duration could not say more.
const longest = time.Duration(1<<63 - 1)

// stateIn is what the server's answer says.
func stateIn(r lua.SemStateReply) State {
	s := State{Permits: r.Permits, Free: r.Free, Waiters: r.Waiters}
	at := make(map[string]int)
	for _, permit := range r.Out {
		owner, left := ownerOf(permit.Name), longest
		if permit.Millis < longest.Milliseconds() {
			left = time.Duration(max(permit.Millis, 0)) * time.Millisecond
		}
		if h, known := at[owner]; known {
			s.Holders[h].Count++
			continue
		}
		at[owner] = len(s.Holders)
		s.Holders = append(s.Holders, holdfast.Holder{Owner: owner, Count: 1, Remaining: left})
	}
	return s
}

// ownerOf is who has a permit, see lua/part/permits.lua.
func ownerOf(permit string) string {
	owner, _, _ := strings.Cut(permit, "/")
	if remote.IsOwner(owner) {
		return owner
	}
	return hex.EncodeToString([]byte(permit))
}
