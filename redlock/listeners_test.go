package redlock_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// handedOn has a process whose turn is over unlock while another goroutine of it waits, and returns how
// that one gets the lock. Another process waits too, which cannot reach the first master.
func handedOn(t *testing.T) holdfast.How {
	t.Helper()
	l := newLab(t, 3)
	hows := make(chan holdfast.How, 10)
	a := l.party(&holdfast.Options{Observer: &holdfast.Observer{
		Granted: func(_ context.Context, e holdfast.GrantEvent) { hows <- e.How },
	}})
	b, name := l.versed(nil), uniqueName(t)
	b.proxies[0].Stop()
	h, err := a.mutex(name).Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.Asked, <-hows)
	second := make(chan error, 1)
	go func() { second <- lockOnce(t.Context(), a.mutex(name)) }()
	eventually(t, "it waits in the process", func() bool {
		stacks := make([]byte, 4<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "queue.(*Ticket).Wait(")
	})
	third := make(chan error, 1)
	go func() { third <- lockOnce(t.Context(), b.mutex(name)) }()
	eventually(t, "the other one listens at the others", func() bool {
		return l.listeners(name, 1) > 0 && l.listeners(name, 2) > 0
	})
	begun := time.Now()
	eventually(t, "the turn is over", func() bool { return time.Since(begun) > 20*time.Millisecond })
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, <-second)
	require.NoError(t, <-third)
	return <-hows
}

// TestWhoIsCutOffIsSeen: a process that cannot reach one of the masters is seen at the others, and
// has its turn.
func TestWhoIsCutOffIsSeen(t *testing.T) { require.Equal(t, holdfast.Asked, handedOn(t)) }

// The control: one master is asked who waits, and the lock is handed on past that process.
func TestWhoIsCutOffIsSeenControl(t *testing.T) {
	defer defence.Listeners.Without(t)()
	require.Equal(t, holdfast.HandedOn, handedOn(t))
}
