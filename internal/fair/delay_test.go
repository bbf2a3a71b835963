package fair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

// TestDelay: a waiter's first request is delayed while another of its client has a place. One that is taken back is not sent.
func TestDelay(t *testing.T) {
	ls := &waitlists{}
	l := &waitlist{lists: ls}
	newRequest := func(asked, wantsPlace bool) *request {
		return &request{waiter: &waiter{list: l}, wantsPlace: wantsPlace, joins: wantsPlace && !asked}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	require.False(t, l.delayLocked(newRequest(false, true)), "no waiter has a place")
	l.inQueue = 1
	require.False(t, l.delayLocked(newRequest(false, false)), "it asks for the lock")
	require.False(t, l.delayLocked(newRequest(true, true)), "it asks again")
	first, second := newRequest(false, true), newRequest(false, true)
	require.True(t, l.delayLocked(first))
	require.True(t, l.delayLocked(second))
	require.True(t, l.cancelDelayedLocked(first))
	require.False(t, l.cancelDelayedLocked(first))
	require.Equal(t, []*request{second}, l.delayed)
	require.True(t, l.cancelDelayedLocked(second))
	l.sendDelayedLocked() // has nothing to send
}

func TestMain(m *testing.M) { leak.Main(m) }
