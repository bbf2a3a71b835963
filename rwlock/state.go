package rwlock

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// State is a lock as the server sees it at one moment.
type State struct {
	Writing bool // an owner writes; otherwise all holders read
	// Holders are those who have the lock, in no order: the writer, or all readers. Readers whose
	// leases have ended are left out, even while the server still has their fields. An owner that
	// writes and reads appears once, as the writer.
	Holders []holdfast.Holder
	Token   uint64 // of the last write; 0: none known
	Waiters int    // writers of this library that wait, one for each client at most
}

// State asks the server who holds the lock, in one round trip. These are errors: a hash of more
// than 1024 holders, and a key that is not a read-write lock.
func (m *RWMutex) State(ctx context.Context) (State, error) {
	if err := m.check("state"); err != nil {
		return State{}, err
	}
	o, err := m.ask(ctx)
	if err != nil {
		return State{}, m.fail("state", err)
	}
	s := stateIn(o.Reply.RwState())
	for i := range s.Holders {
		s.Holders[i].Owner = remote.OwnerIn(s.Holders[i].Owner)
	}
	return s, nil
}

// stateIn is what the server's answer says. Owners are as the server has them.
func stateIn(r lua.RwStateReply) State {
	s := State{Writing: r.Writing, Token: r.Token, Waiters: r.Waiters}
	for _, h := range r.Holders {
		owner, writes := strings.CutSuffix(h.Field, writes)
		if writes != r.Writing {
			continue // the one who writes reads, too
		}
		left := time.Duration(max(h.Millis, 0)) * time.Millisecond
		s.Holders = append(s.Holders, holdfast.Holder{Owner: owner, Count: h.Count, Remaining: left})
	}
	return s
}

func (m *RWMutex) ask(ctx context.Context) (remote.Outcome, error) {
	return m.write.Query(ctx, engine.Reads, func(string) lua.Call { return m.protocol.State() })
}

// ForceUnlock frees the lock of the writer, or of all readers, and wakes the waiters. It reports
// whether there was a holder: one of [State.Holders]. A read hold of the writer's owner stays. Use
// ForceUnlock for holders that are known to be dead. A holder that is still alive works on until it
// learns of its loss, at its next renewal. Only fencing tokens protect from that.
//
// ForceUnlock asks who holds the lock and then releases the holds of these owners. So it never
// forces out the next holders, even if a reply is lost and the client sends the release again.
// There is one exception: an owner that unlocks and locks again between the two steps has the same
// name, and loses its new hold. With more than 1024 holders ForceUnlock frees none, and returns the
// error of [RWMutex.State].
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.check("force unlock"); err != nil {
		return false, err
	}
	seen, err := m.ask(ctx)
	state := stateIn(seen.Reply.RwState())
	if err != nil || len(state.Holders) == 0 {
		return false, m.fail("force unlock", err)
	}
	o, err := m.write.Query(ctx, engine.Changes, func(publish string) lua.Call {
		if state.Writing {
			return writing{m.protocol}.Release(state.Holders[0].Owner, publish)
		}
		readers := make([]string, len(state.Holders))
		for i, h := range state.Holders {
			readers[i] = h.Owner
		}
		return m.protocol.force(readers, publish)
	})
	if err != nil {
		return false, m.fail("force unlock", err)
	}
	m.write.RenewNow()
	m.read.RenewNow()
	if refused := o.Reply.Unannounced(); refused != "" {
		return true, m.fail("force unlock", engine.Unheard(m.write, refused))
	}
	return o.Reply.Status == lua.Done || o.MayArriveLate, nil
}
