package controls_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

// A fair lock serves in order, and nobody who is gone holds up the others for long.
var fairDefences = []proof{
	{
		name: "asked for when messages come", fault: "the lock is released before the waiter is subscribed",
		off: &defence.Listening,
		try: func(l *lab) string {
			holder, first, second := l.fair(), l.fair(), l.fairAround()
			h := l.lockFair(holder)
			rule := l.proxy.DelayRequest(faultproxy.Command("SUBSCRIBE"), 1, time.Hour)
			defer rule.Release()
			l.enter(first, l.Context())
			<-rule.Fired()
			long := time.Duration(1) // a place is not to be expected
			if l.off {
				long = patience
			}
			placed := l.within(long, func() bool { return len(l.queue()) > 0 })
			granted := l.inQueue(second, l.Context())
			require.NoError(l, h.Unlock(l.Context()))
			if l.notGranted(granted) == "" && placed {
				return "had a place, and one who came later was granted the lock"
			}
			return ""
		},
	},
}

// fair makes the fair lock on a client of its own, fairAround on one that meets no faults.
func (l *lab) fair() *fairlock.Mutex       { return fairlock.New(l.client(nil), name) }
func (l *lab) fairAround() *fairlock.Mutex { return fairlock.New(l.around(), name) }

func (l *lab) lockFair(m *fairlock.Mutex) *holdfast.Hold {
	l.Helper()
	h, err := m.Lock(l.Context(), holdfast.Wait(patience))
	require.NoError(l, err)
	return h
}

// enter runs a Lock beside the test.
func (l *lab) enter(m *fairlock.Mutex, ctx context.Context) <-chan *holdfast.Hold {
	granted := make(chan *holdfast.Hold, 1)
	go func() {
		defer close(granted)
		if h, err := m.Lock(ctx); err == nil {
			granted <- h
		}
	}()
	return granted
}

// inQueue is enter that returns when the waiter has its place, behind those that are there.
func (l *lab) inQueue(m *fairlock.Mutex, ctx context.Context) <-chan *holdfast.Hold {
	l.Helper()
	before := len(l.queue())
	granted := l.enter(m, ctx)
	require.True(l, l.within(patience, func() bool { return len(l.queue()) > before }), "it waits")
	return granted
}

// notGranted is how the promise is broken to one who should have the lock by now.
func (l *lab) notGranted(granted <-chan *holdfast.Hold) string {
	if h, _ := l.outcome(granted); h == nil {
		return "slept on while the lock was free"
	}
	return ""
}

// queue are the owners in the queue.
func (l *lab) queue() []string {
	l.Helper()
	list, err := l.direct.LRange(context.Background(), "redisson_lock_queue:"+name, 0, -1).Result()
	require.NoError(l, err)
	return list
}
