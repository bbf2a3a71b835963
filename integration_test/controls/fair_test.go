package controls_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

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
			holder, first := fairlock.New(l.client(nil), name), fairlock.New(l.client(nil), name)
			second := fairlock.New(l.around(), name)
			h := l.lock(holder, l.Context())
			rule := l.proxy.DelayRequest(faultproxy.Command("SUBSCRIBE"), 1, time.Hour)
			defer rule.Release()
			l.background(first, l.Context())
			<-rule.Fired()
			long := time.Duration(1) // a place is not to be expected
			if l.off {
				long = patience
			}
			placed := l.within(long, func() bool { return len(l.queue()) > 0 })
			before := len(l.queue())
			granted := l.background(second, l.Context())
			require.True(l, l.within(patience, func() bool { return len(l.queue()) > before }), "it waits")
			require.NoError(l, h.Unlock(l.Context()))
			if h, _ := l.outcome(granted); h != nil && placed {
				return "had a place, and one who came later was granted the lock"
			}
			return ""
		},
	},
}

// queue are the owners in the queue.
func (l *lab) queue() []string {
	l.Helper()
	list, err := l.direct.LRange(context.Background(), "redisson_lock_queue:"+name, 0, -1).Result()
	require.NoError(l, err)
	return list
}
